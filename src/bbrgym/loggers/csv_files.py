# SPDX-License-Identifier: GPL-2.0-only
"""CSV logger: files in the run folder's ``csv`` that any spreadsheet opens.

csv/metrics.csv    a row per step, a column per name; empty where it was not measured
csv/NAME.csv       a table as it was logged last
csv/summary.csv    the outcome: name and value
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import polars as pl

from bbrgym.errors import ConfigError
from bbrgym.loggers.logger import LoggedRun, Logger, LoggerSettings
from bbrgym.runs.run_folder import RunFolder

_FOLDER = "csv"
_METRICS = f"{_FOLDER}/metrics.csv"
_WRITE_S = 5.0  # between two writes of the metrics


class CsvSettings(LoggerSettings):
    """Settings of the CSV logger: none."""

    def start(self, run: LoggedRun) -> CsvLogger:
        return CsvLogger(run)


class CsvLogger(Logger):
    """Writes CSV files, each beside its place first; a resumed run keeps the rows up to its step."""

    def __init__(self, run: LoggedRun) -> None:
        self._folder = RunFolder(run.folder)
        self._rows: dict[int, dict[str, Any]] = {}
        self._written_s = 0.0
        if run.step and self._folder.holds(_METRICS):
            self._rows = {step: row for step, row in _read(self._folder).items() if step <= run.step}

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self._rows.setdefault(step, {"step": step}).update(values)
        if time.monotonic() - self._written_s > _WRITE_S:
            self._write_metrics()

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:  # noqa: ARG002 - the last one stays
        self._folder.write_text(f"{_FOLDER}/{name}.csv", table.write_csv())

    def summary(self, outcome: Mapping[str, Any]) -> None:
        rows = pl.DataFrame({"name": list(outcome), "value": [str(value) for value in outcome.values()]})
        self._folder.write_text(f"{_FOLDER}/summary.csv", rows.write_csv())

    def finish(self, exit_code: int) -> None:  # noqa: ARG002 - the files are whole either way
        self._write_metrics()

    def _write_metrics(self) -> None:
        self._written_s = time.monotonic()
        if self._rows:
            table = pl.DataFrame(list(self._rows.values()), infer_schema_length=None)
            self._folder.write_text(_METRICS, table.write_csv())


def _read(folder: RunFolder) -> dict[int, dict[str, Any]]:
    """Return the rows of metrics.csv by their step. Raises ConfigError: the file is damaged."""
    table = folder.read_csv(_METRICS)
    if table.schema.get("step") != pl.Int64:
        raise ConfigError(f"cannot read {str(folder.path / _METRICS)!r}, it is damaged: it has no steps")
    rows = ({name: value for name, value in row.items() if value is not None} for row in table.to_dicts())
    return {row["step"]: row for row in rows}
