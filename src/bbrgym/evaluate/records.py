# SPDX-License-Identifier: GPL-2.0-only
"""The run folder: what a command leaves behind.

    config.yaml           what was asked for, every default written out
    jobs/                 each finished run, so that an interrupted command can go on
    summary.parquet       a row per scenario, world, variant, seed and flow
    timeseries.parquet    a row per interval and flow
    timing.csv            the wall time of each run, which the other files do not depend on
    ranking.parquet       of a distribution: a row per world, family of scenarios and entrant
    policy_maps.parquet   of trained agents: what they do over RTT and bandwidth
    summary.txt           the tables of the terminal
    figures/*.png
    report.html           all of it on one page

Every file is written beside its place and then renamed, so a killed command leaves whole files or none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bbrgym.errors import ConfigError
from bbrgym.files import write_atomically

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
#: flow fields, its link fields with ``link_`` before them and, with `TUNABLE_PREFIX`, the tunables that were set
#: meanwhile follow.
RUN_COLUMNS = ("scenario", "world", "variant", "agent", "seed")
TUNABLE_PREFIX = "tunable_"

#: Columns of timing.csv. ``wall_s`` is the time within the world's reset and advances: the start of a worker process
#: and the keeping of records are not in it.
TIMING_SCHEMA = pl.Schema(
    {
        "scenario": pl.String,
        "world": pl.String,
        "variant": pl.String,
        "agent": pl.String,
        "seed": pl.Int64,
        "simulated_s": pl.Float64,
        "wall_s": pl.Float64,
    }
)


@dataclass(frozen=True)
class RunRecord:
    """What one run leaves: its rows in the tables."""

    summary: pl.DataFrame
    timeseries: pl.DataFrame
    timing: pl.DataFrame


#: The agent of a variant with its own setting.
FIXED = "fixed"

_JOBS = "jobs"
_JOB_PARTS = ("timing", "timeseries", "summary")  # in the order in which they are written: with the last it is kept


class RunFolder:
    """A run folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._jobs = path / _JOBS

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

    def write_timing(self, timing: pl.DataFrame) -> None:
        write_atomically(self.path / "timing.csv", timing.write_csv)

    def read_timing(self) -> pl.DataFrame:
        return pl.read_csv(self.path / "timing.csv", schema=TIMING_SCHEMA)

    def has_job(self, key: str) -> bool:
        return all((self._jobs / f"{key}.{part}.parquet").exists() for part in _JOB_PARTS)

    def store_job(self, key: str, record: RunRecord) -> None:
        for part in _JOB_PARTS:
            self.write_table(f"{_JOBS}/{key}.{part}.parquet", getattr(record, part))

    def load_job(self, key: str) -> RunRecord:
        """A stored run.

        Raises:
            ConfigError: its files cannot be read.
        """
        try:
            return RunRecord(**{part: pl.read_parquet(self._jobs / f"{key}.{part}.parquet") for part in _JOB_PARTS})
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ConfigError(
                f"output_dir: cannot read run {key} in {str(self._jobs)!r}, delete it: {error}"
            ) from error


def worlds_of(summary: pl.DataFrame) -> list[str]:
    """Return the names of the worlds, in the order asked for."""
    names: list[str] = summary["world"].unique(maintain_order=True).to_list()
    return names


def flow_groups(names: list[str]) -> dict[str, list[str]]:
    """Flows that were written as one with a count (name-0, name-1, ...) by their common name."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.sub(r"-\d+$", "", name), []).append(name)
    return groups


def per_run(summary: pl.DataFrame) -> pl.DataFrame:
    """A row per run: its flows' goodput and share by group (mean over the group) and what describes the run as a whole.

    ``entrant`` is the variant and, unless that is a preset, who set its tunables.
    The queueing delay is the mean over packets, the retransmission rate that over flows.
    """
    groups = flow_groups(summary["flow"].unique(maintain_order=True).to_list())
    packets = pl.col("throughput_mbps") * (pl.col("stop_s") - pl.col("start_s"))
    has_delay = pl.col("queue_delay_mean_ms").is_not_nan() & packets.is_not_nan()
    delay = (pl.col("queue_delay_mean_ms") * packets).filter(has_delay).sum() / packets.filter(has_delay).sum()
    return (
        with_entrants(summary)
        .group_by(*RUN_COLUMNS, "entrant", maintain_order=True)
        .agg(
            *(
                pl.col("goodput_mbps")
                .filter(pl.col("flow").is_in(names))
                .fill_nan(None)
                .mean()
                .alias(f"goodput:{group}")
                for group, names in groups.items()
            ),
            *(
                pl.col("share").filter(pl.col("flow").is_in(names)).fill_nan(None).mean().alias(f"share:{group}")
                for group, names in groups.items()
            ),
            pl.col("goodput_mbps").fill_nan(None).sum().alias("goodput"),
            delay.alias("queue_delay_ms"),
            pl.col("retransmit_rate").fill_nan(None).mean(),
            pl.col("utilisation").first(),
            pl.col("jain").first(),
            pl.col("score").first(),
        )
    )


def with_entrants(table: pl.DataFrame) -> pl.DataFrame:
    """The table with a column ``entrant``: what people see of an agent and its variant."""
    pairs = table.select("agent", "variant").unique(maintain_order=True)
    labels = [label_of(agent, variant) for agent, variant in pairs.iter_rows()]
    return table.join(
        pairs.with_columns(entrant=pl.Series(labels, dtype=pl.String)),
        on=("agent", "variant"),
        how="left",
        maintain_order="left",
    )


def label_of(agent: str, variant: str) -> str:
    """What people see of an agent and its variant; a preset is known by its variant alone."""
    return variant if agent == FIXED else f"{agent} {variant}"
