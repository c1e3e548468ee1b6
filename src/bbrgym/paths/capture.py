# SPDX-License-Identifier: GPL-2.0-only
"""Captures, pcap or pcapng, best made at the sender, where RTTs and retransmissions are seen.

A packet's RTT ends with the ACK or SACK block that ends where the packet does; a packet that was sent twice has none.
Data that is sent below what was sent before is a retransmission, unless it is a copy of a frame seen at another
interface, or the receiver says that it had the data. An ACK has room for three SACK blocks, so what arrived is put
together from all ACKs: else a connection with many gaps would seem to deliver little, and all at once later.

The part of the RTT in front of the capture is the shortest time from an ACK to data that answers it: in the handshake,
and by timestamps, which data echoes. It tells the sender's side from the receiver's, which shows neither RTTs nor what
was lost, and from a tap between them, where it is added to what is seen. Without either, a receiver's ACKs leave
nothing outstanding, and a sender's data follows its ACKs at once; what shows neither may be any of the three.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field
from io import BufferedReader

import numpy as np

from bbrgym.paths.packets import ACK, SYN, TcpPacket, is_capture, read_packets
from bbrgym.paths.samples import MAX_CONNECTIONS, NAN, Connection, LogProblem, PathLog, plausible_mss_bytes

__all__ = ["FORMAT", "is_capture", "read_capture"]

FORMAT = "pcap or pcapng"

_SAMPLE_S = 0.01
_MOST_OUTSTANDING = 2**17  # packets of a connection
_MOST_EDGES = 2**15  # of what arrived
_MOST_RECENT = 2**14  # frames that may be copied
_MOST_STAMPS = 2**10  # without an echo
_WRAP = 2**32
_LARGEST_USUAL_BYTES = 1460  # payload; what a capture shows beyond that is not cut into packets yet
_COPY_S = 1.0  # in which a copy comes of a frame that its number or its timestamp tells from a retransmission
_COPY_RTTS, _LEAST_COPY_S = 0.5, 0.001  # in which a copy comes of another one: a retransmission takes an RTT
_MANY = 0.2  # share of copies that is worth a note
_NEAR_S, _NEAR = 0.0002, 0.01  # part of the RTT at an end that answers at once; share of it
_SYN_S = 0.2  # from which on a SYN that comes again is a retransmission
_DRY_S, _DRY_PKTS, _DRY = 0.001, 2, 0.8  # ACKs that leave nothing outstanding, and their share at a receiver
_QUICK_S, _QUICK, _MOSTLY = 1e-4, 0.15, 0.5  # from an ACK to data that answers it, share of ACKs' spacing, of ACKs

_Way = tuple[bytes, bytes]  # source and target


@dataclass
class _Half:
    """Data that one side of a connection sends, and the ACKs. Offsets count from the first sequence number seen."""

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
    min_rtt_s: float = NAN  # from the capture to the receiver and back
    sampled_s: float = -math.inf
    outstanding: OrderedDict[int, float | None] = field(default_factory=OrderedDict)  # end: time sent, None: twice
    interface: bytes = b""
    ip_id: int = 0
    has_ip_ids: bool = False  # that differ
    frames: int = 0
    copies: int = 0
    ahead_s: float = NAN  # part of the RTT in front of the capture
    is_greeted: bool = False  # whether the capture has the handshake
    scale: int | None = None  # of the receiver's windows
    reach: float = 1.0  # what is on the way by what is on the way behind the capture
    window: float = math.inf  # bytes
    acknowledged_s: float = NAN  # when the last ACK of new data came
    stamps: OrderedDict[int, float] = field(default_factory=OrderedDict)  # of ACKs, without an echo yet
    newest_stamp: int | None = None
    gaps_s: float = 0.0  # between ACKs
    acks: int = 0  # of new data
    dry: int = 0  # ACKs that left nothing outstanding
    quick: int = 0  # ACKs that data followed at once
    is_answered: bool = True  # whether data followed the last ACK

    def send(self, packet: TcpPacket) -> None:
        """Take a packet with data."""
        begin = self._offset(packet.sequence)
        end = begin + packet.payload_bytes
        self.frames += 1
        if begin < self.sent and packet.interface != self.interface:
            self.copies += 1
            return
        self.interface = packet.interface
        self.has_ip_ids = self.has_ip_ids or packet.ip_id != self.ip_id != 0
        self.ip_id = packet.ip_id
        self._answer(packet)
        self.largest_bytes = max(self.largest_bytes, packet.payload_bytes)
        if begin < self.sent:
            self.retransmitted_bytes += packet.payload_bytes
            if end in self.outstanding:
                self.outstanding[end] = None
        elif len(self.outstanding) < _MOST_OUTSTANDING:
            self.outstanding[end] = packet.time_s
        self.sent = max(self.sent, end)

    def is_copy(self, packet: TcpPacket, since_s: float) -> bool:
        """Return whether a frame that equals one from some time before is a copy."""
        if packet.stamps or self.has_ip_ids:
            return since_s < _COPY_S
        return since_s < _LEAST_COPY_S or since_s < _COPY_RTTS * self.min_rtt_s

    def acknowledge(self, packet: TcpPacket) -> None:
        """Take an ACK from the other side."""
        if self.first is None:
            return
        now_s = packet.time_s
        self._stamp(packet)
        acked = min(self._offset(packet.acked), self.sent)
        blocks = [(self._offset(begin), self._offset(end)) for begin, end in packet.sacked]
        self.connection.options_cut |= packet.is_cut
        if blocks and blocks[0][1] <= acked:  # a DSACK: it had this already
            self.retransmitted_bytes -= min(blocks[0][1] - blocks[0][0], self.retransmitted_bytes)
        sacked = max((end for _, end in blocks), default=0)
        if self.sacked < sacked <= self.sent:
            self._measure(self.outstanding.get(sacked), now_s)
            self.sacked = sacked
        if acked > self.acked:
            self._watch(now_s, acked)
            sent_s = self.outstanding.get(acked)
            is_repaired = False
            while self.outstanding and next(iter(self.outstanding)) <= acked:
                is_repaired |= self.outstanding.popitem(last=False)[1] is None
            if acked > self.sacked and not (is_repaired and self.sacked <= self.acked):
                self._measure(sent_s, now_s)
            self.acked = acked
        self.window = math.inf if self.scale is None else packet.window << self.scale
        for begin, end in ((0, acked), *blocks):
            self._receive(max(begin, 0), min(end, self.sent))
        if now_s - self.sampled_s >= _SAMPLE_S:
            self.sampled_s = now_s
            self._sample(now_s)

    def conclude(self) -> Connection:
        """Decide where the capture was made, and return the connection as seen from there."""
        connection, ahead_s = self.connection, self.ahead_s
        behind_s = self.min_rtt_s
        near_s = max(_NEAR_S, _NEAR * (ahead_s + behind_s))
        is_dry = self.dry > _DRY * self.acks
        if math.isnan(ahead_s):
            is_receiver = is_dry and behind_s < _DRY_S
            is_sender = self.quick > _MOSTLY * self.acks
        else:
            is_sender = ahead_s <= near_s
            is_receiver = behind_s <= min(near_s, ahead_s) and (is_dry or not is_sender)
        connection.vantage = "receiver" if is_receiver else "sender" if is_sender else "tap"
        connection.min_rtt_is_bound = not self.is_greeted
        connection.has_handshake = self.is_greeted
        notes = connection.notes
        if self.copies > _MANY * self.frames:
            notes.append("each frame stands twice in it, and was taken once")
        if not self.is_greeted:
            notes.append("begun after the handshake")
        if connection.options_cut:
            notes.append("TCP options cut off, so selective ACKs are not seen")
        if is_receiver:
            notes.append("captured at the receiver")
            connection.change(rtt_s=NAN, min_rtt_s=ahead_s, retransmitted_pkts=NAN, app_limited=NAN)
            connection.held_s = 0.0
        elif not is_sender:
            connection.ahead_s = ahead_s
            if math.isnan(ahead_s):
                notes.append("captured at an unknown place, so that its RTTs may lack a part")
            else:
                notes.append(f"captured between the ends: {ahead_s * 1e3:.3g} ms lie in front of it")
                connection.change(rtt_s=ahead_s, min_rtt_s=ahead_s)
        return connection

    def _answer(self, packet: TcpPacket) -> None:
        """Take the time from an ACK to the answering data."""
        now_s = packet.time_s
        if packet.stamps and (seen_s := self.stamps.pop(packet.stamps[1], None)) is not None:
            self.ahead_s = float(np.fmin(self.ahead_s, max(now_s - seen_s, 0.0)))
        if self.acks and self.acked >= self.sent:
            self.connection.held_s += now_s - self.acknowledged_s
        if not self.is_answered:
            self.quick += now_s - self.acknowledged_s <= min(_QUICK_S, _QUICK * self.gaps_s / self.acks)
            self.is_answered = True

    def _stamp(self, packet: TcpPacket) -> None:
        """Take the timestamp of an ACK at the first arrival."""
        if not packet.stamps:
            return
        stamp = packet.stamps[0]
        if self.newest_stamp is None or 0 < (stamp - self.newest_stamp) % _WRAP < _WRAP // 2:
            self.newest_stamp = stamp
            self.stamps[stamp] = packet.time_s
            if len(self.stamps) > _MOST_STAMPS:
                self.stamps.popitem(last=False)

    def _watch(self, now_s: float, acked: int) -> None:
        """Take when an ACK of new data comes, and what was on the way till then."""
        if self.acks:
            since_s = now_s - self.acknowledged_s
            self.gaps_s += since_s
            if (self.sent - self.acked) * self.reach > self.window - 2 * self.largest_bytes:
                self.connection.held_s += since_s
        self.acks += 1
        self.dry += self.sent - acked <= _DRY_PKTS * _LARGEST_USUAL_BYTES
        self.acknowledged_s = now_s
        self.is_answered = False

    def _receive(self, begin: int, end: int) -> None:
        """Take the receiver's report of arrived data, and count the new part."""
        first, last = bisect_left(self.arrived, begin), bisect_right(self.arrived, end)
        if begin >= end or (first == last and len(self.arrived) >= _MOST_EDGES):
            return
        # An odd place is inside a part: there the new part goes on with the known one.
        known = [*([begin] if first % 2 else []), *self.arrived[first:last], *([end] if last % 2 else [])]
        self.delivered += end - begin - sum(known[1::2]) + sum(known[::2])
        self.arrived[first:last] = [*([] if first % 2 else [begin]), *([] if last % 2 else [end])]

    def _measure(self, sent_s: float | None, now_s: float) -> None:
        if sent_s is not None and now_s > sent_s:
            self.rtt_s = now_s - sent_s
            if not self.min_rtt_s <= self.rtt_s:
                self.min_rtt_s = self.rtt_s

    def _sample(self, now_s: float) -> None:
        if math.isnan(self.connection.mss_bytes):
            self.connection.mss_bytes = plausible_mss_bytes(min(self.largest_bytes, _LARGEST_USUAL_BYTES))
        self.connection.add(
            time_s=now_s,
            delivered_bytes=self.delivered,
            rtt_s=self.rtt_s,
            min_rtt_s=self.min_rtt_s,
            retransmitted_pkts=self.retransmitted_bytes / self.connection.mss_bytes,
            app_limited=float(self.acked >= self.sent),
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

    syn: TcpPacket
    answer: TcpPacket | None = None
    is_repeated: bool = False  # so that it does not tell which one was answered


class _Capture:
    """Connections of a capture; of too many, those that delivered least are forgotten."""

    def __init__(self) -> None:
        self._halves: dict[_Way | str, _Half] = {}  # by name, of connections that ended
        self._handshakes: OrderedDict[_Way, _Handshake] = OrderedDict()  # by the client's way
        self._recent: dict[tuple[object, ...], float] = {}  # times of frames by what is in them
        self._older: dict[tuple[object, ...], float] = {}
        self._named = 0

    def take(self, packet: TcpPacket) -> None:
        """Take the next packet."""
        way, back = (packet.source, packet.target), (packet.target, packet.source)
        if self._is_copy(packet, self._halves.get(way) if packet.payload_bytes > 0 else None):
            return
        if packet.flags & SYN:
            self._greet(packet, way, back)
            return
        handshake = self._handshakes.pop(way, None)
        if handshake is not None and handshake.answer is not None:
            self._begin(handshake, handshake.answer, packet.time_s, way, back)
        if packet.payload_bytes > 0:
            self._half(way).send(packet)
        if packet.flags & ACK and back in self._halves:
            self._halves[back].acknowledge(packet)

    def connections(self) -> tuple[Connection, ...]:
        """Return those that delivered data."""
        return tuple(one.conclude() for one in self._halves.values() if one.connection.delivered_bytes > 0)

    def _is_copy(self, packet: TcpPacket, half: _Half | None) -> bool:
        """Return whether a frame, with data of a half, was seen before."""
        key = packet[2:]
        since_s = packet.time_s - self._recent.get(key, self._older.get(key, -math.inf))
        if half is not None and half.is_copy(packet, since_s):
            half.frames += 1
            half.copies += 1
            return True
        if half is None and since_s < (_COPY_S if packet.stamps else _LEAST_COPY_S):
            return True
        self._recent[key] = packet.time_s
        if len(self._recent) >= _MOST_RECENT:
            self._older, self._recent = self._recent, {}
        return False

    def _greet(self, packet: TcpPacket, way: _Way, back: _Way) -> None:
        if not packet.flags & ACK:
            known = self._handshakes.get(way)
            if known is not None and known.syn.sequence == packet.sequence:
                known.is_repeated |= packet.time_s - known.syn.time_s >= _SYN_S
                return
            self._handshakes[way] = _Handshake(packet)
            if len(self._handshakes) > MAX_CONNECTIONS:
                self._handshakes.popitem(last=False)
        elif back in self._handshakes:
            handshake = self._handshakes[back]
            handshake.is_repeated |= handshake.answer is not None
            handshake.answer = handshake.answer or packet

    def _begin(self, handshake: _Handshake, answer: TcpPacket, now_s: float, way: _Way, back: _Way) -> None:
        """Begin both halves of a connection whose handshake is over."""
        syn = handshake.syn
        to_server_s, to_client_s = answer.time_s - syn.time_s, now_s - answer.time_s
        scales = (syn.scale, answer.scale)
        if None in scales and not syn.is_cut and not answer.is_cut:
            scales = (0, 0)
        parts = ((way, to_client_s, to_server_s, scales[1]), (back, to_server_s, to_client_s, scales[0]))
        for half_way, ahead_s, behind_s, scale in parts:
            if half_way in self._halves:  # the ports of an earlier connection
                earlier = self._halves.pop(half_way)
                self._halves[earlier.connection.name] = earlier
            half = self._half(half_way)
            half.scale = scale
            half.connection.mss_bytes = plausible_mss_bytes(min(syn.mss_bytes, answer.mss_bytes))
            if not handshake.is_repeated and min(ahead_s, behind_s) >= 0:
                half.is_greeted, half.ahead_s, half.min_rtt_s = True, ahead_s, behind_s
                half.reach = (ahead_s + behind_s) / behind_s if behind_s > 0 else math.inf

    def _half(self, way: _Way) -> _Half:
        known = self._halves.get(way)
        if known is not None:
            return known
        if len(self._halves) >= MAX_CONNECTIONS:
            least = min(self._halves, key=lambda one: self._halves[one].delivered)
            del self._halves[least]
        self._named += 1
        peer = " ".join(address[:-2].hex() for address in way)  # without the ports
        made = self._halves[way] = _Half(Connection(f"connection {self._named}", peer=peer))
        return made


def read_capture(file: BufferedReader) -> PathLog:
    """Return the connections of a capture, each way of one by itself.

    Raises:
        LogProblem: it is damaged, of a kind of link that is not known, or without TCP.
    """
    capture = _Capture()
    for packet in read_packets(file):
        capture.take(packet)
    connections = capture.connections()
    if not connections:
        raise LogProblem("is a capture without data and its ACKs, expected both directions of a connection")
    return PathLog(FORMAT, connections)
