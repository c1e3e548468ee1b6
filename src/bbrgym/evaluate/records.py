# SPDX-License-Identifier: GPL-2.0-only
"""The records of an evaluation, and its run folder.

The folder holds:

    config.yaml           the request, every default written out
    jobs/                 each finished run, so that an interrupted evaluation can go on
    summary.parquet       a row per scenario, world, variant, seed and flow
    references.parquet    where there are other flows: the same of runs with CUBIC, BBR and their own controls in place
                          of the tuned flows, which harm is measured against
    checks.parquet        of a scenario with checks: a row per run and check
    timeseries.parquet    a row per interval and flow
    timing.csv            the wall time of each run, which the other files do not depend on
    ranking.parquet       of a distribution: a row per world, family of scenarios and entrant
    summary.txt           the tables of the terminal
    figures/*.png
    report.html           all of it on one page
"""

from __future__ import annotations

import re
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import polars as pl

from bbrgym.errors import ConfigError
from bbrgym.runs.run_folder import RunFolder
from bbrgym.worlds.score import HARMS

RUN_SCHEMA = {**dict.fromkeys(("scenario", "world", "variant", "agent"), pl.String), "seed": pl.Int64}
#: Columns that tell runs apart.
RUN_COLUMNS = tuple(RUN_SCHEMA)

#: Columns of a run's summary, in this order. Rates are means over the flow's measured window, start_s to stop_s. Of
#: the flows that are not tuned, ``harm`` and its like are NaN until the reference runs are there (`harm`). Of
#: scenarios with checks, summary.parquet has ``checks_passed`` behind them. The lateness of a run in real time, and how
#: many late runs of it were refused before, are null in simulated worlds.
SUMMARY_SCHEMA = pl.Schema(
    {
        **RUN_SCHEMA,
        **dict.fromkeys(("flow", "cc", "role"), pl.String),
        **dict.fromkeys(("rtt_ms", "start_s", "stop_s", "goodput_mbps", "throughput_mbps", "share"), pl.Float64),
        **dict.fromkeys(
            ("retransmit_rate", "loss_rate", "rtt_mean_ms", "rtt_p95_ms", "queue_delay_mean_ms"), pl.Float64
        ),
        **dict.fromkeys(("utilisation", "jain", "score", "own_score", "share_of_fair", *HARMS), pl.Float64),
        **dict.fromkeys(("in_order_arrival_mbps", "out_of_order_rate"), pl.Float64),
        **dict.fromkeys(("busy_share", "rwnd_limited_share", "sndbuf_limited_share"), pl.Float64),
        **dict.fromkeys(("completed", "completion_s", "slowdown"), pl.Float64),
        **dict.fromkeys(("frame_delay_p50_ms", "frame_delay_p99_ms", "late_frame_share"), pl.Float64),
        **dict.fromkeys(("late_p50_us", "late_p99_us", "late_p999_us", "late_share"), pl.Float64),
        "late_repeats": pl.Int64,
    }
)

#: Prefix of the tunables' columns in timeseries.parquet: behind `RUN_COLUMNS` it has ``time_s`` (the interval's end),
#: ``flow``, the world's flow fields, its link fields with the prefix ``link_``, and the tunables of the interval.
TUNABLE_PREFIX = "tunable_"

#: Columns of timing.csv. ``wall_s`` is the time within the world's reset and advances, without the start of a worker
#: process and the records.
TIMING_SCHEMA = pl.Schema({**RUN_SCHEMA, "simulated_s": pl.Float64, "wall_s": pl.Float64})


@dataclass(frozen=True)
class RunRecord:
    """Records of one run: its rows in the tables."""

    summary: pl.DataFrame
    timeseries: pl.DataFrame
    timing: pl.DataFrame


class Records:
    """Records of many runs by key. Summaries and timings of many runs are in one table: a table a run takes 30 KB."""

    def __init__(self) -> None:
        self._summary, self._timing = _MergedTables(SUMMARY_SCHEMA), _MergedTables(TIMING_SCHEMA)
        self._timeseries: dict[Hashable, pl.DataFrame] = {}
        self._empty: dict[tuple[str, ...], pl.DataFrame] = {}  # one for each list of columns
        self._one_at_a_time = threading.Lock()

    def add(self, key: Hashable, record: RunRecord) -> None:
        """Add the records of a run; by any thread."""
        with self._one_at_a_time:
            self._summary.add(key, record.summary)
            self._timing.add(key, record.timing)
            series = record.timeseries
            self._timeseries[key] = series if len(series) else self._empty.setdefault(tuple(series.columns), series)

    def of(self, keys: Sequence[Hashable]) -> RunRecord:
        """Return the records of some runs, in the order of the keys."""
        series = {id(table): table for table in map(self._timeseries.__getitem__, keys)}.values()
        timeseries = pl.concat(series, how="diagonal") if series else pl.DataFrame()
        return RunRecord(self._summary.of(keys), timeseries, self._timing.of(keys))


