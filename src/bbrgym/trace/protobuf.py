# SPDX-License-Identifier: GPL-2.0-only
"""Protocol Buffers' wire format, as far as a Perfetto trace needs it: fields of a message, one after the other."""

from __future__ import annotations

import struct

_VARINT, _DOUBLE, _BYTES = 0, 1, 2


def varint(value: int) -> bytes:
    """Return an unsigned integer in groups of seven bits, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def whole(number: int, value: int) -> bytes:
    """Return a field of type uint64, int64 or enum; a negative value in two's complement."""
    return varint(number << 3 | _VARINT) + varint(value % 2**64)


def real(number: int, value: float) -> bytes:
    """Return a field of type double."""
    return varint(number << 3 | _DOUBLE) + struct.pack("<d", value)


def block(number: int, content: bytes) -> bytes:
    """Return a field of type bytes, or a message."""
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


def text(number: int, value: str) -> bytes:
    """Return a field of type string."""
    return block(number, value.encode())
