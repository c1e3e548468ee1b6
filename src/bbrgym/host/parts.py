# SPDX-License-Identifier: GPL-2.0-only
"""Rows that go to the disk part by part: little memory is used, and a killed process loses few."""

from __future__ import annotations

import io
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.runs.atomic_files import make_folder, write_atomically

PART_ROWS = 2**14
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PART_S = 60.0  # most that a killed process loses


@contextmanager
def interruptible_waits() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits some seconds, or until Ctrl-C or SIGTERM came, and returns whether one did.

    They raise nothing in the block, so that no row is lost or doubled.
    """
    reader, writer = os.pipe()
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {one: signal.signal(one, lambda *_: os.write(writer, b"1")) for one in _SIGNALS}
    try:
        yield lambda timeout_s: bool(select.select([reader], [], [], timeout_s)[0])
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        os.close(reader)
        os.close(writer)


class RowParts:
    """A folder of Parquet files with rows in the order of `add`, those of earlier processes first.

    Args:
        folder: of the parts, which is made.
        schema: of their rows.
        before_part: called before a part is written. Default: nothing is.
    """

    def __init__(self, folder: Path, schema: pl.Schema, before_part: Callable[[], object] = lambda: None) -> None:
        self.folder = folder
        self._schema = schema
        self._before_part = before_part
        self._rows: list[Mapping[str, Any]] = []
        self._began_s = time.monotonic()
        make_folder(folder)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows; write the pending rows if there are many or after a while."""
        self._rows += rows
        if len(self._rows) >= PART_ROWS or time.monotonic() - self._began_s > _PART_S:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        if self._rows:
            self._before_part()
            parquet = io.BytesIO()  # given a path, Polars makes a full disk a ComputeError
            pl.DataFrame(self._rows, schema=self._schema).write_parquet(parquet)
            number = max((int(one.stem) + 1 for one in self.files()), default=0)
            write_atomically(
                self.folder / f"{number:08}.parquet", lambda partial: partial.write_bytes(parquet.getbuffer())
            )
        self._rows, self._began_s = [], time.monotonic()

    def files(self) -> list[Path]:
        """Return the files of the parts, oldest first."""
        return sorted(self.folder.glob(f"{'[0-9]' * 8}.parquet"))