class _MergedTables:
    """Tables of one schema by key, whose rows are kept together."""

    _MERGED = 256  # tables at once

    def __init__(self, schema: pl.Schema) -> None:
        self._tables = [pl.DataFrame(schema=schema)]
        self._rows: dict[Hashable, range] = {}
        self._height = 0

    def add(self, key: Hashable, table: pl.DataFrame) -> None:
        self._rows[key] = range(self._height, self._height + len(table))
        self._height += len(table)
        self._tables.append(table)
        if len(self._rows) % self._MERGED == 0:
            self._tables[-self._MERGED :] = [pl.concat(self._tables[-self._MERGED :], rechunk=True)]

    def of(self, keys: Sequence[Hashable]) -> pl.DataFrame:
        return pl.concat(self._tables)[[row for key in keys for row in self._rows[key]]]


#: Agent of a variant with its preset tunables.
FIXED = "fixed"

_JOBS = "jobs"
#: Columns of a run's records, in the order of writing: with the last one the run is finished.
JOB_COLUMNS = {"timing": TIMING_SCHEMA, "timeseries": (*RUN_COLUMNS, "time_s", "flow"), "summary": SUMMARY_SCHEMA}


class EvaluationFolder(RunFolder):
    """An evaluation's run folder on disk."""

    command = "evaluate"

    def has_job(self, key: str) -> bool:
        """Return whether the records of a finished run are here."""
        return all((self.path / self._part(key, part)).exists() for part in JOB_COLUMNS)

    def store_job(self, key: str, record: RunRecord) -> None:
        """Write the records of a finished run."""
        for part in JOB_COLUMNS:
            self.write_table(self._part(key, part), getattr(record, part))

    def load_job(self, key: str) -> RunRecord:
        """Read the records of a finished run.

        Raises:
            ConfigError: they cannot be read, or lack a column.
        """
        try:
            parts = {part: self.read_table(self._part(key, part), columns) for part, columns in JOB_COLUMNS.items()}
        except ConfigError as error:
            raise ConfigError(f"output_dir: cannot read run {key}, delete its files: {error}") from error
        return RunRecord(**parts)

    def _part(self, key: str, part: str) -> str:
        return f"{_JOBS}/{key}.{part}.parquet"


def worlds_of(summary: pl.DataFrame) -> list[str]:
    """Return the names of the worlds, in the order asked for."""
    names: list[str] = summary["world"].unique(maintain_order=True).to_list()
    return names


def tuned_flows(summary: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the tuned flows; of all flows where there are none."""
    tuned = summary.filter(pl.col("role") == "tuned")
    return tuned if len(tuned) else summary


def flow_groups(names: list[str]) -> dict[str, list[str]]:
    """Group flows that a scenario declares as one with a count (name-0, name-1, ...) by their common name."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(re.sub(r"-\d+$", "", name), []).append(name)
    return groups


def per_run(summary: pl.DataFrame) -> pl.DataFrame:
    """Return a row per run: goodput and share of its flows by group (mean over the group), and the run's own values.

    ``entrant`` is the entrant's label. The queueing delay is the mean over packets, the retransmission rate the mean
    over flows. ``others_share``, ``others_below_half`` and harm are means over the flows that are not tuned, null
    without such flows.
    """
    groups = flow_groups(summary["flow"].unique(maintain_order=True).to_list())
    packets = pl.col("throughput_mbps") * (pl.col("stop_s") - pl.col("start_s"))
    has_delay = pl.col("queue_delay_mean_ms").is_not_nan() & packets.is_not_nan()
    delay = (pl.col("queue_delay_mean_ms") * packets).filter(has_delay).sum() / packets.filter(has_delay).sum()

    def means(column: str, prefix: str) -> list[pl.Expr]:
        return [
            pl.col(column).filter(pl.col("flow").is_in(names)).fill_nan(None).mean().alias(f"{prefix}:{group}")
            for group, names in groups.items()
        ]

    def of_others(column: str) -> pl.Expr:
        is_other = (pl.col("role") != "tuned") & (pl.col("role") == "tuned").any()
        return pl.col(column).filter(is_other).fill_nan(None)

    return (
        with_entrants(summary)
        .group_by(*RUN_COLUMNS, "entrant", maintain_order=True)
        .agg(
            *means("goodput_mbps", "goodput"),
            *means("share", "share"),
            pl.col("goodput_mbps").fill_nan(None).sum().alias("goodput"),
            delay.alias("queue_delay_ms"),
            pl.col("retransmit_rate").fill_nan(None).mean(),
            pl.col("utilisation", "jain", "score", "own_score").first(),
            of_others("share_of_fair").mean().alias("others_share"),
            (of_others("share_of_fair").mean() < 0.5).alias("others_below_half"),
            *(of_others(name).mean() for name in HARMS),
        )
    )


def with_entrants(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with a column ``entrant``, the label of its agent and variant."""
    is_preset = pl.col("agent") == FIXED  # as `label_of` has it
    label = pl.when(is_preset).then("variant").otherwise(pl.concat_str("agent", "variant", separator=" "))
    return table.with_columns(label.alias("entrant"))


def label_of(agent: str, variant: str) -> str:
    """Return the label of an agent and its variant; that of a preset is the variant alone."""
    return variant if agent == FIXED else f"{agent} {variant}"
