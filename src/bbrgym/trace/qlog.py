# SPDX-License-Identifier: GPL-2.0-only
"""A trace as qlog 0.3 in JSON text sequences (RFC 7464), for qvis: a sender's state, and the packets' fate.

Each transmission has a packet number of its own, as in QUIC, so that an ACK names transmissions: of a segment sent
again the latest one, since TCP's ACKs do not say which arrived. Each flow is a group of events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from bbrgym.trace.rows import (
    ACK_ARRIVED,
    LOSS_STATES,
    MARKED_LOST,
    NETWORK_EVENTS,
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
from bbrgym.trace.transmissions import Transmissions
from bbrgym.version import __version__
from bbrgym.worlds import PACKET_EVENTS
from bbrgym.worlds.phases import phase_of

_HEADER_BYTES = 40  # IPv4 and TCP without options
_SEPARATOR = "\x1e"


@dataclass
class _FlowEvents:
    group: str  # JSON
    algorithm: str
    transmissions: Transmissions = field(default_factory=Transmissions)
    acks: int = 0
    state: tuple[str, str] | None = None  # phase and loss state


class QlogWriter:
    """Writes events in order of arrival."""

    def __init__(self, file: BinaryIO, run: TracedRun) -> None:
        self._file = file
        self._mss_bytes = run.mss_bytes
        self._flows = [_FlowEvents(json.dumps(flow.name), flow.algorithm) for flow in run.flows]
        self._now_ns = 0
        variants = ", ".join(f"{flow.name} ({flow.cc})" for flow in run.flows)
        header = {
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": run.title,
            "description": f"bbrgym {__version__}, TCP senders of {variants}",
            "trace": {
                "title": run.title,
                "vantage_point": {"name": "senders", "type": "client"},
                "common_fields": {"protocol_type": ["TCP"], "time_format": "relative", "reference_time": 0},
            },
        }
        self._file.write(f"{_SEPARATOR}{json.dumps(header)}\n".encode())

    def write(self, rows: Rows) -> None:
        """Write the events of rows that follow the earlier ones."""
        lines: list[str] = []
        for row in rows.in_order():
            flow = self._flows[row.flow]
            if isinstance(row, DecisionRow):
                self._put(lines, flow, "recovery:metrics_updated", json.dumps(self._metrics(row)))
                self._put_state(lines, flow, row)
                continue
            self._now_ns = row.time_ns
            if row.flags & SYN:
                continue
            if row.event == SENT and row.payload_bytes > 0:
                number = flow.transmissions.sent(row.offset_bytes)
                again = ', "is_retransmission": true' if row.flags & RETRANSMISSION else ""
                length = row.payload_bytes + _HEADER_BYTES
                raw = f'"raw": {{"length": {length}, "payload_length": {row.payload_bytes}}}'
                self._put(lines, flow, "transport:packet_sent", f"{{{_packet(number, row)}, {raw}{again}}}")
            elif row.event == ACK_ARRIVED:
                self._put(lines, flow, "transport:packet_received", self._ack(flow, row))
            elif row.event == MARKED_LOST:
                lost = flow.transmissions.latest(row.offset_bytes)
                if lost is not None:
                    self._put(lines, flow, "recovery:packet_lost", f"{{{_packet(lost, row)}}}")
            elif row.event == TIMEOUT:
                self._put(lines, flow, "recovery:loss_timer_updated", '{"event_type": "expired", "timer_type": "pto"}')
            elif row.event in NETWORK_EVENTS and row.payload_bytes > 0:
                name = f"network:{PACKET_EVENTS[row.event].name}"
                data = {"offset": row.offset_bytes, "length": row.payload_bytes, "queue_bytes": row.queue_bytes}
                self._put(lines, flow, name, json.dumps(data))
        self._file.write("".join(lines).encode())

    def _put(self, lines: list[str], flow: _FlowEvents, name: str, data: str) -> None:
        time_ms = f"{self._now_ns // 1_000_000}.{self._now_ns % 1_000_000:06d}"
        event = f'{{"time": {time_ms}, "name": "{name}", "group_id": {flow.group}, "data": {data}}}'
        lines.append(f"{_SEPARATOR}{event}\n")

    def _ack(self, flow: _FlowEvents, ack: PacketRow) -> str:
        flow.acks += 1
        ranges = [list(one) for one in flow.transmissions.acknowledged(ack)]
        sack_bytes = 4 + 8 * ack.block_count if ack.block_count else 0
        data = {
            "header": {"packet_type": "1RTT", "packet_number": flow.acks - 1},
            "raw": {"length": _HEADER_BYTES + sack_bytes},
            "frames": [{"frame_type": "ack", "acked_ranges": ranges}],
            "tcp": {"ack": ack.acked_bytes, "window": ack.window_bytes, "sack": ack.blocks[: ack.block_count]},
        }
        return json.dumps(data)

    def _metrics(self, row: DecisionRow) -> dict[str, Any]:
        """Times in ms, rates in bit/s; what is not measured is left out."""
        metrics: dict[str, Any] = {
            "congestion_window": row.cwnd_pkts * self._mss_bytes,
            "bytes_in_flight": row.in_flight_pkts * self._mss_bytes,
            "packets_in_flight": row.in_flight_pkts,
            "in_recovery": LOSS_STATES[row.ca_state] in ("recovery", "loss"),
            "bandwidth_estimate": row.bw_Bps * 8,
            "delivered_packets": row.delivered_pkts,
            "round_count": row.round_count,
        }
        times_us = {"latest_rtt": row.rtt_us, "smoothed_rtt": row.srtt_us, "min_rtt": row.min_rtt_us}
        metrics |= {name: time_us / 1000 for name, time_us in times_us.items() if time_us >= 0}
        rates = {"pacing_rate": row.pacing_Bps, "bandwidth_bound": row.bw_lo_Bps}
        metrics |= {name: rate_Bps * 8 for name, rate_Bps in rates.items() if rate_Bps != UNPACED_Bps}
        bounds = {"inflight_hi": row.inflight_hi_pkts, "inflight_lo": row.inflight_lo_pkts}
        return metrics | {name: pkts * self._mss_bytes for name, pkts in bounds.items() if pkts >= 0}

    def _put_state(self, lines: list[str], flow: _FlowEvents, row: DecisionRow) -> None:
        state = (phase_of(row.phase, flow.algorithm).name, LOSS_STATES[row.ca_state])
        if state != flow.state:
            old = {} if flow.state is None else {"old": flow.state[0]}
            data = {**old, "new": state[0], "loss_state": state[1]}
            self._put(lines, flow, "recovery:congestion_state_updated", json.dumps(data))
            flow.state = state


def _packet(number: int, row: PacketRow) -> str:
    """Return a segment's members of an event."""
    stream = f'"stream_id": 0, "offset": {row.offset_bytes}, "length": {row.payload_bytes}'
    header = f'"header": {{"packet_type": "1RTT", "packet_number": {number}}}'
    return f'{header}, "frames": [{{"frame_type": "stream", {stream}}}]'
