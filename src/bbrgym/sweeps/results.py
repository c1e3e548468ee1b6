# SPDX-License-Identifier: GPL-2.0-only
"""The results of a sweep's jobs, and tables of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table

from bbrgym.errors import ConfigError
from bbrgym.evaluate.records import per_run
from bbrgym.evaluate.statistics import student_mean
from bbrgym.report.tables import new_table
from bbrgym.sweeps.plan import SweepJob
from bbrgym.sweeps.sweep_folder import SweepFolder

SEED = "seed"
STATUS, NEW = "status", "not run"
_SCORE = "validation/score"
_OF_EVALUATIONS = ("goodput", "queue_delay_ms", "retransmit_rate", "utilisation", "jain", "score")
CURVE_SCHEMA = pl.Schema({"job": pl.String, "step": pl.Int64, "score": pl.Float64})


@dataclass(frozen=True)
class SweepResults:
    """Results of a sweep.

    Attributes:
        title: of the sweep.
        command: of the jobs.
        parameters: options that differ between jobs.
        metric: the column by which jobs are compared.
        is_higher_better: whether more of the metric is better.
        summary: a row per job, and of evaluations per world and entrant; ``job``, ``status``, ``wall_s``, the
            parameters, and the fields of the job's own summary.
        curves: of trainings, the validation score by job and step.
    """

    title: str
    command: str
    parameters: tuple[str, ...]
    metric: str
    is_higher_better: bool
    summary: pl.DataFrame
    curves: pl.DataFrame

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


def metric_of(folder: Path, command: str, metric: str | None = None) -> float | None:
    """Return the metric of a finished job: of a training that of its summary, of an evaluation the mean; or None.

    Raises:
        ConfigError: the job has no such metric.
    """
    name = metric or ("best_score" if command == "train" else "score")
    files = SweepFolder(folder)
    row: Mapping[str, Any] = files.read_json("summary.json")
    if command == "evaluate" and (folder / "summary.parquet").exists():
        means = per_run(files.read_table("summary.parquet")).select(
            pl.col(one).fill_nan(None).mean() for one in _OF_EVALUATIONS
        )
        row = means.row(0, named=True)
    value = row.get(name)
    if row and not isinstance(value, int | float):
        numbers = [key for key, one in row.items() if isinstance(one, int | float)]
        raise ConfigError(f"hydra.sweeper.metric: is {name!r}, expected one of {', '.join(numbers)}")
    return None if value is None else float(value)


def collect(
    folder: SweepFolder, jobs: Sequence[SweepJob], metric: str | None = None, *, is_higher_better: bool = True
) -> SweepResults:
    """Read the results of jobs from their run folders.

    Args:
        folder: of the sweep.
        jobs: at least one.
        metric: by which jobs are compared. Default: best_score of trainings, score of evaluations.
        is_higher_better: whether more of the metric is better.

    Raises:
        ConfigError: a file of a job is damaged.
    """
    command = jobs[0].command
    parameters = tuple(dict.fromkeys(name for job in jobs for name in job.parameters))
    rows: list[dict[str, Any]] = []
    curves = [pl.DataFrame(schema=CURVE_SCHEMA)]
    for job in jobs:
        state = folder.read_state(job.name)
        row = {"job": job.name, STATUS: state.get(STATUS, NEW), "wall_s": state.get("wall_s")}
        of_job = _of_training(folder, job) if command == "train" else _of_evaluation(folder, job)
        rows += [{**one, **row, **{name: job.parameters.get(name) for name in parameters}} for one in of_job]
        if command == "train":
            curves.append(_curve(folder, job))
    columns = dict.fromkeys(("job", STATUS, *parameters, *(name for row in rows for name in row)))
    table = pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], infer_schema_length=None)
    typed = [_typed(table[name]) for name in parameters]
    chosen = metric or ("best_score" if command == "train" else "score")
    summary = table.with_columns(typed)
    return SweepResults(folder.path.name, command, parameters, chosen, is_higher_better, summary, pl.concat(curves))


def _of_training(folder: SweepFolder, job: SweepJob) -> list[Mapping[str, Any]]:
    return [folder.read_json(folder.in_job(job.name, "summary.json"))]


def _of_evaluation(folder: SweepFolder, job: SweepJob) -> Sequence[Mapping[str, Any]]:
    """Return a row per world and entrant: means over seeds or draws."""
    name = folder.in_job(job.name, "summary.parquet")
    if not (folder.path / name).exists():
        return [{}]
    means = (
        per_run(folder.read_table(name))
        .group_by("world", "entrant", maintain_order=True)
        .agg(pl.len().alias("runs"), *(pl.col(name).fill_nan(None).mean() for name in _OF_EVALUATIONS))
    )
    return means.to_dicts()


def _curve(folder: SweepFolder, job: SweepJob) -> pl.DataFrame:
    name = folder.in_job(job.name, "metrics.parquet")
    metrics = folder.read_table(name) if (folder.path / name).exists() else pl.DataFrame()
    if _SCORE not in metrics.columns:
        return pl.DataFrame(schema=CURVE_SCHEMA)
    scores = metrics.select("step", _SCORE).drop_nulls()
    return scores.select(pl.lit(job.name).alias("job"), "step", pl.col(_SCORE).alias("score"))


def _typed(values: pl.Series) -> pl.Series:
    """Return the values as numbers if all of them are."""
    for kind in (pl.Int64, pl.Float64):
        numbers = values.cast(kind, strict=False)
        if numbers.null_count() == values.null_count():
            return numbers
    return values


# ---- tables ---------------------------------------------------------------------------------------


def tables_of(results: SweepResults) -> list[Table]:
    """Return the tables of settings, best first, and of jobs."""
    return [table for table in (settings_table(results), jobs_table(results)) if table.row_count]


def settings_table(results: SweepResults) -> Table:
    """Return a row per setting: its number of jobs and the mean of the metric over their seeds."""
    names, metric = results.settings, results.metric
    table = new_table(f"{results.title}: {metric} by setting, mean and 95 % interval over seeds")
    for name in names:
        table.add_column(name)
    table.add_column("jobs", justify="right")
    table.add_column(metric, justify="right")
    known = results.known()
    groups = known.group_by(*names, maintain_order=True) if names else [((), known)] if len(known) else []
    rows = [(key, group[metric].to_numpy(), group["job"].n_unique()) for key, group in groups]
    for key, values, jobs in sorted(rows, key=lambda row: float(row[1].mean()), reverse=results.is_higher_better):
        table.add_row(*map(_cell, key), str(jobs), student_mean(values).short(3))
    return table


def jobs_table(results: SweepResults) -> Table:
    """Return a row per job."""
    metric = results.metric
    columns = [name for name in ("step", "score", metric, "wall_s") if name in results.summary.columns]
    if results.command == "evaluate":
        columns = ["wall_s"]
    columns = list(dict.fromkeys(columns))
    jobs = results.summary.unique("job", maintain_order=True)
    table = new_table(f"{results.title}: {len(jobs)} jobs, {len(jobs) - len(results.failed)} done")
    for name in ("job", STATUS):
        table.add_column(name)
    for name in columns:
        table.add_column(name.removesuffix("_s") + (" (s)" if name.endswith("_s") else ""), justify="right")
    for row in jobs.iter_rows(named=True):
        table.add_row(row["job"], row[STATUS], *(_cell(row[name]) for name in columns))
    return table


def best_of(results: SweepResults) -> Iterator[str]:
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
