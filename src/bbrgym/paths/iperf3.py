# SPDX-License-Identifier: GPL-2.0-only
"""Logs of iperf3: ``--json`` or ``--json-stream``, of the client or of the server, of one test or of several in turn.

An interval of the sender counts bytes written to its socket, which are those delivered but for what the send buffer
gains; it fills in the first interval, which is left out. What arrived in all, the receiver says at the end. Both sides
count whole blocks. The sender's RTT is the kernel's smoothed RTT at the interval's end, not a minimum. Behind what -O
omits, a first interval states a beginning or a length that is not its own, and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bbrgym.paths.json_values import mapping, mappings, number
from bbrgym.paths.samples import (
    NAN,
    Connection,
    Connections,
    LogProblem,
    PathLog,
    Sample,
    in_turn_s,
    plausible_mss_bytes,
)

FORMAT = "iperf3"

_AGREE = 0.1  # of an interval's length
_REACHED = 0.8  # of a target rate or window, from which on it is what limits
_CLOCK_S = 2.0  # in which the beginnings of tests are told


def is_iperf3(values: Any) -> bool:
    """Return whether the first of the values of a file is iperf3's."""
    if not isinstance(values, dict):
        return False
    return ("start" in values and "end" in values) or values.get("event") == "start"


def read_iperf3(values: Iterable[Any]) -> PathLog:
    """Return the streams of tests; a test that is in the file twice is taken once.

    Raises:
        LogProblem: all tests failed, or one was not of TCP.
    """
    connections = Connections()
    tests: list[Mapping[str, Any]] = []
    first_s, is_twice = NAN, False
    for test in _tests(values):
        if any(_is_same(test, one) for one in tests):
            is_twice = True
            continue
        begun_s = number(mapping(mapping(test.get("start")).get("timestamp")).get("timesecs"))
        first_s = begun_s if not tests else first_s
        tests.append(test)
        offset_s = in_turn_s(begun_s - first_s, connections.all())
        end_s = in_turn_s(NAN, connections.all())
        _read_test(connections, test, len(tests), end_s if offset_s < end_s < offset_s + _CLOCK_S else offset_s)
    found = connections.all()
    if not found and any("error" in test for test in tests):
        raise LogProblem("is a test of iperf3's that failed")
    for connection in found:
        connection.notes += ["the test is in it twice, and was taken once"] if is_twice else []
        connection.notes += [f"{len(tests)} tests one after the other are in it"] if len(tests) > 1 else []
    return PathLog(FORMAT, found)


