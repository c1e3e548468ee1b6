# SPDX-License-Identifier: GPL-2.0-only
"""The run folder: what a command leaves behind.

    config.yaml           what was asked for, every default written out
    jobs/                 each finished run, so that an interrupted command can go on
    summary.parquet       a row per scenario, world, variant, seed and flow
    timeseries.parquet    a row per interval and flow
    summary.txt           the table of the terminal
    figures/*.png

Every file is written beside its place and then renamed, so a killed command leaves whole files or none.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bbrgym.errors import ConfigError

#: Columns of summary.parquet, in this order. Rates are means over the flow's measured window, start_s to stop_s.
SUMMARY_SCHEMA = pl.Schema(
    {
        "scenario": pl.String,
        "world": pl.String,
        "variant": pl.String,
        "agent": pl.String,
        "seed": pl.Int64,
        "flow": pl.String,
        "cc": pl.String,
        "role": pl.String,
        "rtt_ms": pl.Float64,
        "start_s": pl.Float64,
        "stop_s": pl.Float64,
        "goodput_mbps": pl.Float64,
        "throughput_mbps": pl.Float64,
        "share": pl.Float64,
        "retransmit_rate": pl.Float64,
        "loss_rate": pl.Float64,
        "rtt_mean_ms": pl.Float64,
        "rtt_p95_ms": pl.Float64,
        "queue_delay_mean_ms": pl.Float64,
        "utilisation": pl.Float64,
        "jain": pl.Float64,
        "score": pl.Float64,
    }
)

#: Columns that tell the runs of timeseries.parquet apart; ``time_s`` (the interval's end), ``flow``, the world's
#: flow fields and its link fields with ``link_`` before them follow.
RUN_COLUMNS = ("scenario", "world", "variant", "agent", "seed")


@dataclass(frozen=True)
class RunRecord:
    """The rows of one run in the two tables."""

    summary: pl.DataFrame
    timeseries: pl.DataFrame


class RunFolder:
    """A run folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._jobs = path / "jobs"

    def open(self, *, resume: bool) -> None:
        """Makes the folder, or goes on with it.

        Raises:
            ConfigError: it holds something and ``resume`` is off, or it cannot be made.
        """
        try:
            if self.path.exists() and not resume and any(self.path.iterdir()):
                raise ConfigError(
                    f"output_dir: {str(self.path)!r} is not empty, expected a new one, or resume=true to go on"
                )
            self._jobs.mkdir(parents=True, exist_ok=True)
            for partial in self.path.rglob("*.partial"):
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"output_dir: cannot use {str(self.path)!r}: {error}") from error

    def write_text(self, name: str, text: str) -> None:
        write_atomically(self.path / name, lambda partial: partial.write_text(text, encoding="utf-8"))

    def write_table(self, name: str, table: pl.DataFrame) -> None:
        """Writes Parquet; the same table gives the same bytes."""
        whole = table.rechunk()
        write_atomically(self.path / name, lambda partial: whole.write_parquet(partial, compression="zstd"))

    def has_job(self, key: str) -> bool:
        return self._summary_path(key).exists() and self._timeseries_path(key).exists()

    def store_job(self, key: str, record: RunRecord) -> None:
        self.write_table(str(self._timeseries_path(key).relative_to(self.path)), record.timeseries)
        self.write_table(str(self._summary_path(key).relative_to(self.path)), record.summary)

    def load_job(self, key: str) -> RunRecord:
        """A stored run.

        Raises:
            ConfigError: its files cannot be read.
        """
        try:
            return RunRecord(pl.read_parquet(self._summary_path(key)), pl.read_parquet(self._timeseries_path(key)))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ConfigError(
                f"output_dir: cannot read run {key} in {str(self._jobs)!r}, delete it: {error}"
            ) from error

    def _summary_path(self, key: str) -> Path:
        return self._jobs / f"{key}.summary.parquet"

    def _timeseries_path(self, key: str) -> Path:
        return self._jobs / f"{key}.timeseries.parquet"


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Calls ``write`` with a path beside ``path`` and renames the result, so no reader ever sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
