# SPDX-License-Identifier: GPL-2.0-only
"""One TCP connection on tcp/ in virtual time: bytes of a script to segments of tcp/, and back.

What tcp/ leaves to its host is here, as Linux does it: handshake and its options, the bytes of the write queue and the
PSH flag (tcp_sendmsg), Nagle's rule as Minshall mended it, the peer's window and the probes of a closed one, FIN.
"""

import bisect
from dataclasses import dataclass, field
from typing import Any

from binding import Binding
from language import Option, Packet, Tcp
from settings import Settings
from verdicts import NotRunError, OutOfScopeError

NS = 1_000_000_000
_MAX_GSO_BYTES = 65_215  # 64 KB less the headers' room
_DEFAULT_MSS = 536
_HEADER_BYTES = 40
_TIMESTAMP_BYTES = 12
_DELAYED_ACK_NS = 40_000_000
_RTO_MIN_NS = 200_000_000
_RTO_MAX_NS = 120 * NS
_SYN_TIMEOUT_NS = NS
_CA_RECOVERY = 3


@dataclass(frozen=True)
class Sent:
    """A packet that left."""

    time_ns: int
    flags: frozenset[str]
    begin: int
    end: int
    ack: int | None
    window: int | None  #: as the header has it; None: the receive buffer is ample
    options: tuple[Option, ...]
    ecn: str = "noecn"

    @property
    def size(self) -> int:
        """Bytes of payload."""
        return self.end - self.begin - ("S" in self.flags) - ("F" in self.flags)


@dataclass
class _Skb:
    """A part of the write queue that leaves in packets of its own."""

    begin: int
    end: int
    pushes: bool = False
    has_fin: bool = False


@dataclass
class _Flight:
    """Segments that leave back to back."""

    begin: int
    end: int = 0
    count: int = 0
    ect: bool = False
    cwr: bool = False

    def add(self, end: int) -> None:
        """Add the segment that ends there."""
        self.end = end
        self.count += 1


def in_scope(packet: Packet) -> Tcp:
    """Return the segment of a packet, or raise what nothing here models."""
    if packet.tcp is None:
        raise OutOfScopeError(f"packets of {packet.other}")
    if "R" in packet.tcp.flags:
        raise OutOfScopeError("RST")
    if "U" in packet.tcp.flags or packet.tcp.urgent:
        raise OutOfScopeError("urgent data")
    return packet.tcp


