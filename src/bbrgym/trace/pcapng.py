# SPDX-License-Identifier: GPL-2.0-only
"""A trace as pcapng, like a capture at the senders: departing data and arriving ACKs.

Raw IPv4 packets with their headers alone; each says how long it was. Sequence numbers begin at 0 with the SYN, so that
the first byte of payload has 1. A flow's index is in its sender's address and in its receiver's port.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

from bbrgym.trace.rows import ACK_ARRIVED, FLAG_BITS, SENT, SYN, DecisionRow, PacketRow, Rows, TracedRun

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6  # types of blocks
_BYTE_ORDER = 0x1A2B3C4D
_RAW_IP = 101  # LINKTYPE_RAW
_NANOSECONDS = 9
_COMMENT, _IF_NAME, _IF_TSRESOL = 1, 2, 9
_PACKET_FLAGS, _INBOUND, _OUTBOUND = 2, 1, 2

_RECEIVER = 0x0A000001  # 10.0.0.1
_SENDERS = 0x0A010000  # 10.1.0.0 + flow
_RECEIVER_PORT = 5000  # + flow
_SENDER_PORT = 49153
_TCP, _TTL, _DONT_FRAGMENT = 6, 64, 0x4000
_ECT = 2  # of the IP header
_FLAG_SYN, _FLAG_ACK, _FLAG_ECE, _FLAG_CWR = 0x02, 0x10, 0x40, 0x80
_MAX_WINDOW = 65_535
_SCALE, _LARGEST_SCALE = 11, 14  # of windows
_SYN_OPTIONS = bytes([1, 1, 4, 2, 1, 3, 3])  # SACK permitted; the window scale follows


class PcapngWriter:
    """Writes packets as rows come."""

    def __init__(self, file: BinaryIO, run: TracedRun) -> None:
        self._file = file
        self._identification = [0] * len(run.flows)
        self._scale = _LARGEST_SCALE if _is_long(run) else _SCALE
        comment = _option(_COMMENT, run.title.encode())
        section = struct.pack("<IHHq", _BYTE_ORDER, 1, 0, -1) + comment + _END_OF_OPTIONS
        options = _option(_IF_NAME, b"senders") + _option(_IF_TSRESOL, bytes([_NANOSECONDS])) + _END_OF_OPTIONS
        file.write(_block(_SECTION, section) + _block(_INTERFACE, struct.pack("<HHI", _RAW_IP, 0, 0) + options))

    def write(self, rows: Rows) -> None:
        """Write the packets of rows that follow the earlier ones."""
        out = bytearray()
        for row in rows.in_order():
            if isinstance(row, DecisionRow):
                continue
            if row.event == SENT:
                out += self._sent(row)
            elif row.event == ACK_ARRIVED:
                out += self._ack(row)
        self._file.write(out)

    def _sent(self, row: PacketRow) -> bytes:
        ports, addresses = (_SENDER_PORT, _RECEIVER_PORT + row.flow), (_SENDERS + row.flow, _RECEIVER)
        if row.flags & SYN:
            tcp = _header(ports, 0, 0, _FLAG_SYN, _MAX_WINDOW) + _SYN_OPTIONS + bytes([self._scale])
        else:
            flags = _FLAG_ACK | (_FLAG_CWR if row.flags & FLAG_BITS["cwr"] else 0)
            tcp = _header(ports, row.offset_bytes + 1, 1, flags, _MAX_WINDOW)
        ecn = _ECT if row.flags & FLAG_BITS["ect"] else 0
        return self._packet(row, addresses, tcp, row.payload_bytes, ecn, _OUTBOUND)

    def _ack(self, row: PacketRow) -> bytes:
        ports, addresses = (_RECEIVER_PORT + row.flow, _SENDER_PORT), (_RECEIVER, _SENDERS + row.flow)
        is_syn = bool(row.flags & SYN)
        window = min(row.window_bytes >> (0 if is_syn else self._scale), _MAX_WINDOW)
        flags = _FLAG_ACK | (_FLAG_SYN if is_syn else 0) | (_FLAG_ECE if row.flags & FLAG_BITS["ece"] else 0)
        tcp = _header(ports, int(not is_syn), row.acked_bytes + 1, flags, max(window, int(row.window_bytes > 0)))
        options = _SYN_OPTIONS + bytes([self._scale]) if is_syn else _sack(row)
        return self._packet(row, addresses, tcp + options, 0, 0, _INBOUND)

    def _packet(
        self, row: PacketRow, addresses: tuple[int, int], tcp: bytes, payload_bytes: int, ecn: int, way: int
    ) -> bytes:
        """Return the block of a packet with a payload of zeros, which add nothing to the checksum."""
        self._identification[row.flow] += 1
        tcp_bytes = len(tcp) + payload_bytes
        head = bytearray(tcp)
        head[12] = len(tcp) // 4 << 4
        pseudo = struct.pack(">IIHH", *addresses, _TCP, tcp_bytes)
        struct.pack_into(">H", head, 16, _checksum(pseudo + head))
        number = self._identification[row.flow] % 2**16
        fields = (0x45, ecn, 20 + tcp_bytes, number, _DONT_FRAGMENT, _TTL, _TCP, 0, *addresses)
        ip = bytearray(struct.pack(">BBHHHBBHII", *fields))
        struct.pack_into(">H", ip, 10, _checksum(ip))
        captured = bytes(ip + head)
        length = (len(captured), len(captured) + payload_bytes)
        begin = struct.pack("<IIIII", 0, row.time_ns >> 32, row.time_ns & 0xFFFFFFFF, *length)
        options = _option(_PACKET_FLAGS, struct.pack("<I", way)) + _END_OF_OPTIONS
        return _block(_PACKET, begin + _padded(captured) + options)


def _is_long(run: TracedRun) -> bool:
    """Return whether more is under way than the smaller window scale announces."""
    link = run.scenario.resolved().link
    rates = [link.rate_mbps or 0.0, *(change.rate_mbps or 0.0 for change in link.changes)]
    rtt_ms = max(flow.rtt_ms for flow in run.scenario.resolved().flows)
    return bool(max(rates) * rtt_ms * 1e3 / 8 > 16e6)


def _header(ports: tuple[int, int], sequence: int, acked: int, flags: int, window: int) -> bytes:
    """Return a TCP header whose length and checksum are still 0."""
    return struct.pack(">HHIIBBHHH", *ports, sequence % 2**32, acked % 2**32, 0, flags, window, 0, 0)


def _sack(row: PacketRow) -> bytes:
    """Return the option with an ACK's blocks (RFC 2018), after two bytes of alignment."""
    if row.block_count == 0:
        return b""
    edges = [(edge + 1) % 2**32 for block in row.blocks[: row.block_count] for edge in block]
    return bytes([1, 1, 5, 2 + 4 * len(edges)]) + struct.pack(f">{len(edges)}I", *edges)


def _checksum(data: bytes | bytearray) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


_END_OF_OPTIONS = struct.pack("<HH", 0, 0)


def _block(kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)
