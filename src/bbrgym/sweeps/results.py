# SPDX-License-Identifier: GPL-2.0-only
"""The results of a multirun's jobs, and tables of the results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from rich.table import Table

from bbrgym.evaluate.statistics import student_mean
from bbrgym.report.tables import new_table

SEED = "seed"
STATUS, UNFINISHED = "status", "unfinished"
CURVE_SCHEMA = pl.Schema({"job": pl.String, "step": pl.Int64, "score": pl.Float64})


@dataclass(frozen=True)
class MultirunResults:
    """Results of a multirun."""

    title: str  # name of its folder
    command: str  # of the jobs
    parameters: tuple[str, ...]  # options that differ between jobs
    metric: str  # the column by which jobs are compared
    is_higher_better: bool  # whether more of the metric is better
    # a row per job, and of evaluations per world and entrant; ``job``, ``status``, ``wall_s``, the parameters, and
    # the fields of the job's own summary
    summary: pl.DataFrame
    curves: pl.DataFrame  # of trainings, the validation score by job and step

    @property
    def failed(self) -> list[str]:
        """Return the names of the jobs that are not done."""
        bad = self.summary.filter(~pl.col(STATUS).is_in(["done", "pruned"]))
        return bad["job"].unique(maintain_order=True).to_list()

    @property
    def settings(self) -> list[str]:
        """Return the columns that tell settings apart; jobs that differ in the seed alone repeat a setting."""
        others = [name for name in ("world", "entrant") if name in self.summary.columns]
        return [name for name in self.parameters if name != SEED] + others

    def known(self) -> pl.DataFrame:
        """Return the rows of finished jobs whose metric is finite."""
        if self.metric not in self.summary.columns:
            return self.summary.clear().with_columns(pl.lit(math.nan).alias(self.metric))
        metric = pl.col(self.metric).cast(pl.Float64)
        return self.summary.with_columns(metric).filter((pl.col(STATUS) == "done") & metric.is_finite())


# ---- tables ---------------------------------------------------------------------------------------


def tables_of(results: MultirunResults) -> list[Table]:
    """Return the tables of settings, best first, and of jobs."""
    return [table for table in (settings_table(results), jobs_table(results)) if table.row_count]


def settings_table(results: MultirunResults) -> Table:
    """Return a row per setting: the number of jobs and the mean of the metric over seeds."""
    names, metric = results.settings, results.metric
    title = f"{results.title}: {metric} by setting, mean and 95 % interval over seeds"
    table = new_table(title, names, ["jobs", metric])
    known = results.known()
    groups = known.group_by(*names, maintain_order=True) if names else [((), known)] if len(known) else []
    rows = [(key, group[metric].to_numpy(), group["job"].n_unique()) for key, group in groups]
    for key, values, jobs in sorted(rows, key=lambda row: float(row[1].mean()), reverse=results.is_higher_better):
        table.add_row(*map(_cell, key), str(jobs), student_mean(values).short(3))
    return table


def jobs_table(results: MultirunResults) -> Table:
    """Return a row per job."""
    metric = results.metric
    columns = [name for name in ("step", "score", metric, "wall_s") if name in results.summary.columns]
    if results.command == "evaluate":
        columns = ["wall_s"]
    columns = list(dict.fromkeys(columns))
    jobs = results.summary.unique("job", maintain_order=True)
    headings = [name.removesuffix("_s") + (" (s)" if name.endswith("_s") else "") for name in columns]
    title = f"{results.title}: {len(jobs)} jobs, {len(jobs) - len(results.failed)} done"
    table = new_table(title, ["job", STATUS], headings)
    for row in jobs.iter_rows(named=True):
        table.add_row(row["job"], row[STATUS], *(_cell(row[name]) for name in columns))
    return table


def best_of(results: MultirunResults) -> Iterator[str]:
    """Yield a line on the parameters of the best job, if there is one."""
    known = results.known()
    if not len(known) or not results.parameters:
        return
    row = known.sort(results.metric, descending=results.is_higher_better, maintain_order=True).row(0, named=True)
    options = " ".join(f"{name}={row[name]}" for name in results.parameters)
    yield f"best {results.metric} of a job: {row[results.metric]:.4f} with {options}"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
