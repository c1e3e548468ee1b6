# SPDX-License-Identifier: GPL-2.0-only
"""A log of connections in Parquet that grows for as long as it is written, in bounded memory.

Rows wait in a part, which is written beside the log, in FILE.parts; the parts become the log when it is closed. Those
of a killed process become part of the next log of the same name.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.host.errors import HostError
from bbrgym.runs.atomic_files import make_folder, write_atomically
from bbrgym.tunables import BASES, VARIANTS

_PART_ROWS = 2**14
_PART_S = 60.0  # most that a killed process loses

_KNOWN: dict[str, type[pl.DataType]] = {
    "time_s": pl.Float64,
    "control": pl.String,
    "connection": pl.UInt64,
    "local": pl.String,
    "peer": pl.String,
    "age_s": pl.Float64,
    "phase": pl.String,
    "bw_mbps": pl.Float64,
    "min_rtt_ms": pl.Float64,
    "srtt_ms": pl.Float64,
    "cwnd_pkts": pl.UInt32,
    "in_flight_pkts": pl.UInt32,
    "delivered_bytes": pl.UInt64,
    "retransmitted_pkts": pl.UInt32,
    "lost_pkts": pl.UInt32,
    "mss_bytes": pl.UInt32,
    "app_limited": pl.Boolean,
    "policy": pl.String,
}
_TUNABLES = {name for one in VARIANTS.values() if one.algorithm in BASES for name in one.preset}
SCHEMA = pl.Schema(_KNOWN | dict.fromkeys(sorted(_TUNABLES), pl.Float64))
"""Columns of a log: those of `connection_rows`, and the tunables of all variants, null where a control has none."""


class FlowLog:
    """A log that is being written.

    Args:
        path: of the log; what stands there is replaced when the log is closed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path.with_name(f"{path.name}.parts")
        self._rows: list[Mapping[str, Any]] = []
        self._began_s = time.monotonic()
        make_folder(self._folder)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows of `connection_rows`."""
        self._rows += rows
        if len(self._rows) >= _PART_ROWS or time.monotonic() - self._began_s > _PART_S:
            self._write_part()

    def close(self) -> None:
        """Write the log; none if it has no row.

        Raises:
            HostError: it cannot be written; its parts stay.
        """
        self._write_part()
        parts = self._parts()
        if parts:
            whole = pl.scan_parquet(parts)
            try:
                write_atomically(
                    self._path,
                    lambda partial: whole.sink_parquet(partial, compression="zstd", row_group_size=_PART_ROWS),
                )
            except pl.exceptions.PolarsError as error:  # such as of a full disk
                raise HostError(f"the log cannot be written, its parts are in {self._folder}: {error}") from error
        shutil.rmtree(self._folder)

    def _write_part(self) -> None:
        if self._rows:
            table = pl.DataFrame(self._rows, schema=SCHEMA)
            write_atomically(self._folder / f"{len(self._parts()):08}.parquet", table.write_parquet)
        self._rows, self._began_s = [], time.monotonic()

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("[0-9]*.parquet"))
