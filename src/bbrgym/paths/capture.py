# SPDX-License-Identifier: GPL-2.0-only
"""Captures, pcap or pcapng, best made at the sender, where RTTs and retransmissions are seen.

A packet's RTT ends with the ACK or SACK block that ends where the packet does; a packet that was sent twice has none.
Data that is sent below what was sent before is a retransmission. An ACK has room for three SACK blocks, so what arrived
is put together from all ACKs: else a connection with many gaps would seem to deliver little, and all at once later. The
handshake has the whole RTT wherever a capture is made, so it tells which side the capture was made at; the receiver's
side shows neither RTTs nor what was lost.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from io import BufferedReader

from bbrgym.paths.packets import ACK, SYN, TcpPacket, is_capture, read_packets
from bbrgym.paths.samples import MAX_CONNECTIONS, NAN, Connection, PathLog, Sample, plausible_mss_bytes

__all__ = ["FORMAT", "is_capture", "read_capture"]

FORMAT = "pcap or pcapng"

_SAMPLE_S = 0.01
_MOST_OUTSTANDING = 2**17  # packets of a connection
_MOST_EDGES = 2**15  # of what arrived
_WRAP = 2**32
_LARGEST_USUAL_BYTES = 1460  # payload; what a capture shows beyond that is not cut into packets yet

_Way = tuple[bytes, bytes]  # source and target


@dataclass
class _Half:
    """Data that one side of a connection sends, and its ACKs. Offsets count from the first sequence number seen."""

    connection: Connection
    first: int | None = None  # sequence number
    sent: int = 0  # offset behind the last byte sent
    acked: int = 0
    sacked: int = 0  # offset behind the highest SACK block
    delivered: int = 0
    arrived: list[int] = field(default_factory=list)  # begin and end of each part that arrived, in order
    retransmitted_bytes: int = 0
    largest_bytes: int = 0  # payload
    rtt_s: float = NAN
    min_rtt_s: float = NAN
    sampled_s: float = -math.inf
    outstanding: OrderedDict[int, float | None] = field(default_factory=OrderedDict)  # end: time sent, None: twice

    def send(self, packet: TcpPacket) -> None:
        """Take a packet with data."""
        begin = self._offset(packet.sequence)
        end = begin + packet.payload_bytes
        self.largest_bytes = max(self.largest_bytes, packet.payload_bytes)
        if begin < self.sent:
            self.retransmitted_bytes += packet.payload_bytes
            if end in self.outstanding:
                self.outstanding[end] = None
        elif len(self.outstanding) < _MOST_OUTSTANDING:
            self.outstanding[end] = packet.time_s
        self.sent = max(self.sent, end)

    def acknowledge(self, packet: TcpPacket) -> None:
        """Take an ACK from the other side."""
        if self.first is None:
            return
        acked = min(self._offset(packet.acked), self.sent)
        blocks = [(self._offset(begin), self._offset(end)) for begin, end in packet.sacked]
        sacked = max((end for _, end in blocks), default=0)
        if self.sacked < sacked <= self.sent:
            self._measure(sacked, packet.time_s)
            self.sacked = sacked
        if acked > self.acked:
            if acked > self.sacked:
                self._measure(acked, packet.time_s)
            self.acked = acked
            while self.outstanding and next(iter(self.outstanding)) <= acked:
                self.outstanding.popitem(last=False)
        for begin, end in ((0, acked), *blocks):
            self._receive(max(begin, 0), min(end, self.sent))
        if packet.time_s - self.sampled_s >= _SAMPLE_S:
            self.sampled_s = packet.time_s
            self._sample(packet.time_s)

    def _receive(self, begin: int, end: int) -> None:
        """Take what the receiver says that it has, and count what of it is new."""
        first, last = bisect_left(self.arrived, begin), bisect_right(self.arrived, end)
        if begin >= end or (first == last and len(self.arrived) >= _MOST_EDGES):
            return
        # An odd place is inside a part: there the new part goes on with the known one.
        known = [*([begin] if first % 2 else []), *self.arrived[first:last], *([end] if last % 2 else [])]
        self.delivered += end - begin - sum(known[1::2]) + sum(known[::2])
        self.arrived[first:last] = [*([] if first % 2 else [begin]), *([] if last % 2 else [end])]

    def _measure(self, end: int, now_s: float) -> None:
        sent_s = self.outstanding.get(end)
        if sent_s is not None and now_s > sent_s:
            self.rtt_s = now_s - sent_s
            if self.connection.at_sender and not self.min_rtt_s <= self.rtt_s:
                self.min_rtt_s = self.rtt_s

    def _sample(self, now_s: float) -> None:
        if math.isnan(self.connection.mss_bytes):
            self.connection.mss_bytes = plausible_mss_bytes(min(self.largest_bytes, _LARGEST_USUAL_BYTES))
        is_known = self.connection.at_sender
        again_pkts = self.retransmitted_bytes / self.connection.mss_bytes
        self.connection.add(
            Sample(
                time_s=now_s,
                delivered_bytes=self.delivered,
                rtt_s=self.rtt_s if is_known else NAN,
                min_rtt_s=self.min_rtt_s,
                retransmitted_pkts=again_pkts if is_known else NAN,
                app_limited=float(self.acked >= self.sent),
            )
        )

    def _offset(self, sequence: int) -> int:
        """Return the offset of a sequence number, the one nearest to what was sent last."""
        if self.first is None:
            self.first = sequence
        offset = (sequence - self.first) % _WRAP
        return offset + _WRAP * round((self.sent - offset) / _WRAP)


@dataclass
class _Handshake:
    """First packets of a connection."""

    syn_s: float
    mss_bytes: float
    answer_s: float = NAN


class _Capture:
    """Connections of a capture; of too many, those that delivered least are forgotten."""

    def __init__(self) -> None:
        self._halves: dict[_Way, _Half] = {}
        self._handshakes: OrderedDict[_Way, _Handshake] = OrderedDict()  # by the client's way
        self._named = 0

    def take(self, packet: TcpPacket) -> None:
        """Take the next packet."""
        way, back = (packet.source, packet.target), (packet.target, packet.source)
        if packet.flags & SYN:
            self._greet(packet, way, back)
            return
        handshake = self._handshakes.pop(way, None)
        if handshake is not None and handshake.answer_s > handshake.syn_s:
            self._begin(handshake, packet.time_s, way, back)
        if packet.payload_bytes > 0:
            self._half(way).send(packet)
        if packet.flags & ACK and back in self._halves:
            self._halves[back].acknowledge(packet)

    def connections(self) -> tuple[Connection, ...]:
        """Return those that delivered data."""
        return tuple(one.connection for one in self._halves.values() if one.connection.delivered_bytes > 0)

    def _greet(self, packet: TcpPacket, way: _Way, back: _Way) -> None:
        if not packet.flags & ACK:
            self._handshakes[way] = _Handshake(packet.time_s, packet.mss_bytes)
            if len(self._handshakes) > MAX_CONNECTIONS:
                self._handshakes.popitem(last=False)
        elif back in self._handshakes:
            handshake = self._handshakes[back]
            handshake.answer_s = packet.time_s
            handshake.mss_bytes = min(handshake.mss_bytes, packet.mss_bytes)

    def _begin(self, handshake: _Handshake, now_s: float, way: _Way, back: _Way) -> None:
        """Begin both halves of a connection whose handshake is over."""
        whole_s, to_answer_s = now_s - handshake.syn_s, handshake.answer_s - handshake.syn_s
        is_client_near = to_answer_s >= whole_s / 2
        for half_way, is_near in ((way, is_client_near), (back, not is_client_near)):
            self._halves.pop(half_way, None)  # the ports of an earlier connection
            half = self._half(half_way)
            half.min_rtt_s = whole_s
            half.connection.vantage = "sender" if is_near else "receiver"
            half.connection.has_handshake = True
            half.connection.mss_bytes = plausible_mss_bytes(handshake.mss_bytes)

    def _half(self, way: _Way) -> _Half:
        known = self._halves.get(way)
        if known is not None:
            return known
        if len(self._halves) >= MAX_CONNECTIONS:
            least = min(self._halves, key=lambda one: self._halves[one].delivered)
            del self._halves[least]
        self._named += 1
        peer = way[1][:-2].hex()  # without the port
        made = self._halves[way] = _Half(Connection(f"connection {self._named}", has_handshake=False, peer=peer))
        return made


def read_capture(file: BufferedReader) -> PathLog:
    """Return the connections of a capture, each way of one by itself.

    Raises:
        LogProblem: it is damaged, or of a kind of link that is not known.
    """
    capture = _Capture()
    for packet in read_packets(file):
        capture.take(packet)
    return PathLog(FORMAT, capture.connections())