@dataclass
class Connection:
    """A connection from its SYN on."""

    binding: Binding
    settings: Settings
    cuts: list[int]  #: where segments of the peer begin and end
    preset: str = "linux-6"
    facts: dict[str, object] = field(default_factory=dict)  #: that differ from the preset's
    now_ns: int = 0
    sent: list[Sent] = field(default_factory=list)

    state: str = "closed"  #: as tcp_info's: listen, syn_sent, syn_recv, established, ...
    nodelay: bool = False
    corked: bool = False
    send_buffer_bytes: int = 0  #: as set by setsockopt; 0: never a limit
    receive_buffer_bytes: int = 0
    max_segment_bytes: int = 0  #: as set by setsockopt

    def __post_init__(self) -> None:
        self.tcp: Any = None  # of binding.cc, from the handshake on
        self.mss = _DEFAULT_MSS
        self.peer_scale = 0
        self.peer_isn = 0
        self.has_ecn = self.has_sack = self.has_timestamps = self._answers_now = self._pushes_now = False
        self._challenged_ns = -1
        self._forgets_blocks = False
        self.echoed = 0
        self._has_more = False  # the call that writes now says so
        self.has_scale = False
        self.una = self.next = 1
        self.window = self.max_window = 0
        self.begins: list[int] = []  # of the segments that left, by seqno
        self.ends: list[int] = []
        self.queue: list[_Skb] = []
        self.write_end = 1
        self.pushed = 1
        self.pushes: set[int] = set()  # ends of segments that have PSH
        self.small_end = 0  # of the latest segment smaller than others (snd_sml)
        self.fin_at: int | None = None
        self.fin_ack_ns = -1  # when the peer's FIN is acknowledged at the latest
        self.peer_fin: int | None = None
        self.has_oversized = False  # a segment of the peer was larger than the MSS, as after GRO
        self.arrived: set[int] = set()  # segments of the peer
        self.received_end = 1
        self.read_end = 1
        self.sacked_ranges: list[tuple[int, int]] = []
        self.last_data_received_ns = self.last_data_sent_ns = 0
        self.last_ack_received_ns = self.last_ack_sent_ns = 0
        self.segments_out = self.segments_in = self.data_in = 0
        self.bytes_sent = self.bytes_retransmitted = 0
        self.syn_ns = -1
        self.syn_count = 0
        self.host_deadline_ns = -1  # of the SYN or of the probe of a closed window
        self.probes_out = 0
        self.waiting = 0  # bytes of a write that waits for room
        self.written_ns = -1  # when the last such write was done

    @property
    def stands(self) -> bool:
        """Whether the handshake is over, and the connection not closed."""
        return self.state not in ("closed", "listen", "syn_sent", "syn_recv")

    # ---- the handshake -------------------------------------------------------------------------------

    def connect(self) -> None:
        """Send a SYN."""
        self.state = "syn_sent"
        self._send_syn()

    def _own_scale(self) -> int:
        limit = max(self.settings.memory("tcp_rmem")[2], 212_992)
        if self.receive_buffer_bytes:
            limit = self.receive_buffer_bytes  # half of what setsockopt takes it for (tcp_select_initial_window)
        scale = 0
        while limit > 65_535 and scale < 14:
            limit >>= 1
            scale += 1
        return scale

    def _own_mss(self) -> int:
        own = self.settings.mtu - _HEADER_BYTES
        return min(own, self.max_segment_bytes) if self.max_segment_bytes else own

    def _send_syn(self) -> None:
        is_active = self.state == "syn_sent"
        options = [Option("mss", (self._own_mss(),))]
        has_timestamps = self.has_timestamps or (is_active and self.settings.number("tcp_timestamps") > 0)
        if is_active or self.has_sack:
            options.append(Option("sackOK"))
        if has_timestamps:
            options.append(self._timestamp())
        if is_active or self.has_scale:
            options.append(Option("wscale", (self._own_scale(),)))
        flags = {"S"}
        if not is_active:
            flags.add(".")
        if is_active and self.settings.number("tcp_ecn") == 1:
            flags |= {"E", "W"}
        elif not is_active and self.has_ecn:
            flags.add("E")
        self.syn_ns = self.now_ns if self.syn_count == 0 else -1
        self.binding_handshake(False)
        self.syn_count += 1
        self.host_deadline_ns = self.now_ns + (_SYN_TIMEOUT_NS << (self.syn_count - 1))
        ack = None if is_active else self.peer_isn + 1
        self._emit(Sent(self.now_ns, frozenset(flags), 0, 1, ack, None, tuple(options)))

    def binding_handshake(self, ends: bool) -> None:
        """Tell the receiver of tcp/ when the SYN-ACK leaves and when the handshake ends, where it measures that."""
        if self.state == "syn_recv" and self.syn_count == 0 and not ends:
            self._begin_tcp()
        if self.state == "syn_recv":
            (self.tcp.note_established if ends else self.tcp.note_syn_ack)(self.now_ns)

    def _take_syn(self, tcp: Tcp) -> None:
        """Read the options of a SYN or SYN-ACK."""
        options = {option.name: option for option in tcp.options or ()}
        if "FO" in options or "FOEXP" in options:
            raise OutOfScopeError("TCP Fast Open")
        if "md5" in options:
            raise OutOfScopeError("signatures of segments (MD5)")
        self.has_sack = "sackOK" in options and self.settings.number("tcp_sack") > 0
        self.has_timestamps = "TS" in options and self.settings.number("tcp_timestamps") > 0
        if self.has_timestamps:
            self.echoed = options["TS"].values[0]
        if "A" in tcp.flags:
            raise OutOfScopeError("accurate ECN (AccECN)")
        self.peer_isn = tcp.begin
        peer_mss = options["mss"].values[0] if "mss" in options else _DEFAULT_MSS
        self.mss = min(peer_mss, self._own_mss()) - _TIMESTAMP_BYTES * self.has_timestamps
        self.has_scale = "wscale" in options
        self.peer_scale = min(options["wscale"].values[0], 14) if self.has_scale else 0

    def _begin_tcp(self) -> None:
        sizes = [end - begin for begin, end in zip(self.cuts, self.cuts[1:], strict=False)]
        self.receive_mss = sizes[0] if sizes else self.mss
        facts = {**self.settings.facts(), **self.facts, "ecn": self.has_ecn}
        if not self.has_sack:
            facts["tail_loss_probe"] = 0  # tcp_schedule_loss_probe
        facts["receive_buffer_bytes"] = self.receive_buffer_bytes or "auto"
        self.tcp = self.binding(self.settings.algorithm, self.mss, self.receive_mss, self.preset, facts)

    def _establish(self) -> None:
        self.state = "established"
        self.host_deadline_ns = -1
        rtt_ns = self.now_ns - self.syn_ns if self.syn_ns >= 0 and self.syn_count == 1 else -1
        self.tcp.start(self.now_ns, rtt_ns)

    # ---- arrivals ------------------------------------------------------------------------------------

    def arrive(self, packet: Packet) -> None:
        """Process a packet of the peer."""
        tcp = in_scope(packet)
        oldest = self.una - min(self.max_window, self.una)
        if self.stands and tcp.ack is not None and not oldest <= tcp.ack <= self.next:
            self._challenge()  # of data that was never sent, or too old: dropped whole (tcp_ack)
            return
        if self.stands or self.state == "syn_recv":
            self._note_timestamp(tcp)
        self.segments_in += 1
        if self.state == "closed":
            raise OutOfScopeError("packets of closed ports")
        if self.state == "listen":
            self._arrive_listening(tcp)
            return
        if self.state == "syn_sent":
            self._arrive_connecting(tcp)
            return
        if "S" in tcp.flags:
            raise OutOfScopeError("a SYN on a connection that stands")
        if tcp.ack is None:
            return
        if self.state == "syn_recv":
            if tcp.ack != 1:
                raise OutOfScopeError("an ACK that does not end the handshake")
            self.binding_handshake(True)
            self.window = self.max_window = tcp.window << self.peer_scale if tcp.window is not None else 0
            self._establish()
        self._acknowledged(tcp)
        sent_before = len(self.sent)
        self._take_data(tcp, packet.ip.get("ecn", "noecn"))
        self.try_send()
        self._wake_writer()
        self._end_streams(tcp)
        if len(self.sent) > sent_before:
            self._answers_now = False  # data has acknowledged it
        elif self._answers_now:
            self._send_ack()

    def _note_timestamp(self, tcp: Tcp) -> None:
        """Keep the timestamp to echo (tcp_replace_ts_recent)."""
        for option in tcp.options or ():
            if option.name == "TS" and self.has_timestamps and tcp.begin <= self.received_end:
                self.echoed = option.values[0]

    def _timestamp(self) -> Option:
        return Option("TS", (100 + self.now_ns // 1_000_000, self.echoed))

    def _arrive_listening(self, tcp: Tcp) -> None:
        if "S" not in tcp.flags or "." in tcp.flags:
            raise OutOfScopeError("a packet before the handshake")
        if tcp.size > 0:
            raise OutOfScopeError("TCP Fast Open")
        self.state = "syn_recv"
        self._take_syn(tcp)
        asks = "E" in tcp.flags and "W" in tcp.flags
        self.has_ecn = asks and self.settings.number("tcp_ecn") in (1, 2)
        self.window = self.max_window = tcp.window or 0
        self._send_syn()

    def _arrive_connecting(self, tcp: Tcp) -> None:
        if "S" not in tcp.flags or "." not in tcp.flags:
            raise OutOfScopeError("a packet before the handshake, or two SYNs that cross")
        if tcp.ack != 1:
            raise OutOfScopeError("an ACK of something else than the SYN")
        self._take_syn(tcp)
        self.has_ecn = "E" in tcp.flags and self.settings.number("tcp_ecn") == 1
        self.window = self.max_window = tcp.window or 0
        self._begin_tcp()
        self._establish()
        self.last_data_received_ns = self.last_ack_received_ns = self.now_ns
        self._send_ack()

    def _challenge(self) -> None:
        """Answer an ACK that cannot be right, unless one was answered just now (RFC 5961, tcp_send_challenge_ack)."""
        least_ns = 1_000_000 * self.settings.number("tcp_invalid_ratelimit")
        if self._challenged_ns < 0 or self.now_ns - self._challenged_ns >= least_ns:
            self._challenged_ns = self.now_ns
            self._send_ack()

    def _acknowledged(self, tcp: Tcp) -> None:
        ack = tcp.ack
        if ack is None:
            return
        window = (tcp.window or 0) << self.peer_scale if tcp.window is not None else self.window
        old_window, old_una = self.window, self.una
        if ack >= self.una:
            self.max_window = max(self.max_window, window)
            self.window = window
            self.una = ack
        una = bisect.bisect_right(self.ends, ack)
        if una < len(self.ends) and self.begins[una] < ack:
            raise OutOfScopeError("an ACK inside a segment: tcp/ counts whole ones")
        blocks: list[tuple[int, int]] = []
        self.last_ack_received_ns = self.now_ns
        for option in tcp.options or ():
            for begin, end in option.blocks:
                first = bisect.bisect_left(self.begins, begin)
                last = bisect.bisect_right(self.ends, end)
                if first < last:  # Linux takes no notice of parts of segments either (tcp_match_skb_to_sack)
                    blocks.append((first, last))
        if not self.ends and not blocks:
            self._check_window()
            return
        if tcp.size > 0 and ack == self.una and not blocks and not self._has_out():
            self._check_window()
            return
        is_duplicate = ack == old_una and tcp.size == 0 and "F" not in tcp.flags and window == old_window
        if not self.has_sack and is_duplicate and self._has_out():
            raise OutOfScopeError("duplicate ACKs of a peer without SACK")
        if self.has_timestamps and self.tcp_state()["ca_state"] >= _CA_RECOVERY:
            raise OutOfScopeError("what the echo of a timestamp tells of retransmissions")
        self.tcp.on_ack(self.now_ns, una, "E" in tcp.flags and "S" not in tcp.flags, blocks)
        self._check_window()

    def _has_out(self) -> bool:
        return self.una < self.next

    def _check_window(self) -> None:
        """Stop the probes of a closed window once it has opened (tcp_ack_probe)."""
        head = self.queue[0] if self.queue else None
        if head is None or self.host_deadline_ns < 0 or self.state == "syn_recv":
            return
        if min(head.end, self.next + self.mss) <= self.una + self.window:
            self.host_deadline_ns = -1
            self.probes_out = 0

    # ---- the receiver --------------------------------------------------------------------------------

    def _take_data(self, tcp: Tcp, ecn: str) -> None:
        self._answers_now = False
        if tcp.size == 0:
            return
        self.data_in += 1
        self.has_oversized |= tcp.size > self._own_mss()
        self.last_data_received_ns = self.now_ns
        first = bisect.bisect_left(self.cuts, tcp.begin)
        last = bisect.bisect_left(self.cuts, tcp.begin + tcp.size)
        has = [seqno in self.arrived for seqno in range(first, last)]
        if any(has) and not all(has):
            raise OutOfScopeError("a segment of the peer that repeats a part of others: tcp/ counts whole ones")
        if all(has) and len(has) > 1 and self.has_sack:
            raise OutOfScopeError("a segment of the peer that repeats several others: tcp/ counts whole ones")
        self.arrived |= set(range(first, last))
        for seqno in range(first, last):
            marks = (ecn in ("ect0", "ect1", "ce"), ecn == "ce", "W" in tcp.flags)
            answers, following = self.tcp.on_segment(self.now_ns, seqno, *marks)
            self._answers_now |= answers
            self.received_end = self.cuts[following]

    def _end_streams(self, tcp: Tcp) -> None:
        """Process a FIN of the peer, and the ACK of our own."""
        if "F" in tcp.flags:
            end = tcp.begin + tcp.size
            if end == self.received_end:
                self.peer_fin = end
                # tcp_fin: delayed as data would be, but not before there was any, nor once our own FIN has left.
                waits = self.state == "established" and self.data_in > 0
                self._answers_now |= not waits
                self.fin_ack_ns = -1 if self._answers_now else self.now_ns + _DELAYED_ACK_NS
                self._forgets_blocks = True  # tcp_sack_reset
                followers = {"established": "close_wait", "fin_wait2": "time_wait", "fin_wait1": "closing"}
                self.state = followers.get(self.state, self.state)
        if self.fin_at is not None and self.una > self.fin_at:
            followers = {"fin_wait1": "fin_wait2", "closing": "time_wait", "last_ack": "closed"}
            self.state = followers.get(self.state, self.state)

    def _send_ack(self) -> None:
        self._emit_data(self.next, self.next, {"."}, "noecn")

    def _acknowledge(self) -> tuple[int, bool, int | None, tuple[Option, ...]]:
        """Tell the receiver of tcp/ that an ACK leaves; what it says: number, echo, window, SACK blocks."""
        echo, window, ranges = self.tcp.acknowledge()
        self.fin_ack_ns = -1
        blocks = tuple((self.cuts[begin], self.cuts[end]) for begin, end in ranges)
        options = (self._timestamp(),) if self.has_timestamps else ()
        if blocks and self.has_sack and not self._forgets_blocks:
            options += (Option("sack", (), blocks[: 3 if self.has_timestamps else 4]),)
        self._forgets_blocks = False
        ack = self.received_end + (self.peer_fin == self.received_end)
        return ack, echo, window >> self._own_scale() if self.has_scale else window, options

    # ---- the sender ----------------------------------------------------------------------------------

    def write(self, size: int, *, more: bool = False) -> int:
        """Write bytes as tcp_sendmsg does; returns how many the send buffer took. `more` follows (MSG_MORE)."""
        self.tcp.before_write(self._unsent_bytes() >= self.mss)
        self.waiting = size
        self._has_more = more
        left = self._fill()
        self._has_more = False
        return size - left

    def _fill(self) -> int:
        """Put what waits into the write queue, as long as there is room; returns what still waits."""
        is_first = True
        while self.waiting > 0:
            goal = self._size_goal()
            tail = self.queue[-1] if self.queue else None
            if tail is None or tail.end - tail.begin >= goal:
                if not self._has_room():
                    if self.queue:
                        self._push(self.queue[-1])
                    self.try_send(waits=True)
                    return self.waiting
                tail = _Skb(self.write_end, self.write_end)
                self.queue.append(tail)
            count = min(goal - (tail.end - tail.begin), self.waiting)
            if is_first:
                tail.pushes = is_first = False
            tail.end += count
            self.write_end += count
            self.waiting -= count
            if tail.end - tail.begin < goal or self.waiting == 0:
                continue
            if self.write_end > self.pushed + self.max_window // 2:  # forced_push
                self._push(tail)
                self.try_send()
            elif self.queue[0] is tail:
                self.try_send(one_burst=True)
        if self.queue and (not self._has_more or self.write_end > self.pushed + self.max_window // 2):
            self._push(self.queue[-1])
        self.try_send()
        return 0

    def _wake_writer(self) -> None:
        """Let a write that waits go on where the buffer has room again (sk_stream_write_space)."""
        if self.waiting > 0 and self.tcp.wakes_writer(self._unsent_segments()):
            self._fill()
            if self.waiting == 0:
                self.written_ns = self.now_ns

    def _unsent_segments(self) -> int:
        return -(-self._unsent_bytes() // self.mss)

    def _push(self, skb: _Skb) -> None:
        skb.pushes = True
        self.pushed = self.write_end

    def _size_goal(self) -> int:
        half = self.max_window // 2 if self.max_window > _DEFAULT_MSS else self.max_window
        limit = min(_MAX_GSO_BYTES, half) if half else _MAX_GSO_BYTES
        return max(limit // self.mss, 1) * self.mss

    def _has_room(self) -> bool:
        return self.send_buffer_bytes == 0 or bool(self.tcp.accept(1, self._unsent_segments()))

    def set_send_buffer(self, size: int) -> None:
        """Set the size of the send buffer by setsockopt."""
        self.send_buffer_bytes = size
        if self.tcp is not None:
            self.tcp.set_send_buffer(size)

    def _unsent_bytes(self) -> int:
        return self.write_end - self.next if self.write_end > self.next else 0

    def set_nodelay(self, is_on: bool) -> None:
        """Switch Nagle's rule; what it or a cork holds back leaves."""
        self.nodelay = is_on
        self._pushes_now = is_on
        self.try_send()
        self._pushes_now = False

    def close(self) -> None:
        """Close the sending direction: a FIN follows the data (tcp_send_fin)."""
        if self.fin_at is not None or self.state in ("listen", "closed", "syn_sent"):
            return
        self.state = {"established": "fin_wait1", "close_wait": "last_ack"}.get(self.state, self.state)
        self.fin_at = self.write_end
        self.write_end += 1
        if self.queue:
            self.queue[-1].end += 1
            self.queue[-1].has_fin = True
        else:
            self.queue.append(_Skb(self.fin_at, self.fin_at + 1, has_fin=True))
        self.set_nodelay(True)

    def _new_segments(self, *, is_probe: bool = False) -> int:
        """Segments of the first skb that the peer's window and Nagle's rule let go."""
        if not self.queue:
            return 0
        skb = self.queue[0]
        begin = max(self.next, skb.begin)
        left = skb.end - begin
        payload = left - skb.has_fin
        room = self.una + self.window - begin
        whole = min(payload, room) // self.mss
        if room < payload or whole * self.mss == left:
            return max(whole, 0) if payload > 0 else int(left > 0)
        if payload > 0 and whole * self.mss == payload:
            return whole  # a FIN in the last of them
        is_last = len(self.queue) == 1
        small_is_out = self.small_end > self.una and self._has_out()
        corked = self.corked or self._has_more
        nagles = is_last and not is_probe and not self._pushes_now and (corked or (not self.nodelay and small_is_out))
        return whole + (not nagles)

    def try_send(self, *, one_burst: bool = False, waits: bool = False) -> None:
        """Send what may leave."""
        if not self.stands:
            return
        has_sent = False
        flight: _Flight | None = None
        while not self.settings.drops:
            kind, seqno = self.tcp.next(self.now_ns, self._new_segments())
            if kind == "nothing":
                break
            if kind == "new":
                flight, goes_on = self._send_new(flight)
            else:
                flight, goes_on = self._retransmit(seqno, flight)
            has_sent = True
            if not goes_on:
                self._launch(flight)
                flight = None
                if one_burst:
                    break
        self._launch(flight)
        self.tcp.validate_cwnd(self.now_ns, bool(self.queue), has_sent, waits or self.waiting > 0)
        if self.queue and not self._has_out() and self.host_deadline_ns < 0:
            self._arm_window_probe()

    def _send_new(self, flight: _Flight | None) -> tuple[_Flight, bool]:
        skb = self.queue[0]
        begin = self.next
        payload = min(skb.end - skb.has_fin - begin, self.mss)
        end = begin + payload
        end += skb.has_fin and end == skb.end - 1
        ect, cwr, joined = self.tcp.send_new(self.now_ns, payload, payload < self.mss)
        self.begins.append(begin)
        self.ends.append(end)
        self.next = end
        self.bytes_sent += payload
        self.last_data_sent_ns = self.now_ns
        if payload < self.mss:
            self.small_end = end
        skb.begin = end
        if end == skb.end:
            self.queue.pop(0)
            if skb.pushes:
                self.pushes.add(end)
        flight = flight or _Flight(begin, ect=ect, cwr=cwr)
        flight.add(end)
        return flight, joined and self.next < self.write_end

    def _retransmit(self, seqno: int, flight: _Flight | None) -> tuple[_Flight, bool]:
        begin, end = self.begins[seqno], self.ends[seqno]
        joined = self.tcp.retransmit(self.now_ns, seqno, end - begin)
        self.bytes_sent += end - begin
        self.bytes_retransmitted += end - begin
        self.last_data_sent_ns = self.now_ns
        flight = flight or _Flight(begin)
        flight.add(end)
        return flight, joined

    def _launch(self, flight: _Flight | None) -> None:
        """Hand the segments of a burst to the network, as one packet; more than one have PSH (__tcp_transmit_skb)."""
        if flight is None:
            return
        flags = {"."}
        if flight.count > 1 or flight.end in self.pushes:
            flags.add("P")
        if self.fin_at is not None and flight.end == self.fin_at + 1:
            flags.add("F")
            if flight.end - flight.begin == 1:
                flags.discard("P")
        if flight.cwr:
            flags.add("W")
        self._emit_data(flight.begin, flight.end, flags, "ect0" if flight.ect else "noecn")

    def _emit_data(self, begin: int, end: int, flags: set[str], ecn: str) -> None:
        ack, echo, window, options = self._acknowledge()
        self.last_ack_sent_ns = self.now_ns
        if echo:
            flags.add("E")
        size = self.mss if not self.settings.has_offload else max(end - begin, 1)
        for at in range(begin, max(end, begin + 1), size):  # without offload segment by segment (tcp_gso_segment)
            own = flags - ({"W"} if at > begin else set()) - ({"P", "F"} if at + size < end else set())
            self._emit(Sent(self.now_ns, frozenset(own), at, min(at + size, end), ack, window, options, ecn))

    def _emit(self, packet: Sent) -> None:
        if self.settings.drops:
            return
        self.segments_out += 1
        self.sent.append(packet)

    # ---- time ----------------------------------------------------------------------------------------

    def deadline_ns(self) -> int:
        """When something happens by itself; -1: never."""
        times = [self.host_deadline_ns, self.fin_ack_ns]
        if self.stands:
            times += self.tcp.deadlines()
        return min((time for time in times if time >= 0), default=-1)

    def fire(self) -> None:
        """Let happen what is due now."""
        if 0 <= self.host_deadline_ns <= self.now_ns:
            self._fire_host()
            return
        if 0 <= self.fin_ack_ns <= self.now_ns:
            self._send_ack()
            return
        timer, pacing, delayed = self.tcp.deadlines()
        if 0 <= timer <= self.now_ns:
            if self.tcp.on_timer(self.now_ns) and not self.settings.drops:
                self._send_loss_probe()
            self.try_send()
        elif 0 <= pacing <= self.now_ns:
            self.try_send()
        elif 0 <= delayed <= self.now_ns:
            self._send_ack()

    def _send_loss_probe(self) -> None:
        is_new = self._new_segments(is_probe=True) > 0
        if is_new:
            flight, _ = self._send_new(None)
            self._launch(flight)
            size = flight.end - flight.begin
        else:
            begin, end = self.begins[-1], self.ends[-1]
            size = end - begin
            self.bytes_sent += size
            self.bytes_retransmitted += size
            self._launch(_Flight(begin, end, 1))
        self.tcp.on_probe_sent(self.now_ns, not is_new, size)

    def _fire_host(self) -> None:
        if self.state in ("syn_sent", "syn_recv"):
            self._send_syn()
            return
        if not self.queue or self._has_out():
            self.host_deadline_ns = -1
            self.probes_out = 0
            return
        if self._new_segments(is_probe=True) > 0:
            self.pushes.add(min(self.queue[0].end, self.next + self.mss))
            self._launch(self._send_new(None)[0])
            self.host_deadline_ns = -1
            self.try_send()
            return
        self._emit_data(self.una - 1, self.una - 1, {"."}, "noecn")
        self.probes_out += 1
        self._arm_window_probe()

    def _arm_window_probe(self) -> None:
        """Probe a closed window after a timeout, then after twice that, and so on (tcp_send_probe0)."""
        base_ns = max(int(self.tcp_state()["rto"]) * 1000, _RTO_MIN_NS)
        self.host_deadline_ns = self.now_ns + min(base_ns << self.probes_out, _RTO_MAX_NS)

    # ---- what getsockopt tells -----------------------------------------------------------------------

    def tcp_state(self) -> dict[str, int]:
        """Return the sender's values of tcp_info, by their names in it."""
        state: dict[str, int] = self.tcp.state(self.now_ns)
        return state

    def require_one_way(self, what: str) -> None:
        """Raise if the connection does not stand."""
        if not self.stands:
            raise NotRunError(f"{what} before the connection stands")
