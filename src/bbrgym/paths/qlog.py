# SPDX-License-Identifier: GPL-2.0-only
"""qlog of a sender, from version 0.2 on: JSON, lines of JSON, or JSON text sequences (RFC 7464).

Each group of events is a connection. Delivered is what ACKs name of the packets sent; a packet that the sender gives up
counts as sent again. What a receiver logs of the packets that reach it is not read. Packets of QUIC are counted as they
are in UDP.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

from bbrgym.paths.json_values import mapping, mappings, number
from bbrgym.paths.samples import MAX_CONNECTIONS, NAN, Connection, LogProblem, PathLog, Sample, plausible_mss_bytes

FORMAT = "qlog"

_SEPARATOR = b"\x1e"
_LONGEST_LINE = 2**20
_OLD = ("draft-00", "draft-01", "0.1")  # versions whose events are lists of fields
_SAMPLE_S = 0.01
_MOST_OUTSTANDING = 2**17  # packets of a connection
_UNITS_S = {"ms": 1e-3, "us": 1e-6}


def is_sequence(begin: bytes) -> bool:
    """Return whether a file begins as a JSON text sequence does."""
    return begin.startswith(_SEPARATOR)


def is_qlog(values: Any) -> bool:
    """Return whether the values of a JSON file, or of its first line, are qlog's."""
    return isinstance(values, dict) and "qlog_version" in values


def read_sequence(file: BufferedReader) -> PathLog:
    """Return the connections of a JSON text sequence, however long it is.

    Raises:
        LogProblem: it is damaged before its end.
    """
    return read_events(_records(file))


def read_whole(values: Mapping[str, Any]) -> PathLog:
    """Return the connections of a JSON file's traces.

    Raises:
        LogProblem: it is of a version that is not read.
    """
    version = values.get("qlog_version")
    if isinstance(version, str) and version.startswith(_OLD):
        raise LogProblem("is qlog of a version before 0.2, expected 0.2 or later")
    logs = [read_events((trace, *mappings(trace.get("events")))) for trace in mappings(values.get("traces"))]
    return PathLog(FORMAT, tuple(one for log in logs for one in log.connections))


def read_events(records: Iterable[Mapping[str, Any]]) -> PathLog:
    """Return the connections of the header of a trace and its events."""
    senders: dict[Hashable, _Sender] = {}
    named = 0
    common: Mapping[str, Any] = {}
    is_tcp, clock = False, _Clock("", 1e-3)
    for index, record in enumerate(records):
        if index == 0:
            trace = mapping(record.get("trace")) or record
            common = mapping(trace.get("common_fields"))
            unit = mapping(trace.get("configuration")).get("time_units")
            is_tcp = "TCP" in _texts(common.get("protocol_type"))
            clock = _Clock(str(common.get("time_format")), _UNITS_S.get(str(unit), 1e-3))
            continue
        time_s = clock.seconds(number(record.get("time")))
        group = record.get("group_id", common.get("group_id", ""))
        name = str(record.get("name")).rpartition(":")[2]
        if math.isnan(time_s) or name not in _EVENTS or not isinstance(group, str | int):
            continue
        if group not in senders:
            if len(senders) >= MAX_CONNECTIONS:
                del senders[min(senders, key=lambda one: senders[one].delivered_bytes)]
            named += 1
            own = f"connection {named}"
            senders[group] = _Sender(Connection(own, peer=own), is_tcp)
        _EVENTS[name](senders[group], time_s, mapping(record.get("data")))
    connections = (one.connection for one in senders.values())
    return PathLog(FORMAT, tuple(one for one in connections if one.delivered_bytes > 0))


@dataclass
class _Clock:
    """Times of a trace, which may count from the event before."""

    time_format: str
    unit_s: float
    now: float = 0.0

    def seconds(self, time: float) -> float:
        """Return the time of the next event."""
        if self.time_format not in ("delta", "relative_to_previous_event"):
            return time * self.unit_s
        self.now += 0.0 if math.isnan(time) else time
        return self.now * self.unit_s


