# SPDX-License-Identifier: GPL-2.0-only
"""Reads what W&B keeps of an offline run: a log of LevelDB's format, whose records are protocol buffers."""

import struct
from collections.abc import Iterator
from pathlib import Path

from wandb.proto import wandb_internal_pb2

_BLOCK = 32768
_HEADER = struct.Struct("<IHB")  # checksum, length, kind of a part
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(file: Path) -> Iterator[wandb_internal_pb2.Record]:
    """All records of a file ``run-ID.wandb``."""
    data = file.read_bytes()
    assert data[:4] == b":W&B"
    at, parts = 7, b""
    while at + _HEADER.size <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left
            continue
        _, length, kind = _HEADER.unpack_from(data, at)
        parts += data[at + _HEADER.size : at + _HEADER.size + length]
        at += _HEADER.size + length
        if kind in (_FULL, _LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record
