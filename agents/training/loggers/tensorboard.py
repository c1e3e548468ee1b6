# SPDX-License-Identifier: GPL-2.0-only
"""TensorBoard: ``tensorboard --logdir runs`` shows all run folders below; needs the extra `tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from matplotlib.figure import Figure

from bbrgym.agents.training.loggers.logger import Job, Logger
from bbrgym.errors import MissingExtraError
from bbrgym.schema import Model


class Settings(Model):
    """None."""


def start(settings: Settings, job: Job) -> Logger:  # noqa: ARG001 - there is nothing to set
    """A logger for a job.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """
    return TensorboardLogger(job)


class TensorboardLogger:
    """Writes event files below the run folder's ``tensorboard``."""

    def __init__(self, job: Job) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise MissingExtraError("logger=tensorboard", "tensorboard", error) from error
        # A job that goes on repeats the steps after its last checkpoint: what was logged of them is void.
        purged = job.step + 1 if job.step else None
        self._writer = SummaryWriter(str(job.folder / "tensorboard"), purge_step=purged)
        self._writer.add_text("config", f"```yaml\n{yaml.safe_dump(dict(job.config), sort_keys=False)}```", job.step)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """See `Logger`."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def figure(self, step: int, name: str, figure: Figure) -> None:
        """See `Logger`."""
        self._writer.add_figure(name, figure, step, close=False)

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        """See `Logger`."""
        with pl.Config(
            tbl_formatting="MARKDOWN",
            tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True,
            tbl_rows=-1,
            tbl_cols=-1,
        ):
            self._writer.add_text(name, str(table), step)

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """See `Logger`: here only where it is."""
        self._writer.add_text(f"checkpoint/{name}", f"{path}: {dict(about)}")

    def summary(self, outcome: Mapping[str, Any]) -> None:
        """See `Logger`."""
        self._writer.add_text("summary", f"```yaml\n{yaml.safe_dump(dict(outcome), sort_keys=False)}```")

    def finish(self, exit_code: int) -> None:
        """See `Logger`."""
        self._writer.add_text("exit_code", str(exit_code))
        self._writer.close()
