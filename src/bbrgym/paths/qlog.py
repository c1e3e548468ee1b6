# SPDX-License-Identifier: GPL-2.0-only
"""qlog, from version 0.2 on: JSON, lines of JSON, or JSON text sequences (RFC 7464).

Each group of events is a connection, and what it sends and what it receives are two. Delivered is what ACKs name of the
packets sent; a packet that the sender gives up counts as sent again until an ACK names it after all. Received is what
packets with data bring. Packets of QUIC are counted as they are in UDP. Traces that each count from 0 came in turn.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any

from bbrgym.paths.json_values import mapping, mappings, number
from bbrgym.paths.samples import (
    MAX_CONNECTIONS,
    NAN,
    Connection,
    Connections,
    LogProblem,
    PathLog,
    plausible_mss_bytes,
)

FORMAT = "qlog"

_SEPARATOR = b"\x1e"
_LONGEST_LINE = 2**20
_OLD = ("draft-00", "draft-01", "0.1")  # versions whose events are lists of fields
_SAMPLE_S = 0.01
_MOST_OUTSTANDING = 2**17  # packets of a connection
_UNITS_S = {"ms": 1e-3, "us": 1e-6}
_SCHEMA = "urn:ietf:params:qlog:file:"
_DATA_FRAMES = {"stream", "crypto", "datagram"}
_LEAST_DATA_BYTES = 200  # of a packet whose frames the log does not tell; ACKs are shorter
_EPOCH_S = 1e9  # a time from which on it counts from 1970


def is_sequence(begin: bytes) -> bool:
    """Return whether a file begins as a JSON text sequence does."""
    return begin.startswith(_SEPARATOR)


def is_qlog(values: Any) -> bool:
    """Return whether the first of the values of a file is qlog's."""
    if not isinstance(values, dict):
        return False
    return "qlog_version" in values or str(values.get("file_schema")).startswith(_SCHEMA)


def read_sequence(file: BufferedReader) -> PathLog:
    """Return the connections of a JSON text sequence, however long it is."""
    return read_qlog(_records(file))


def read_qlog(values: Iterable[Any]) -> PathLog:
    """Return the connections of files with traces, or of headers of traces and their events."""
    connections = Connections()
    trace = None
    for record in map(mapping, values):
        if trace is not None and not is_qlog(record):
            trace.take(record)
            continue
        version = record.get("qlog_version")
        if isinstance(version, str) and version.startswith(_OLD):
            raise LogProblem("is qlog of a version before 0.2, expected 0.2 or later")
        for whole in mappings(record.get("traces")):
            trace = _Trace(connections, whole)
            for event in mappings(whole.get("events")):
                trace.take(event)
        trace = _Trace(connections, mapping(record.get("trace")) or record)
    return PathLog(FORMAT, connections.all())


