# SPDX-License-Identifier: GPL-2.0-only
"""Output of ``ss -tin``, printed again and again with the time before each.

The time is a line of its own, or begins each line: seconds since 1970 (``date +%s.%N``), ISO 8601, a time of day, what
``date`` or ``ts`` prints, or the word time with seconds since the beginning. It stands before its listing, or behind it
as flent prints it. The data that a connection sends and the data that it receives are two connections here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from io import BufferedReader

from bbrgym.paths.json_values import iso_s
from bbrgym.paths.samples import NAN, Connection, Connections, LogProblem, PathLog, plausible_mss_bytes

FORMAT = "ss -tin"

_LONGEST_LINE = 2**14
_SOCKET = re.compile(r"\s*(?:tcp\s+)?(?:[A-Z][A-Z0-9-]+\s+)?\d+\s+\d+\s+(\S+:[\w*-]+)\s+(\S+:[\w*-]+)(?=\s|$)")
_VALUE = re.compile(r"(?<![\w:(,])([a-z_]+):([\d.]+)(?:/([\d.]+))?")
_CC = re.compile(r"(?:^|\s)([a-z][a-z0-9_]*) wscale:")
_EPOCH = re.compile(r"[\s#=\[-]*(?:[A-Za-z]+[:=] ?)?(\d{9,10}\.\d{1,9}|\d{9,10}|\d{13}|\d{19})(?=[\s#=\]:-]|$)")
_ISO = re.compile(r"[\s#=\[-]*(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?")
_CLOCK = re.compile(  # of the date, too, only the time of day counts
    r"[\s#=\[-]*(?:[a-z]+[:=] ?)?(?:[A-Z][a-z]{2},? )?(?:[A-Z][a-z]{2} +\d{1,2} |\d{1,2} [A-Z][a-z]{2} )?(?:\d{4} )?"
    r"(?:\d{1,4}([-/.])\d{1,2}\1\d{1,4} )?(\d\d?):(\d\d):(\d\d(?:[.,]\d{1,9})?)"
    r"(?: ?([AP])M)?(?: UTC| GMT| [A-Z]{2,3}T)?(?: \d{4})?(?=[\s\]:#=-]|$)",
    re.IGNORECASE,
)
_COUNT = re.compile(r"[\s#=\[-]*time:? +(\d{1,8}(?:\.\d{1,9})?)(?= |s|$)", re.IGNORECASE)
_UNITS_S = {13: 1e-3, 19: 1e-9}
_TICK_S = 0.004  # of most distributions' kernels
_HEAD = re.compile(r"\s*(State|Netid|Recv-Q)\s")
_HALF_DAY_S = 43_200.0
_MOST_OF_LISTING = 2**12  # connections
_REUSED = 0.5  # of what was delivered, below which it is another connection from the same ports


def is_ss(begin: str) -> bool:
    """Return whether a text begins as ss's output does."""
    return any(_SOCKET.match(_after_time(line)[1]) for line in begin.splitlines()) and _VALUE.search(begin) is not None


def read_ss(file: BufferedReader, begin: str) -> PathLog:
    """Return the connections of the log, which begins with a text. Raises LogProblem: it has no times."""
    connections = Connections()
    is_behind = _is_time_behind(begin)
    time_s, day_s = NAN, 0.0
    ends: tuple[str, str] | None = None
    listing: list[tuple[tuple[str, str], str]] = []
    for line in _lines(file):
        at_s, text = _after_time(line)
        if at_s is not None:
            if _CLOCK.match(line) and at_s + day_s < time_s - _HALF_DAY_S:
                day_s += 2 * _HALF_DAY_S
            time_s = at_s + day_s
            for known in listing if is_behind else ():
                _add(connections, *known, time_s)
            listing = []
        socket = _SOCKET.match(text)
        if socket is not None:
            ends = (socket[1], socket[2])
            text = text[socket.end() :]
        if ends is not None and "rtt:" in text:
            if not is_behind and not math.isnan(time_s):
                _add(connections, ends, text, time_s)
            elif is_behind and len(listing) < _MOST_OF_LISTING:
                listing.append((ends, text))
            ends = None
    if math.isnan(time_s):
        raise LogProblem("is output of ss without times, expected a time before each, as date +%s.%N prints it")
    return PathLog(FORMAT, connections.all())


