# SPDX-License-Identifier: GPL-2.0-only
"""Logs of iperf3: ``--json`` or ``--json-stream``, of the client or of the server.

An interval of the sender counts bytes written to its socket, which are those delivered but for what the send buffer
gains; it fills in the first interval, which is left out. Both sides count whole blocks. The sender's RTT is the
kernel's smoothed RTT at the interval's end, not a minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bbrgym.paths.json_values import line_mappings, mapping, mappings, number
from bbrgym.paths.samples import NAN, Connection, Connections, LogProblem, PathLog, Sample, plausible_mss_bytes

FORMAT = "iperf3"


def is_iperf3(values: Any) -> bool:
    """Return whether the values of a JSON file, or of its first line, are iperf3's."""
    if not isinstance(values, dict):
        return False
    return ("start" in values and "end" in values) or values.get("event") == "start"


def whole_of_stream(text: str) -> dict[str, Any]:
    """Return what ``--json-stream`` wrote line by line as ``--json`` would have written it.

    Raises:
        LogProblem: a line is not JSON.
    """
    intervals: list[Any] = []
    whole: dict[str, Any] = {"intervals": intervals}
    for event in line_mappings(text):
        if event.get("event") == "interval":
            intervals.append(event.get("data"))
        else:
            whole[str(event.get("event"))] = event.get("data")
    return whole


def read_iperf3(values: Mapping[str, Any]) -> PathLog:
    """Return the streams of a test.

    Raises:
        LogProblem: the test failed or was not of TCP.
    """
    start, end = mapping(values.get("start")), mapping(values.get("end"))
    test = mapping(start.get("test_start"))
    if str(test.get("protocol", "TCP")).upper() != "TCP":
        raise LogProblem("is a test of iperf3's without TCP, expected one of TCP")
    connections = Connections()
    begun: set[int] = set()
    for stream in _streams(values.get("intervals")):
        key = stream.get("socket")
        if not isinstance(key, int) or stream.get("omitted") is True:  # times begin again behind what -O omits
            continue
        connection = connections[key]
        if key not in begun:
            begun.add(key)
            _describe(connection, stream, start, end)
            connection.step_bytes = max(number(test.get("blksize")), 0.0)
            if connection.at_sender:
                connection.add(Sample(number(stream.get("end")), 0.0, retransmitted_pkts=0.0))
                continue
            connection.add(Sample(number(stream.get("start")), 0.0, retransmitted_pkts=0.0))
        _add(connection, stream, is_limited=number(test.get("target_bitrate")) > 0)
    if "error" in values and not connections.all():
        raise LogProblem("is a test of iperf3's that failed")
    return PathLog(FORMAT, connections.all())


def _describe(connection: Connection, stream: Mapping[str, Any], start: Mapping[str, Any], end: Any) -> None:
    connection.mss_bytes = plausible_mss_bytes(number(start.get("tcp_mss", start.get("tcp_mss_default"))))
    sender = stream.get("sender")
    is_sender = sender if isinstance(sender, bool) else "retransmits" in stream
    connection.vantage = "sender" if is_sender else "receiver"
    cc = end.get("sender_tcp_congestion")
    connection.cc = cc if isinstance(cc, str) else ""


def _add(connection: Connection, stream: Mapping[str, Any], *, is_limited: bool) -> None:
    last = connection.last
    if last is None:
        return
    connection.add(
        Sample(
            time_s=number(stream.get("end")),
            delivered_bytes=last.delivered_bytes + max(number(stream.get("bytes")), 0.0),
            rtt_s=(number(stream.get("rtt")) or NAN) / 1e6,
            retransmitted_pkts=last.retransmitted_pkts + number(stream.get("retransmits")),
            app_limited=1.0 if is_limited else NAN,
            cwnd_pkts=number(stream.get("snd_cwnd")) / connection.mss_bytes,
        )
    )


def _streams(intervals: Any) -> Iterator[Mapping[str, Any]]:
    for interval in mappings(intervals):
        yield from mappings(interval.get("streams"))
