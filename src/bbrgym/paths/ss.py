# SPDX-License-Identifier: GPL-2.0-only
"""Output of ``ss -tin``, printed again and again with the time before each.

The time is a line of its own, or begins each line: seconds since 1970 (``date +%s.%N``), ISO 8601, what ``date``
prints, or the word time with seconds since the beginning. The data that a connection sends and the data that it
receives are two connections here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BufferedReader

from bbrgym.paths.samples import NAN, Connection, Connections, LogProblem, PathLog, Sample, plausible_mss_bytes

FORMAT = "ss -tin"

_LONGEST_LINE = 2**14
_SOCKET = re.compile(r"\s*(?:[A-Z][A-Z0-9-]+\s+)?\d+\s+\d+\s+(\S+:[\w*-]+)\s+(\S+:[\w*-]+)(?=\s|$)")
_VALUE = re.compile(r"(?<![\w:(,])([a-z_]+):([\d.]+)(?:/([\d.]+))?")
_CC = re.compile(r"(?:^|\s)([a-z][a-z0-9_]*) wscale:")
_EPOCH = re.compile(r"[\s#=\[-]*(?:[a-z]+[:=] ?)?(\d{9,10}\.\d{1,9}|\d{9,10}|\d{13}|\d{19})(?=[\s#=\]:-]|$)")
_ISO = re.compile(r"[\s#=\[-]*(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")
_DATE = re.compile(
    r"[\s#=\[-]*(?:[A-Z][a-z]{2} )([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d)(?: [AP]M)?(?: \w+)? (\d{4})"
)
_COUNT = re.compile(r"[\s#=\[-]*time:? +(\d{1,8}(?:\.\d{1,9})?)(?= |s|$)", re.IGNORECASE)
_UNITS_S = {13: 1e-3, 19: 1e-9}
_TICK_S = 0.004  # of most distributions' kernels


def is_ss(begin: str) -> bool:
    """Return whether a text begins as ss's output does."""
    return any(_SOCKET.match(_after_time(line)[1]) for line in begin.splitlines()) and _VALUE.search(begin) is not None


def read_ss(file: BufferedReader) -> PathLog:
    """Return the connections of the log.

    Raises:
        LogProblem: it has no times.
    """
    connections = Connections()
    time_s, is_timed = NAN, False
    ends: tuple[str, str] | None = None
    for line in _lines(file):
        at_s, text = _after_time(line)
        if at_s is not None:
            time_s, is_timed = at_s, True
        socket = _SOCKET.match(text)
        if socket is not None:
            ends = (socket[1], socket[2])
            text = text[socket.end() :]
        if ends is not None and "rtt:" in text and is_timed:
            _add(connections, ends, text, time_s)
            ends = None
    if not is_timed:
        raise LogProblem("is output of ss without times, expected a time before each, as date +%s.%N prints it")
    return PathLog(FORMAT, connections.all())


def _add(connections: Connections, ends: tuple[str, str], text: str, time_s: float) -> None:
    found = {name: (value, second) for name, value, second in _VALUE.findall(text)}
    values = {name: _number(value) for name, (value, _) in found.items()}
    mss_bytes = plausible_mss_bytes(values.get("mss", NAN))
    min_rtt_s = values.get("minrtt", NAN) / 1e3
    if "bytes_acked" in values or "data_segs_out" in values:
        connection = connections[(*ends, "out")]
        _describe(connection, ends[1], text, mss_bytes)
        connection.add(
            Sample(
                time_s=_exact_s(connection, time_s, values.get("busy", NAN) / 1e3),
                delivered_bytes=values.get("bytes_acked", 0.0) + _sacked_bytes(values),
                rtt_s=values.get("rtt", NAN) / 1e3,
                min_rtt_s=min_rtt_s,
                retransmitted_pkts=_number(found["retrans"][1] or "0") if "retrans" in found else 0.0,
                app_limited=float(" app_limited" in text),
                cwnd_pkts=values.get("cwnd", NAN),
            )
        )
    if "bytes_received" in values:
        connection = connections[(*ends, "in")]
        _describe(connection, ends[1], "", plausible_mss_bytes(values.get("rcvmss", NAN)))
        connection.vantage = "receiver"
        connection.add(Sample(time_s, values["bytes_received"], min_rtt_s=min_rtt_s))


def _exact_s(connection: Connection, time_s: float, busy_s: float) -> float:
    """Return when the kernel answered, by the time that it counted with data: the log's time is from some ms before.

    A machine that is late makes the log's time too small, never too large. The kernel counts in ticks.
    """
    if math.isnan(busy_s):
        return time_s
    connection.late_s = _TICK_S / 2
    connection.idle_s = max(connection.idle_s, time_s - busy_s)
    return busy_s + connection.idle_s


def _sacked_bytes(values: dict[str, float]) -> float:
    """Return what arrived beyond a gap: without it, delivery would stall and leap at each loss."""
    return values.get("sacked", 0.0) * values.get("mss", 0.0)


def _describe(connection: Connection, peer: str, text: str, mss_bytes: float) -> None:
    connection.peer = peer.rpartition(":")[0]
    connection.mss_bytes = mss_bytes
    cc = _CC.search(text)
    connection.cc = cc[1] if cc is not None else ""


def _lines(file: BufferedReader) -> Iterator[str]:
    while line := file.readline(_LONGEST_LINE):
        yield line.decode("ascii", "replace").rstrip("\r\n")


def _after_time(line: str) -> tuple[float | None, str]:
    """Return the time that begins a line, None if none does, and the rest of the line."""
    for pattern, time_of in _TIMES:
        found = pattern.match(line)
        if found is not None:
            try:
                return time_of(found), line[found.end() :]
            except ValueError:
                return None, line
    return None, line


def _epoch_s(found: re.Match[str]) -> float:
    return float(found[1]) * _UNITS_S.get(len(found[1]) if "." not in found[1] else 0, 1.0)


def _iso_s(found: re.Match[str]) -> float:
    time = datetime.fromisoformat(found[1].replace(",", ".") + (found[2] or ""))
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def _date_s(found: re.Match[str]) -> float:
    text = f"{found[1]} {found[2]} {found[4]} {found[3]}"
    return datetime.strptime(text, "%b %d %Y %H:%M:%S").replace(tzinfo=UTC).timestamp()


def _count_s(found: re.Match[str]) -> float:
    return float(found[1])


_TIMES = ((_ISO, _iso_s), (_DATE, _date_s), (_EPOCH, _epoch_s), (_COUNT, _count_s))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return NAN