class _Trace:
    """Events of a trace, whose times may count from the event before."""

    def __init__(self, connections: Connections, trace: Mapping[str, Any]) -> None:
        self._common = common = mapping(trace.get("common_fields"))
        self._connections, self._key = connections, object()
        self._ends: dict[str | int, _End] = {}
        self._unit_s = _UNITS_S.get(str(mapping(trace.get("configuration")).get("time_units")), 1e-3)
        self._is_tap = mapping(trace.get("vantage_point")).get("type") == "network"
        self._is_tcp = "TCP" in _texts(common.get("protocol_type"))
        self._counts_steps = common.get("time_format") in ("delta", "relative_to_previous_event")
        self._now, self._offset_s = 0.0, NAN

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event."""
        time = number(event.get("time"))
        if math.isnan(time):
            return
        self._now = time + (self._now if self._counts_steps else 0.0)
        time_s = self._now * self._unit_s
        group = event.get("group_id", self._common.get("group_id", ""))
        name = str(event.get("name")).rpartition(":")[2]
        if name not in _EVENTS or not isinstance(group, str | int):
            return
        if math.isnan(self._offset_s):
            begun_s = number(self._common.get("reference_time")) / 1e3
            in_turn_s = self._connections.in_turn_s(begun_s if begun_s > _EPOCH_S else NAN)
            self._offset_s = in_turn_s if time_s < _EPOCH_S else 0.0
        if group not in self._ends:
            if len(self._ends) >= MAX_CONNECTIONS:
                del self._ends[min(self._ends, key=lambda one: self._ends[one].delivered_bytes)]
            out, into = (self._connections[self._key, group, way] for way in ("out", "in"))
            out.peer = into.peer = out.name
            out.vantage, into.vantage = ("tap", "tap") if self._is_tap else ("sender", "receiver")
            out.min_rtt_is_bound = self._is_tap
            self._ends[group] = _End(out, into, self._is_tcp)
        _EVENTS[name](self._ends[group], self._offset_s + time_s, mapping(event.get("data")))


@dataclass
class _End:
    """End of a connection that wrote the log."""

    out: Connection
    into: Connection
    is_tcp: bool
    numbers: dict[str, list[int]] = field(default_factory=dict)  # of packets without an ACK by number space, in order
    sizes: dict[tuple[str, int], float] = field(default_factory=dict)  # payload of these
    lost: set[tuple[str, int]] = field(default_factory=set)  # those of them that were given up
    delivered_bytes: float = 0.0
    received_bytes: float = 0.0
    lost_pkts: int = 0
    largest_bytes: dict[str, float] = field(default_factory=dict)  # payload by way
    metrics: dict[str, float] = field(default_factory=dict)
    is_held: bool = False  # by the receiver's flow control
    sampled_s: float = -math.inf
    received_s: float = -math.inf

    def send(self, _: float, data: Mapping[str, Any]) -> None:
        """Take a packet that was sent."""
        key, payload_bytes = _number(data), self._payload_bytes(data, "out")
        self.is_held = self.is_held or bool(_frame_types(data) & {"data_blocked", "stream_data_blocked"})
        if key is None or key in self.sizes or not payload_bytes > 0:
            return
        waiting = self.numbers.setdefault(key[0], [])
        if len(self.sizes) >= _MOST_OUTSTANDING and waiting:  # the oldest, most likely lost
            self.lost.discard((key[0], waiting[0]))
            del self.sizes[key[0], waiting.pop(0)]
        insort(waiting, key[1])  # at the end, but for damage
        self.sizes[key] = payload_bytes

    def receive(self, time_s: float, data: Mapping[str, Any]) -> None:
        """Take a packet that arrived, which may hold ACKs and data."""
        space = _space(mapping(data.get("header")))
        self.is_held = self.is_held and not _frame_types(data) & {"max_data", "max_stream_data"}
        ranges = [one for frame in mappings(data.get("frames")) for one in _ranges(frame)]
        waiting = self.numbers.get(space, [])
        for low, high in ranges:
            begin, end = bisect_left(waiting, low), bisect_right(waiting, high)
            for key in [(space, one) for one in waiting[begin:end]]:
                self.delivered_bytes += self.sizes.pop(key)
                if key in self.lost:
                    self.lost.remove(key)
                    self.lost_pkts -= 1
            del waiting[begin:end]
        if ranges and time_s - self.sampled_s >= _SAMPLE_S:
            self.sampled_s = time_s
            self._sample(time_s)
        payload_bytes = self._payload_bytes(data, "in")
        if payload_bytes > 0:
            self.received_bytes += payload_bytes
            if time_s - self.received_s >= _SAMPLE_S:
                self.received_s = time_s
                self.into.mss_bytes = self.largest_bytes["in"]
                min_rtt_s = self.metrics.get("min_rtt", NAN) / 1e3
                self.into.add(time_s, self.received_bytes, min_rtt_s=min_rtt_s)

    def lose(self, _: float, data: Mapping[str, Any]) -> None:
        """Take a packet that the sender gives up."""
        key = _number(data)
        if key in self.sizes and key not in self.lost:
            self.lost.add(key)
            self.lost_pkts += 1

    def measure(self, _: float, data: Mapping[str, Any]) -> None:
        """Take the sender's measurements; missing ones keep their values."""
        for name in ("latest_rtt", "smoothed_rtt", "min_rtt", "congestion_window"):
            if name in data:
                self.metrics[name] = number(data[name])

    def _payload_bytes(self, data: Mapping[str, Any], way: str) -> float:
        """Return the payload of a packet with data; NaN of another one."""
        raw, header = mapping(data.get("raw")), mapping(data.get("header"))
        length = raw.get("payload_length") if self.is_tcp else raw.get("length", header.get("packet_size"))
        payload_bytes, types = plausible_mss_bytes(number(length)), _frame_types(data)
        if (types and not types & _DATA_FRAMES) or (not types and way == "in" and payload_bytes < _LEAST_DATA_BYTES):
            return NAN
        if payload_bytes > self.largest_bytes.get(way, 0.0):
            self.largest_bytes[way] = payload_bytes
        return payload_bytes

    def _sample(self, time_s: float) -> None:
        metrics = self.metrics
        self.out.mss_bytes = self.largest_bytes.get("out", NAN)
        rtt_ms = metrics.get("latest_rtt", metrics.get("smoothed_rtt", NAN))
        self.out.add(
            time_s=time_s,
            delivered_bytes=self.delivered_bytes,
            rtt_s=rtt_ms / 1e3,
            min_rtt_s=metrics.get("min_rtt", NAN) / 1e3,
            retransmitted_pkts=self.lost_pkts,
            app_limited=float(self.is_held or len(self.sizes) == len(self.lost)),
            cwnd_pkts=metrics.get("congestion_window", NAN) / self.out.mss_bytes,
        )


_EVENTS = {
    "packet_sent": _End.send,
    "packet_received": _End.receive,
    "packet_lost": _End.lose,
    "metrics_updated": _End.measure,
    "recovery_metrics_updated": _End.measure,
}


def _number(data: Mapping[str, Any]) -> tuple[str, int] | None:
    header = mapping(data.get("header"))
    value = header.get("packet_number", data.get("packet_number"))
    return (_space(header), value) if isinstance(value, int) else None


def _space(header: Mapping[str, Any]) -> str:
    """Return the packets that a number is one of: QUIC counts those of the handshake apart."""
    kind = str(header.get("packet_type"))
    return kind if kind in ("initial", "handshake") else ""


def _frame_types(data: Mapping[str, Any]) -> set[str]:
    return {str(frame.get("frame_type")) for frame in mappings(data.get("frames"))}


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
