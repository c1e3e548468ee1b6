# SPDX-License-Identifier: GPL-2.0-only
"""TCP packets of a capture, pcap or pcapng, one after the other.

Lengths that a file states are checked before so much is read. A capture that breaks off in a packet ends before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BufferedReader
from typing import NamedTuple

from bbrgym.paths.samples import LogProblem

SYN, ACK = 0x02, 0x10

_PCAP = {b"\xa1\xb2\xc3\xd4": (">", 1e-6), b"\xd4\xc3\xb2\xa1": ("<", 1e-6)} | {
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
}
_SECTION = b"\x0a\x0d\x0d\x0a"  # the same in both byte orders
_BYTE_ORDERS = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_INTERFACE, _ENHANCED_PACKET = 1, 6
_MOST_BLOCK_BYTES = 2**24
_MOST_PACKET_BYTES = 2**18  # tcpdump's largest
_MOST_INTERFACES = 2**10
_TIME_RESOLUTION = 9  # an interface's option
_DEFAULT_RESOLUTION_S = 1e-6

_COOKED, _COOKED_2 = 113, 276
_RAW_BYTES = {0: 4, 108: 4, 12: 0, 14: 0, 101: 0, 228: 0, 229: 0}  # of a link's header without a type of what follows
_TYPES_AT = {1: (12, 14), _COOKED: (14, 16), _COOKED_2: (0, 20), 9: (2, 4)}  # of others the type, and what follows
_INTERFACES_AT = {_COOKED: slice(0, 2), _COOKED_2: slice(4, 11)}  # and whether a frame came or went
_VLAN = (0x8100, 0x88A8, 0x9100)
_MPLS = (0x8847, 0x8848)
_PPPOE, _PPPOE_BYTES = 0x8864, 8
_IP_TYPES = (0x0800, 0x86DD, 0x0021, 0x0057)  # the latter of PPP
_TCP, _FRAGMENT = 6, 0x1FFF
_END, _PADDING, _MSS, _SCALE, _SACK, _TIMESTAMP = 0, 1, 2, 3, 5, 8  # options
_TIMESTAMP_BYTES = 12
_LARGEST_SCALE = 14


class TcpPacket(NamedTuple):
    """A TCP packet."""

    time_s: float
    interface: bytes  # at which it was seen, and which way
    source: bytes  # address and port
    target: bytes
    ip_id: int
    sequence: int
    acked: int
    flags: int
    window: int  # not scaled
    payload_bytes: int
    is_cut: bool  # whether the capture lacks options, among them all SACK blocks
    sacked: tuple[tuple[int, int], ...]  # SACK blocks: sequence numbers of the first byte and behind the last
    mss_bytes: int  # payload that a SYN allows, less what a timestamp takes of it; 0: not said
    scale: int | None  # of the windows to come, as a SYN says; None: not said
    stamps: tuple[int, ...]  # timestamp and its echo, if there are


class _Record(NamedTuple):
    time_s: float
    link: int  # its type
    interface: int
    content: bytes
    length: int  # of the packet on the wire


def is_capture(begin: bytes) -> bool:
    """Return whether a file begins as a capture does."""
    return begin[:4] in _PCAP or (begin[:4] == _SECTION and begin[8:12] in _BYTE_ORDERS)


def read_packets(file: BufferedReader) -> Iterator[TcpPacket]:
    """Yield the TCP packets of a capture."""
    is_any = False
    records = _pcapng_records(file) if file.peek(4)[:4] == _SECTION else _pcap_records(file)
    for record in records:
        packet = _tcp_packet(record)
        if packet is not None:
            is_any = True
            yield packet
    if not is_any:
        raise LogProblem("is a capture without TCP, or of packets in a tunnel or cut off within their headers")


# ---- files -------------------------------------------------------------------------------------------------


def _pcap_records(file: BufferedReader) -> Iterator[_Record]:
    order, unit_s = _PCAP[file.read(4)]
    head = file.read(20)
    if len(head) < 20:
        return
    link = int(struct.unpack(f"{order}I", head[16:])[0] & 0xFFFF)
    layout = struct.Struct(f"{order}IIII")
    while len(head := file.read(16)) == 16:
        seconds, part, captured, length = layout.unpack(head)
        if captured > _MOST_PACKET_BYTES:
            raise LogProblem(f"is a damaged capture: a packet states more than {_MOST_PACKET_BYTES} bytes")
        content = file.read(captured)
        if len(content) < captured:
            return
        yield _Record(seconds + part * unit_s, link, 0, content, length)


def _pcapng_records(file: BufferedReader) -> Iterator[_Record]:
    order = "<"
    interfaces: list[tuple[int, float]] = []  # type of link, resolution in s
    while len(head := file.read(8)) == 8:
        if head[:4] == _SECTION:
            mark = file.read(4)
            if mark not in _BYTE_ORDERS:
                raise LogProblem("is a damaged capture: a section without a byte order")
            order, interfaces = _BYTE_ORDERS[mark], []
        else:
            mark = b""
        kind, size = struct.unpack(f"{order}II", head)
        if not 12 <= size <= _MOST_BLOCK_BYTES or size % 4:
            raise LogProblem(f"is a damaged capture: a block states {size} bytes")
        body = file.read(size - 8 - len(mark))
        if len(body) < size - 8 - len(mark):
            return
        if kind == _INTERFACE and len(body) >= 12:
            if len(interfaces) >= _MOST_INTERFACES:
                raise LogProblem(f"is a capture of more than {_MOST_INTERFACES} interfaces, the most allowed")
            interfaces.append((struct.unpack_from(f"{order}H", body)[0], _resolution_s(body[8:-4], order)))
        elif kind == _ENHANCED_PACKET and len(body) >= 24:
            index, high, low, captured, length = struct.unpack_from(f"{order}IIIII", body)
            if index >= len(interfaces) or captured > len(body) - 24:
                raise LogProblem("is a damaged capture: a packet of no interface, or longer than its block")
            link, unit_s = interfaces[index]
            yield _Record((high << 32 | low) * unit_s, link, index, body[20 : 20 + captured], length)


def _resolution_s(options: bytes, order: str) -> float:
    """Return the unit of an interface's times."""
    at = 0
    while at + 4 <= len(options):
        code, size = struct.unpack_from(f"{order}HH", options, at)
        if code == _TIME_RESOLUTION and size == 1 and at + 4 < len(options):
            value = options[at + 4]
            return float(2.0 ** -(value & 0x7F)) if value & 0x80 else float(10.0**-value)
        at += 4 + size + -size % 4
    return _DEFAULT_RESOLUTION_S


