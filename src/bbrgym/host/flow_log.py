# SPDX-License-Identifier: GPL-2.0-only
"""A growing Parquet log of connections, written in bounded memory.

Its parts are written beside it, in .FILE.bbrgym-watch, and become the log when it is closed. Those of a killed process
become part of the next log of the same name.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.errors import one_line
from bbrgym.host.errors import HostError
from bbrgym.host.parts import PART_ROWS, RowParts
from bbrgym.runs.atomic_files import check_output, write_atomically
from bbrgym.runs.run_folder import LOCK, RunFolder
from bbrgym.tunables import KERNEL_ALGORITHMS, VARIANTS

_KNOWN: dict[str, type[pl.DataType]] = {
    "time_s": pl.Float64,
    "control": pl.String,
    "connection": pl.UInt64,
    **dict.fromkeys(("local", "peer"), pl.String),
    "age_s": pl.Float64,
    "phase": pl.String,
    **dict.fromkeys(("bw_mbps", "min_rtt_ms", "srtt_ms"), pl.Float64),
    **dict.fromkeys(("cwnd_pkts", "in_flight_pkts"), pl.UInt32),
    "delivered_bytes": pl.UInt64,
    **dict.fromkeys(("retransmitted_pkts", "lost_pkts", "mss_bytes"), pl.UInt32),
    "app_limited": pl.Boolean,
    "policy": pl.String,
}
_TUNABLES = {name for one in VARIANTS.values() if one.algorithm in KERNEL_ALGORITHMS for name in one.preset}
SCHEMA = pl.Schema(_KNOWN | dict.fromkeys(sorted(_TUNABLES), pl.Float64))
"""Columns of a log: those of `connection_rows`, and the tunables of all variants, null where a control has none."""


class _PartsFolder(RunFolder):
    """The folder of a log's parts, which one process writes at a time."""

    command, option = "kernel watch", "log"


class FlowLog:
    """A log that is being written.

    Args:
        path: of the log; a file that stands there is replaced when the log is closed.

    Raises:
        ConfigError: something other than a file stands there, or another process writes the log.
    """

    def __init__(self, path: Path) -> None:
        check_output(path)
        self._path = path
        self._folder = _PartsFolder(path.with_name(f".{path.name}.bbrgym-watch"))
        self._folder.open(resume=True)
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):  # by a process that was killed
            left.unlink()
        self._parts = RowParts(self._folder.path, SCHEMA)

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows of `connection_rows`."""
        self._parts.add(rows)

    def close(self) -> None:
        """Write the log; none if it has no row. Raises HostError: it cannot be written; its parts stay."""
        try:
            self._parts.flush()
            files = self._parts.files()
            if files:
                whole = pl.scan_parquet(files)
                write_atomically(
                    self._path,
                    lambda partial: whole.sink_parquet(partial, compression="zstd", row_group_size=PART_ROWS),
                )
            for one in (*files, self._folder.path / LOCK):
                one.unlink()
        except (OSError, pl.exceptions.PolarsError) as error:  # such as of a full disk
            where = f"{self._path} cannot be written, the next --log of this name takes what is in {self._folder.path}"
            raise HostError(f"{where}: {one_line(error)}") from error
        finally:
            self._folder.close()
        with suppress(OSError):  # something else is in it, or another process writes the log by now
            self._folder.path.rmdir()