def _is_time_behind(begin: str) -> bool:
    """Return whether the log begins with a listing: with a head or, without one, with a connection."""
    lines = [_after_time(line) for line in begin.splitlines()]
    heads = [index for index, (_, text) in enumerate(lines) if _HEAD.match(text)]
    sockets = [index for index, (_, text) in enumerate(lines) if _SOCKET.match(text)]
    times = [index for index, (time_s, _) in enumerate(lines) if time_s is not None]
    return bool(times) and min(heads or sockets) < times[0]


def _add(connections: Connections, ends: tuple[str, str], text: str, time_s: float) -> None:
    found = {name: (value, second) for name, value, second in _VALUE.findall(text)}
    values = {name: _number(value) for name, (value, _) in found.items()}
    mss_bytes = plausible_mss_bytes(values.get("mss", NAN))
    min_rtt_s = values.get("minrtt", NAN) / 1e3
    delivered_bytes = values.get("bytes_acked", 0.0) + _sacked_bytes(values)
    if "bytes_acked" in values or "data_segs_out" in values:
        connection = connections[(*ends, "out")]
        if connection.last is not None and delivered_bytes < _REUSED * connection.last.delivered_bytes:
            for way in ("out", "in"):
                connections.end((*ends, way))
            connection = connections[(*ends, "out")]
        _describe(connection, ends, text, mss_bytes)
        again_pkts = _number(found["retrans"][1] or "0") if "retrans" in found else 0.0
        held_ms = values.get("rwnd_limited", 0.0) + values.get("sndbuf_limited", 0.0)
        exact_s = _exact_s(connection, time_s, values.get("busy", NAN) / 1e3)
        connection.hold(held_ms / 1e3 + connection.idle_s)
        connection.add(
            time_s=exact_s,
            delivered_bytes=delivered_bytes,
            rtt_s=values.get("rtt", NAN) / 1e3,
            min_rtt_s=min_rtt_s,
            retransmitted_pkts=again_pkts - values.get("dsack_dups", 0.0),
            app_limited=float(" app_limited" in text),
            cwnd_pkts=values.get("cwnd", NAN),
        )
    if "bytes_received" in values:
        connection = connections[(*ends, "in")]
        _describe(connection, ends, "", plausible_mss_bytes(values.get("rcvmss", NAN)))
        connection.vantage = "receiver"
        connection.add(time_s, values["bytes_received"], min_rtt_s=min_rtt_s)


def _exact_s(connection: Connection, time_s: float, busy_s: float) -> float:
    """Return when the kernel answered, by the kernel's busy time: the log's time is from some ms before.

    A machine that is late makes the log's time too small, never too large. The kernel counts in ticks.
    """
    if math.isnan(busy_s):
        return time_s
    connection.late_s = _TICK_S / 2
    connection.idle_s = max(connection.idle_s, time_s - busy_s)
    return busy_s + connection.idle_s


def _sacked_bytes(values: dict[str, float]) -> float:
    """Return the bytes that arrived beyond a gap; without these, delivery would stall and leap at each loss."""
    return values.get("sacked", 0.0) * values.get("mss", 0.0)


def _describe(connection: Connection, ends: tuple[str, str], text: str, mss_bytes: float) -> None:
    connection.peer = " ".join(end.rpartition(":")[0] for end in ends)
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
            time_s = time_of(found)
            return (None, line) if math.isnan(time_s) else (time_s, line[found.end() :])
    return None, line


def _epoch_s(found: re.Match[str]) -> float:
    return float(found[1]) * _UNITS_S.get(len(found[1]) if "." not in found[1] else 0, 1.0)


def _iso_s(found: re.Match[str]) -> float:
    return iso_s(found[1] + (found[2] or ""))


def _clock_s(found: re.Match[str]) -> float:
    hours = int(found[2]) % 12 + 12 * (found[5] in "Pp") if found[5] else int(found[2])
    return hours * 3600 + int(found[3]) * 60 + float(found[4].replace(",", "."))


def _count_s(found: re.Match[str]) -> float:
    return float(found[1])


_TIMES = ((_ISO, _iso_s), (_CLOCK, _clock_s), (_EPOCH, _epoch_s), (_COUNT, _count_s))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return NAN