# ---- packets -----------------------------------------------------------------------------------------------


def _tcp_packet(record: _Record) -> TcpPacket | None:
    """Return the packet, None if not of TCP, or cut off within the header."""
    content = record.content
    link_bytes = _ip_at(record.link, content)
    ip = content[link_bytes:]
    if link_bytes is None or len(ip) < 40:
        return None
    if ip[0] >> 4 == 4:
        header_bytes, ip_bytes, ip_id = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big"), int.from_bytes(ip[4:6], "big")
        if ip[9] != _TCP or int.from_bytes(ip[6:8], "big") & _FRAGMENT:
            return None
        source, target = ip[12:16], ip[16:20]
    elif ip[0] >> 4 == 6:
        header_bytes, ip_bytes, ip_id = 40, int.from_bytes(ip[4:6], "big"), 0
        ip_bytes += 40 if ip_bytes else 0
        if ip[6] != _TCP:
            return None
        source, target = ip[8:24], ip[24:40]
    else:
        return None
    ip_bytes = ip_bytes or record.length - link_bytes  # 0: the network card cuts it into packets
    tcp = ip[header_bytes:]
    if len(tcp) < 20:
        return None
    ports, sequence, acked, offset, flags, window = tcp[:4], *struct.unpack_from(">IIBBH", tcp, 4)
    tcp_bytes = (offset >> 4) * 4
    options = _options(tcp[20:tcp_bytes])
    interface = record.interface.to_bytes(2, "little") + content[_INTERFACES_AT.get(record.link, slice(0))]
    source, target = source + ports[:2], target + ports[2:]
    payload_bytes, is_cut = max(ip_bytes - header_bytes - tcp_bytes, 0), len(tcp) < tcp_bytes and not options[0]
    return TcpPacket(
        record.time_s, interface, source, target, ip_id, sequence, acked, flags, window, payload_bytes, is_cut, *options
    )


def _ip_at(link: int, content: bytes) -> int | None:
    """Return the offset of IP in a frame, behind tags of VLANs, PPPoE and MPLS; None without IP."""
    if link in _RAW_BYTES:
        return _RAW_BYTES[link]
    if link not in _TYPES_AT:
        raise LogProblem(f"is a capture of links of type {link}, expected Ethernet, cooked, PPP, loopback or raw IP")
    type_at, at = _TYPES_AT[link]
    kind = int.from_bytes(content[type_at : type_at + 2], "big")
    while kind not in _IP_TYPES:
        if kind in _MPLS:
            at += 4
            if len(content) < at or content[at - 2] & 1:  # the last label
                return at
            continue
        if kind not in _VLAN and kind != _PPPOE:
            return None
        at += 4 if kind in _VLAN else _PPPOE_BYTES
        kind = int.from_bytes(content[at - 2 : at], "big")
    return at


def _options(options: bytes) -> tuple[tuple[tuple[int, int], ...], int, int | None, tuple[int, ...]]:
    """Return the content of whole options: the last four fields of `TcpPacket`."""
    sacked: tuple[tuple[int, int], ...] = ()
    mss_bytes, scale = 0, None
    stamps: tuple[int, ...] = ()
    at = 0
    while at + 1 < len(options) and options[at] != _END:
        if options[at] == _PADDING:
            at += 1
            continue
        kind, size = options[at], options[at + 1]
        value = options[at + 2 : at + size]
        if size < 2 or (len(value) < size - 2 and kind != _SACK):
            break
        if kind == _MSS and size == 4:
            mss_bytes = int.from_bytes(value, "big")
        elif kind == _SCALE and size == 3:
            scale = min(value[0], _LARGEST_SCALE)
        elif kind == _TIMESTAMP and size == 10:
            stamps = struct.unpack(">II", value)
        elif kind == _SACK and size >= 10:
            edges = struct.unpack_from(f">{len(value) // 8 * 2}I", value)
            sacked = tuple(zip(edges[::2], edges[1::2], strict=True))
        at += size
    return sacked, max(mss_bytes - (_TIMESTAMP_BYTES if stamps else 0), 0), scale, stamps
