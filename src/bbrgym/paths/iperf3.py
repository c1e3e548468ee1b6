# SPDX-License-Identifier: GPL-2.0-only
"""Logs of iperf3: ``--json`` or ``--json-stream``, of the client or of the server, of one test or of several in turn.

An interval of the sender counts bytes written to its socket, which are those delivered but for what the send buffer
gains; it fills in the first interval, which is left out. What arrived in all, the receiver says at the end. Both sides
count whole blocks. The sender's RTT is the kernel's smoothed RTT at the interval's end, not a minimum. Behind what -O
omits, a first interval may state a beginning or a length that is not its own, and is left out then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bbrgym.paths.json_values import mapping, mappings, number
from bbrgym.paths.samples import NAN, Connection, Connections, LogProblem, PathLog, plausible_mss_bytes

FORMAT = "iperf3"

_AGREE = 0.1  # of an interval's length
_REACHED = 0.8  # of a rate that was set, from which on it is what limits
_WINDOW = 0.75  # of a window, which a smoothed RTT may make look less full


def is_iperf3(values: Any) -> bool:
    """Return whether the first of the values of a file is iperf3's."""
    if not isinstance(values, dict):
        return False
    return ("start" in values and "end" in values) or values.get("event") == "start"


def read_iperf3(values: Iterable[Any]) -> PathLog:
    """Return the streams of tests; a test that is in the file twice is taken once."""
    connections = Connections()
    known: set[str] = set()
    problem, is_twice = "", False
    for test in _tests(values):
        start = mapping(test.get("start"))
        key = str(start.get("cookie") or hash(str(test)))
        is_twice |= key in known
        if str(mapping(start.get("test_start")).get("protocol", "TCP")).upper() != "TCP":
            problem = "is a test of iperf3's without TCP, expected one of TCP"
        elif key not in known:
            known.add(key)
            begun_s = number(mapping(start.get("timestamp")).get("timesecs"))
            _read_test(connections, test, start, len(known), connections.in_turn_s(begun_s))
            problem = "is a test of iperf3's that failed" if "error" in test else problem
    found = connections.all()
    if problem and not found:
        raise LogProblem(problem)
    for connection in found:
        connection.notes += ["the test stands twice in it, and was taken once"] if is_twice else []
        connection.notes += [f"{len(known)} tests stand in it"] if len(known) > 1 else []
    return PathLog(FORMAT, found)


def _tests(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield tests in the form of ``--json``, those of ``--json-stream`` too."""
    events: dict[str, Any] = {}
    for value in map(mapping, values):
        name = value.get("event")
        if events and "start" in (name, *value):
            yield events
            events = {}
        if "start" in value:
            yield dict(value)
        elif name == "interval":
            events.setdefault("intervals", []).append(value.get("data"))
        elif name is not None:
            events[str(name)] = value.get("data")
    if events:
        yield events


def _read_test(
    connections: Connections, values: Mapping[str, Any], start: Mapping[str, Any], index: int, offset_s: float
) -> None:
    begun: set[int] = set()
    for stream in _streams(values.get("intervals")):
        socket = stream.get("socket")
        if not isinstance(socket, int) or stream.get("omitted") is True:  # times begin again behind what -O omits
            continue
        connection = connections[index, socket]
        if socket not in begun:
            begun.add(socket)
            _describe(connection, stream, start, mapping(values.get("end")))
            begin_s, end_s, seconds = (number(stream.get(name)) for name in ("start", "end", "seconds"))
            is_left_out = connection.at_sender or abs(end_s - begin_s - seconds) > _AGREE * seconds
            first_s = offset_s + (end_s if is_left_out else begin_s)
            connection.add(first_s, 0.0, retransmitted_pkts=0.0)
            if is_left_out:
                continue
        _add(connection, stream, start, offset_s)


def _describe(connection: Connection, stream: Mapping[str, Any], start: Mapping[str, Any], end: Any) -> None:
    test, socket, sender = mapping(start.get("test_start")), stream.get("socket"), stream.get("sender")
    connection.mss_bytes = plausible_mss_bytes(number(start.get("tcp_mss", start.get("tcp_mss_default"))))
    connection.step_bytes = max(number(test.get("blksize")), 0.0)
    if not isinstance(sender, bool):
        role = "accepted_connection" if number(test.get("reverse")) > 0 else "connecting_to"
        sender = "retransmits" in stream or role in start
    connection.vantage = "sender" if sender else "receiver"
    connection.counts_socket = sender
    connection.peer = str(next(mappings(start.get("connected")), {}).get("remote_host", ""))
    streams = list(mappings(end.get("streams")))
    # With --bidir "sender" is the sender of the streams that iperf3 lists last.
    is_last = not streams or mapping(streams[-1].get("sender")).get("sender", sender) == sender
    cc = end.get("sender_tcp_congestion" if is_last else "receiver_tcp_congestion")
    connection.cc = cc if isinstance(cc, str) else ""
    totals = [one for one in (mapping(each.get("receiver")) for each in streams) if one.get("socket") == socket]
    share = 1.0
    if not totals and "sum_received_bidir_reverse" not in end:
        totals, share = [mapping(end.get("sum_received"))], 1 / max(number(test.get("num_streams")), 1.0)
    for total in totals:
        received_bytes, received_bps = number(total.get("bytes")), number(total.get("bits_per_second"))
        if received_bytes > 0 and received_bps > 0:  # 0 where the receiver did not say
            connection.received_bytes = received_bytes * share
            connection.received_s = received_bytes * 8 / received_bps  # some versions give the sender's seconds


def _add(connection: Connection, stream: Mapping[str, Any], start: Mapping[str, Any], offset_s: float) -> None:
    last = connection.last
    if last is None:
        return
    rtt_s = (number(stream.get("rtt")) or NAN) / 1e6
    connection.add(
        time_s=offset_s + number(stream.get("end")),
        delivered_bytes=last.delivered_bytes + max(number(stream.get("bytes")), 0.0),
        rtt_s=rtt_s,
        retransmitted_pkts=last.retransmitted_pkts + number(stream.get("retransmits")),
        app_limited=_is_limited(stream, start, rtt_s),
        cwnd_pkts=number(stream.get("snd_cwnd")) / connection.mss_bytes,
    )


def _is_limited(stream: Mapping[str, Any], start: Mapping[str, Any], rtt_s: float) -> float:
    """Return 1 if an interval reached the rate or window set by options, else 0; NaN if none is known."""
    test = mapping(start.get("test_start"))
    rates = (number(test.get(name)) / 8 for name in ("target_bitrate", "fqrate"))
    windows = (number(stream.get("snd_wnd")), number(start.get("sock_bufsize")))
    limits = [one for one in (*rates, *(_WINDOW * one / rtt_s for one in windows)) if one > 0]
    begin_s, end_s, seconds = (number(stream.get(name)) for name in ("start", "end", "seconds"))
    rate_Bps = number(stream.get("bytes")) / ((end_s - begin_s if math.isnan(seconds) else seconds) or NAN)
    return float(rate_Bps >= _REACHED * min(limits)) if limits else NAN


def _streams(intervals: Any) -> Iterator[Mapping[str, Any]]:
    for interval in mappings(intervals):
        yield from mappings(interval.get("streams"))
