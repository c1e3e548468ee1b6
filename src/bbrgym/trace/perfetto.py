# SPDX-License-Identifier: GPL-2.0-only
"""A trace in Perfetto's protobuf format, as its UI (ui.perfetto.dev) opens it.

Each flow is a process with counters (window, in flight, rates, RTTs), slices of its phases and loss states, and its
packets as instants; the bottleneck is a process with its queue and what it drops and marks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO

from bbrgym.trace.protobuf import block, real, text, whole
from bbrgym.trace.rows import (
    ACK_ARRIVED,
    DEQUEUED,
    LOSS_STATES,
    MARKED_LOST,
    NETWORK_EVENTS,
    QUEUE_DROPPED,
    QUEUED,
    RETRANSMISSION,
    SENT,
    SYN,
    TIMEOUT,
    DecisionRow,
    PacketRow,
    Rows,
    TracedRun,
    UNPACED_Bps,
)
from bbrgym.worlds import PACKET_EVENTS
from bbrgym.worlds.phases import phase_of

# Numbers of fields, of perfetto/protos/perfetto/trace: Trace, TracePacket, TrackDescriptor, TrackEvent and their parts.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _SEQUENCE_FLAGS, _TRACK_DESCRIPTOR = 8, 10, 11, 13, 60
_UUID, _NAME, _PROCESS, _PARENT_UUID, _COUNTER = 1, 2, 3, 5, 8
_PID, _PROCESS_NAME = 1, 6
_UNIT_NAME = 6
_ANNOTATION, _TYPE, _EVENT_TRACK, _EVENT_NAME, _COUNTER_VALUE, _DOUBLE_COUNTER_VALUE = 4, 9, 11, 23, 30, 44
_ANNOTATION_NAME, _ANNOTATION_UINT = 10, 3
_BEGIN, _END, _INSTANT, _VALUE = 1, 2, 3, 4
_STATE_CLEARED = 1  # the sequence needs nothing from before

_BOTTLENECK_PID = 1
_COUNTERS = (
    ("cwnd", "pkts"),
    ("in flight", "pkts"),
    ("pacing rate", "Mbit/s"),
    ("bandwidth estimate", "Mbit/s"),
    ("RTT", "ms"),
    ("smoothed RTT", "ms"),
    ("minimum RTT", "ms"),
    ("delivered", "pkts"),
)


@dataclass
class _FlowTracks:
    algorithm: str
    tracks: dict[str, int]
    states: dict[str, str] = field(default_factory=dict)  # of the tracks of slices that are open
    values: dict[str, float] = field(default_factory=dict)  # of the counters


class PerfettoWriter:
    """Writes packets of a trace as rows come.

    Args:
        file: open for writing.
        run: that is traced.
    """

    def __init__(self, file: BinaryIO, run: TracedRun) -> None:
        self._file = file
        self._now_ns = 0
        self._tracks = 0
        self._out = bytearray()
        bottleneck = self._process(_BOTTLENECK_PID, f"bottleneck of {run.title}")
        self._queue = self._counter(bottleneck, "queue", "bytes")
        self._fates = self._track(bottleneck, "drops and marks")
        self._flows: list[_FlowTracks] = []
        for index, flow in enumerate(run.flows):
            process = self._process(_BOTTLENECK_PID + 1 + index, f"flow {flow.name} ({flow.cc})")
            tracks = {name: self._track(process, name) for name in ("phase", "loss state", "packets", "ACKs")}
            tracks |= {name: self._counter(process, name, unit) for name, unit in _COUNTERS}
            self._flows.append(_FlowTracks(flow.algorithm, tracks))
        self._flush()

    def write(self, rows: Rows) -> None:
        """Write what follows the earlier rows."""
        for row in rows.in_order():
            if isinstance(row, DecisionRow):
                self._decision(row)
                continue
            self._now_ns = row.time_ns
            if not row.flags & SYN:
                self._event(row)
        self._flush()

    def finish(self) -> None:
        """End the slices that are open."""
        for flow in self._flows:
            for track in flow.states:
                self._track_event(_END, flow.tracks[track])
        self._flush()

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _event(self, row: PacketRow) -> None:
        tracks = self._flows[row.flow].tracks
        carries = {"offset": row.offset_bytes, "length": row.payload_bytes}
        if row.event in (QUEUED, DEQUEUED, QUEUE_DROPPED):
            self._track_event(_VALUE, self._queue, whole(_COUNTER_VALUE, row.queue_bytes))
        if row.event == SENT and row.payload_bytes > 0:
            self._instant(tracks["packets"], "sent again" if row.flags & RETRANSMISSION else "sent", carries)
        elif row.event == ACK_ARRIVED:
            self._instant(tracks["ACKs"], "ACK", {"ack": row.acked_bytes, "sack blocks": row.block_count})
        elif row.event == MARKED_LOST:
            self._instant(tracks["packets"], "marked lost", carries)
        elif row.event == TIMEOUT:
            self._instant(tracks["packets"], "timeout", {})
        elif row.event in NETWORK_EVENTS and row.payload_bytes > 0:
            name = PACKET_EVENTS[row.event].name.replace("_", " ")
            self._instant(self._fates, name, {"flow": row.flow, **carries})

    def _decision(self, row: DecisionRow) -> None:
        flow = self._flows[row.flow]
        pacing_Bps = None if row.pacing_Bps == UNPACED_Bps else row.pacing_Bps
        values: dict[str, float | None] = {
            "cwnd": row.cwnd_pkts,
            "in flight": row.in_flight_pkts,
            "pacing rate": None if pacing_Bps is None else pacing_Bps * 8 / 1e6,
            "bandwidth estimate": row.bw_Bps * 8 / 1e6,
            "RTT": _ms(row.rtt_us),
            "smoothed RTT": _ms(row.srtt_us),
            "minimum RTT": _ms(row.min_rtt_us),
            "delivered": row.delivered_pkts,
        }
        for name, value in values.items():
            if value is not None and flow.values.get(name) != value:
                flow.values[name] = value
                self._track_event(_VALUE, flow.tracks[name], real(_DOUBLE_COUNTER_VALUE, value))
        self._state(flow, "phase", phase_of(row.phase, flow.algorithm).name)
        self._state(flow, "loss state", LOSS_STATES[row.ca_state])

    def _state(self, flow: _FlowTracks, track: str, state: str) -> None:
        if flow.states.get(track) == state:
            return
        if track in flow.states:
            self._track_event(_END, flow.tracks[track])
        flow.states[track] = state
        self._track_event(_BEGIN, flow.tracks[track], text(_EVENT_NAME, state))

    # ---- packets of the trace ------------------------------------------------------------------------------------

    def _process(self, pid: int, name: str) -> int:
        process = whole(_PID, pid) + text(_PROCESS_NAME, name)
        return self._descriptor(block(_PROCESS, process))

    def _track(self, parent: int, name: str) -> int:
        return self._descriptor(text(_NAME, name) + whole(_PARENT_UUID, parent))

    def _counter(self, parent: int, name: str, unit: str) -> int:
        counter = block(_COUNTER, text(_UNIT_NAME, unit))
        return self._descriptor(text(_NAME, f"{name} ({unit})") + whole(_PARENT_UUID, parent) + counter)

    def _descriptor(self, content: bytes) -> int:
        self._tracks += 1
        flags = whole(_SEQUENCE_FLAGS, _STATE_CLEARED) if self._tracks == 1 else b""
        self._put(block(_TRACK_DESCRIPTOR, whole(_UUID, self._tracks) + content) + flags)
        return self._tracks

    def _instant(self, track: int, name: str, values: dict[str, int]) -> None:
        notes = b"".join(
            block(_ANNOTATION, text(_ANNOTATION_NAME, key) + whole(_ANNOTATION_UINT, value))
            for key, value in values.items()
        )
        self._track_event(_INSTANT, track, text(_EVENT_NAME, name) + notes)

    def _track_event(self, kind: int, track: int, content: bytes = b"") -> None:
        event = whole(_TYPE, kind) + whole(_EVENT_TRACK, track) + content
        self._put(whole(_TIMESTAMP, self._now_ns) + block(_TRACK_EVENT, event))

    def _put(self, content: bytes) -> None:
        self._out += block(_PACKET, content + whole(_SEQUENCE, 1))

    def _flush(self) -> None:
        self._file.write(self._out)
        self._out.clear()


def _ms(time_us: int) -> float | None:
    return time_us / 1000 if time_us >= 0 else None
