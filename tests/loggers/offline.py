# SPDX-License-Identifier: GPL-2.0-only
"""Reads what W&B keeps of an offline run: a log of LevelDB's format, whose records are protocol buffers."""

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_IDENT = b":W&B"
_BLOCK = 32768
_HEADER = struct.Struct("<IHB")  # checksum, length, kind of a part
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def finished_runs(folder: Path, count: int = 1) -> list[Path]:
    """The files of a run folder's offline runs, once W&B's own process, which outlives a run's end, has written all."""
    deadline_s = time.monotonic() + 60
    kinds: list[list[str]] = []
    sizes: list[int] | None = None
    while True:
        files = sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))
        before, sizes = sizes, [file.stat().st_size for file in files]
        if sizes != before:  # to read them takes as long as to write them
            kinds = [[record.WhichOneof("record_type") for record in records(file)] for file in files]
        if [one.count("exit") for one in kinds] == [1] * count:
            return files
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{files} hold {kinds}")
        time.sleep(0.02)


def records(file: Path) -> Iterator[Any]:
    """All records of a file ``run-ID.wandb``, which may end in the middle of one that is being written."""
    from wandb.proto import wandb_internal_pb2

    data = file.read_bytes()
    at, parts = len(_IDENT) + 3, b""
    assert data[: len(_IDENT)] in (_IDENT, b"")
    while at + _HEADER.size <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left
            continue
        _, length, kind = _HEADER.unpack_from(data, at)
        if at + _HEADER.size + length > len(data):
            return
        parts += data[at + _HEADER.size : at + _HEADER.size + length]
        at += _HEADER.size + length
        if kind in (_FULL, _LAST):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record