def _tests(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield tests as ``--json`` writes them, those of ``--json-stream`` too."""
    events: dict[str, Any] = {}
    for value in map(mapping, values):
        name = value.get("event")
        if "start" in value or name == "start":
            if events:
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


def _is_same(test: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    cookies = [mapping(one.get("start")).get("cookie") for one in (test, other)]
    return cookies[0] == cookies[1] if isinstance(cookies[0], str) else test == other


def _read_test(connections: Connections, values: Mapping[str, Any], index: int, offset_s: float) -> None:
    start = mapping(values.get("start"))
    test = mapping(start.get("test_start"))
    if str(test.get("protocol", "TCP")).upper() != "TCP":
        raise LogProblem("is a test of iperf3's without TCP, expected one of TCP")
    begun: set[int] = set()
    for stream in _streams(values.get("intervals")):
        socket = stream.get("socket")
        if not isinstance(socket, int) or stream.get("omitted") is True:  # times begin again behind what -O omits
            continue
        connection = connections[index, socket]
        if socket in begun:
            _add(connection, stream, start, offset_s)
            continue
        begun.add(socket)
        _describe(connection, stream, values)
        begin_s, end_s, seconds = (number(stream.get(name)) for name in ("start", "end", "seconds"))
        if connection.at_sender or abs(end_s - begin_s - seconds) > _AGREE * seconds:
            connection.add(Sample(offset_s + end_s, 0.0, retransmitted_pkts=0.0))
        else:
            connection.add(Sample(offset_s + begin_s, 0.0, retransmitted_pkts=0.0))
            _add(connection, stream, start, offset_s)


def _describe(connection: Connection, stream: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    start, end = mapping(values.get("start")), mapping(values.get("end"))
    test, socket = mapping(start.get("test_start")), stream.get("socket")
    connection.mss_bytes = plausible_mss_bytes(number(start.get("tcp_mss", start.get("tcp_mss_default"))))
    connection.step_bytes = max(number(test.get("blksize")), 0.0)
    sender = stream.get("sender")
    is_sender = sender if isinstance(sender, bool) else _sends(stream, start)
    connection.vantage = "sender" if is_sender else "receiver"
    connection.counts_socket = is_sender
    known = [one.get("remote_host") for one in mappings(start.get("connected")) if one.get("socket") == socket]
    other = mapping(start.get("connecting_to")) or mapping(start.get("accepted_connection"))
    connection.peer = str((known or [other.get("host")])[0])
    totals = list(mappings(end.get("streams")))
    # With --bidir "sender" is the sender of the streams that iperf3 lists last.
    last = mapping(totals[-1].get("sender")).get("sender") if totals else sender
    cc = end.get("sender_tcp_congestion" if sender in (None, last) else "receiver_tcp_congestion")
    connection.cc = cc if isinstance(cc, str) else ""
    receivers = [mapping(one.get("receiver")) for one in totals]
    total, share = next((one for one in receivers if one.get("socket") == socket), None), 1.0
    if total is None and "sum_received_bidir_reverse" not in end:
        total, share = mapping(end.get("sum_received")), 1 / max(number(test.get("num_streams")), 1.0)
    values = {name: number(one) for name, one in mapping(total).items()}
    received_bytes = values.get("bytes", NAN)
    if received_bytes > 0:
        seconds = (
            values.get("seconds", NAN),  # the sender's in some versions
            values.get("end", NAN) - values.get("start", NAN),
            received_bytes * 8 / (values.get("bits_per_second") or NAN),
        )
        connection.received_bytes = received_bytes * share
        connection.received_s = max((one for one in seconds if one > 0), default=NAN)


def _sends(stream: Mapping[str, Any], start: Mapping[str, Any]) -> bool:
    """Return whether a stream sends, in a log that does not say so of each."""
    is_reverse = number(mapping(start.get("test_start")).get("reverse")) > 0
    return "retransmits" in stream or ("accepted_connection" if is_reverse else "connecting_to") in start


def _add(connection: Connection, stream: Mapping[str, Any], start: Mapping[str, Any], offset_s: float) -> None:
    last = connection.last
    if last is None:
        return
    taken_bytes, rtt_s = max(number(stream.get("bytes")), 0.0), (number(stream.get("rtt")) or NAN) / 1e6
    connection.add(
        Sample(
            time_s=offset_s + number(stream.get("end")),
            delivered_bytes=last.delivered_bytes + taken_bytes,
            rtt_s=rtt_s,
            retransmitted_pkts=last.retransmitted_pkts + number(stream.get("retransmits")),
            app_limited=_is_limited(stream, start, rtt_s),
            cwnd_pkts=number(stream.get("snd_cwnd")) / connection.mss_bytes,
        )
    )


def _is_limited(stream: Mapping[str, Any], start: Mapping[str, Any], rtt_s: float) -> float:
    """Return 1 if an interval reached a rate or window that was set for it, else 0; NaN if none is known."""
    test = mapping(start.get("test_start"))
    rates = (number(test.get(name)) / 8 for name in ("target_bitrate", "fqrate"))
    windows = (number(stream.get("snd_wnd")) / rtt_s, number(start.get("sock_bufsize")) / rtt_s)
    limits = [one for one in (*rates, *windows) if one > 0]
    begin_s, end_s, seconds = (number(stream.get(name)) for name in ("start", "end", "seconds"))
    rate_Bps = number(stream.get("bytes")) / ((end_s - begin_s if math.isnan(seconds) else seconds) or NAN)
    return float(rate_Bps >= _REACHED * min(limits)) if limits else NAN


def _streams(intervals: Any) -> Iterator[Mapping[str, Any]]:
    for interval in mappings(intervals):
        yield from mappings(interval.get("streams"))