@dataclass
class _Sender:
    """Packets of a connection that wait for an ACK."""

    connection: Connection
    is_tcp: bool
    outstanding: dict[tuple[str, int], float] = field(default_factory=dict)  # payload by number space and number
    delivered_bytes: float = 0.0
    lost_pkts: int = 0
    largest_bytes: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    sampled_s: float = -math.inf

    def send(self, _: float, data: Mapping[str, Any]) -> None:
        """Take a packet that was sent."""
        key, payload_bytes = _number(data), self._payload_bytes(data)
        if key is not None and payload_bytes > 0 and len(self.outstanding) < _MOST_OUTSTANDING:
            self.outstanding[key] = payload_bytes
            self.largest_bytes = max(self.largest_bytes, payload_bytes)

    def receive(self, time_s: float, data: Mapping[str, Any]) -> None:
        """Take a packet that arrived, which may hold ACKs."""
        space = _space(mapping(data.get("header")))
        ranges = [one for frame in mappings(data.get("frames")) for one in _ranges(frame)]
        for low, high in ranges:
            for acked in self._outstanding_of(space, low, high):
                self.delivered_bytes += self.outstanding.pop(acked)
        if ranges and time_s - self.sampled_s >= _SAMPLE_S:
            self.sampled_s = time_s
            self._sample(time_s)

    def lose(self, _: float, data: Mapping[str, Any]) -> None:
        """Take a packet that the sender gives up."""
        key = _number(data)
        if key is not None and self.outstanding.pop(key, None) is not None:
            self.lost_pkts += 1

    def measure(self, _: float, data: Mapping[str, Any]) -> None:
        """Take what the sender measured; what it leaves out is as it was."""
        for name in ("latest_rtt", "smoothed_rtt", "min_rtt", "congestion_window"):
            if name in data:
                self.metrics[name] = number(data[name])

    def _payload_bytes(self, data: Mapping[str, Any]) -> float:
        raw, header = mapping(data.get("raw")), mapping(data.get("header"))
        length = raw.get("payload_length") if self.is_tcp else raw.get("length", header.get("packet_size"))
        return plausible_mss_bytes(number(length))

    def _outstanding_of(self, space: str, low: int, high: int) -> list[tuple[str, int]]:
        if high - low < len(self.outstanding):
            return [(space, one) for one in range(low, high + 1) if (space, one) in self.outstanding]
        return [one for one in self.outstanding if one[0] == space and low <= one[1] <= high]

    def _sample(self, time_s: float) -> None:
        connection, metrics = self.connection, self.metrics
        connection.mss_bytes = self.largest_bytes or NAN
        rtt_ms = metrics.get("latest_rtt", metrics.get("smoothed_rtt", NAN))
        connection.add(
            Sample(
                time_s=time_s,
                delivered_bytes=self.delivered_bytes,
                rtt_s=rtt_ms / 1e3,
                min_rtt_s=metrics.get("min_rtt", NAN) / 1e3,
                retransmitted_pkts=self.lost_pkts,
                app_limited=float(not self.outstanding),
                cwnd_pkts=metrics.get("congestion_window", NAN) / connection.mss_bytes,
            )
        )


_EVENTS = {
    "packet_sent": _Sender.send,
    "packet_received": _Sender.receive,
    "packet_lost": _Sender.lose,
    "metrics_updated": _Sender.measure,
    "recovery_metrics_updated": _Sender.measure,
}


def _number(data: Mapping[str, Any]) -> tuple[str, int] | None:
    header = mapping(data.get("header"))
    value = header.get("packet_number", data.get("packet_number"))
    return (_space(header), value) if isinstance(value, int) else None


def _space(header: Mapping[str, Any]) -> str:
    """Return the packets that a number is one of: QUIC counts those of the handshake apart."""
    kind = str(header.get("packet_type"))
    return kind if kind in ("initial", "handshake") else ""


def _ranges(frame: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    ranges = frame.get("acked_ranges")
    for one in ranges if isinstance(ranges, list) else ():
        if isinstance(one, list) and 1 <= len(one) <= 2 and all(isinstance(end, int) for end in one):
            yield one[0], one[-1]


def _records(file: BufferedReader) -> Iterator[Mapping[str, Any]]:
    """Yield the records; the last one may be cut short."""
    line_number = 0
    while line := file.readline(_LONGEST_LINE):
        line_number += 1
        text = line.strip(_SEPARATOR + b"\r\n \t")
        if not text:
            continue
        try:
            yield mapping(json.loads(text))
        except (ValueError, RecursionError):
            if file.peek(1):
                raise LogProblem(f"line {line_number} is not JSON") from None


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
