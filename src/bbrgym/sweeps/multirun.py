# SPDX-License-Identifier: GPL-2.0-only
"""The folder of a Hydra multirun, and the results of the jobs.

DIR/NAME/           run folder of a job, see `bbrgym.sweeps.jobs`
DIR/multirun.yaml   the request, as Hydra writes it
DIR/search.json     of a search: its settings
DIR/study.db        of a search: Optuna's study
DIR/summary.parquet, summary.csv, curves.parquet, summary.txt, figures/, report.html    the report
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.config.overrides import key_of, parse_override
from bbrgym.errors import ConfigError
from bbrgym.evaluate.records import SUMMARY_SCHEMA, per_run
from bbrgym.runs.run_folder import RunFolder
from bbrgym.sweeps.report import write_multirun_report
from bbrgym.sweeps.results import CURVE_SCHEMA, STATUS, UNFINISHED, MultirunResults
from bbrgym.untrusted_files import read_end

LOG, STATE, REQUEST, SEARCH = "job.log", "job.json", "multirun.yaml", "search.json"
_LAST_LINES_BYTES = 4000
_SCORE = "validation/score"
_OF_EVALUATIONS = ("goodput", "queue_delay_ms", "retransmit_rate", "utilisation", "jain", "score", "own_score")


class MultirunFolder(RunFolder):
    """The folder of a multirun on disk."""

    command = "-m"
    option = "hydra.sweep.dir"

    def log(self, name: str) -> Path:
        """Return the file of a job's output."""
        return self.path / name / LOG

    def last_line(self, name: str) -> str:
        """Return the last line that a job has printed; empty if there is none."""
        lines = read_end(self.log(name), _LAST_LINES_BYTES, below=self.path).split("\n")
        said = [line.strip() for line in lines if line.strip() and not line.startswith("$ bbrgym")]
        return said[-1] if said else ""

    def read_state(self, name: str) -> dict[str, Any]:
        """Return the end of a job; empty before it has ended. Raises ConfigError: it cannot be read."""
        state = self.read_json(f"{name}/{STATE}")
        overrides = state.get("overrides", [])
        if state and not isinstance(state.get("command"), str):
            raise self._damaged(f"{name}/{STATE}", "it names no command")
        if not isinstance(overrides, list) or not all(isinstance(one, str) for one in overrides):
            raise self._damaged(f"{name}/{STATE}", "its overrides are not a list of texts")
        return state

    def names(self) -> list[str]:
        """Return the names of the jobs that have begun, sorted."""
        folders = {path.parent for name in (STATE, LOG) for path in self.path.rglob(name)} - {self.path}
        return sorted(str(folder.relative_to(self.path)) for folder in folders)

    def request(self) -> str:
        """Return the text of multirun.yaml; empty if there is none."""
        return self.read_text(REQUEST) if self.holds(REQUEST) else ""


def report_multirun(path: Path, command: str | None = None) -> MultirunResults:
    """Write tables, figures and the page of a multirun in the multirun's folder, and return the results.

    Raises:
        ConfigError: the folder is none of a multirun, or a file of a job is damaged.
        OSError: a file cannot be written.
    """
    folder = MultirunFolder(path)
    results = collect(folder)
    folder.check_no_links()
    logs = {name: folder.log(name) for name in results.failed if folder.log(name).exists()}
    write_multirun_report(folder, results, logs, folder.request(), command)
    return results


def metric_of(folder: Path, command: str, metric: str | None = None) -> float | None:
    """Return the metric of a finished job: a training's from the summary, an evaluation's mean, or None.

    Raises:
        ConfigError: the job has no such metric.
    """
    name = metric or _default_metric(command)
    files = MultirunFolder(folder)
    row: Mapping[str, Any] = files.read_json("summary.json")
    if command == "evaluate" and files.holds("summary.parquet"):
        row = _means(files.read_table("summary.parquet", SUMMARY_SCHEMA)).row(0, named=True)
    value = row.get(name)
    if row and not isinstance(value, int | float):
        numbers = [key for key, one in row.items() if isinstance(one, int | float)]
        raise ConfigError(f"hydra.sweeper.metric: is {name!r}, expected one of {', '.join(numbers)}")
    return None if value is None else float(value)


def collect(folder: MultirunFolder) -> MultirunResults:
    """Read the results of jobs from the jobs' run folders.

    Raises:
        ConfigError: the folder is none of a multirun, or a file of a job is damaged.
    """
    states = {name: folder.read_state(name) for name in folder.names()}
    values = {name: _parameters(state.get("overrides", [])) for name, state in states.items()}
    known = [one for name, one in values.items() if states[name]]
    if not known:
        raise ConfigError(f"{str(folder.path)!r} is not a folder of a multirun: it holds no finished job")
    keys = dict.fromkeys(key for one in known for key in one)
    parameters = tuple(key for key in keys if len({one.get(key) for one in known}) > 1)
    commands = {state["command"] for state in states.values() if state}
    command = commands.pop() if len(commands) == 1 else "train"
    rows: list[dict[str, Any]] = []
    curves = [pl.DataFrame(schema=CURVE_SCHEMA)]
    for name, state in states.items():
        row = {"job": name, STATUS: state.get(STATUS, UNFINISHED), "wall_s": state.get("wall_s")}
        row |= {key: values[name].get(key) for key in parameters}
        of_job = _of_evaluation(folder, name) if command == "evaluate" else [folder.read_json(f"{name}/summary.json")]
        rows += [{**one, **row} for one in of_job]
        curves.append(_curve(folder, name))
    columns = dict.fromkeys(("job", STATUS, *parameters, *(name for row in rows for name in row)))
    table = pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], infer_schema_length=None)
    summary = table.with_columns(_typed(table[name]) for name in parameters)
    search = folder.read_json(SEARCH)
    metric, is_higher_better = search.get("metric") or _default_metric(command), search.get("direction") != "minimize"
    title = folder.path.absolute().name
    return MultirunResults(title, command, parameters, metric, is_higher_better, summary, pl.concat(curves))


def _default_metric(command: str) -> str:
    return "best_score" if command == "train" else "score"


def _parameters(overrides: Sequence[str]) -> dict[str, str]:
    return {key_of(text): str(parse_override(text).get_value_element_as_str()) for text in overrides}


def _means(runs: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return the means of an evaluation's runs: one row, or one for each value of some columns."""
    means = [pl.col(name).fill_nan(None).mean() for name in _OF_EVALUATIONS]
    table = per_run(runs)
    return table.group_by(*by, maintain_order=True).agg(pl.len().alias("runs"), *means) if by else table.select(means)


def _of_evaluation(folder: MultirunFolder, job: str) -> Sequence[Mapping[str, Any]]:
    """Return a row per world and entrant: means over seeds or draws."""
    name = f"{job}/summary.parquet"
    if not folder.holds(name):
        return [{}]
    return _means(folder.read_table(name, SUMMARY_SCHEMA), "world", "entrant").to_dicts()


def _curve(folder: MultirunFolder, job: str) -> pl.DataFrame:
    """Return the validation scores of a training by step; no row for other commands."""
    name = f"{job}/metrics.parquet"
    metrics = folder.read_table(name) if folder.holds(name) else pl.DataFrame()
    if _SCORE not in metrics.columns:
        return pl.DataFrame(schema=CURVE_SCHEMA)
    scores = metrics.select("step", _SCORE).drop_nulls()
    return scores.select(pl.lit(job).alias("job"), "step", pl.col(_SCORE).alias("score"))


def _typed(values: pl.Series) -> pl.Series:
    """Return the values as numbers if all are numbers."""
    for kind in (pl.Int64, pl.Float64):
        numbers = values.cast(kind, strict=False)
        if numbers.null_count() == values.null_count():
            return numbers
    return values
