# SPDX-License-Identifier: GPL-2.0-only
"""TensorBoard logger; needs the extra `tensorboard`. ``tensorboard --logdir runs`` shows all run folders in runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from PIL import Image

from bbrgym.errors import MissingExtraError
from bbrgym.loggers.logger import LoggedRun, Logger, LoggerSettings


class TensorboardSettings(LoggerSettings):
    """Settings of the TensorBoard logger: none."""

    def start(self, run: LoggedRun) -> TensorboardLogger:
        return TensorboardLogger(run)


class TensorboardLogger(Logger):
    """Writes event files in the run folder's ``tensorboard``."""

    def __init__(self, run: LoggedRun) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise MissingExtraError("logger=tensorboard", "tensorboard", error) from error
        # A resumed run repeats the steps after its last checkpoint: earlier events of these are purged.
        purged = run.step + 1 if run.step else None
        self._writer = SummaryWriter(str(run.folder / "tensorboard"), purge_step=purged)
        self._writer.add_text("config", f"```yaml\n{yaml.safe_dump(run.about(), sort_keys=False)}```", run.step)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def picture(self, step: int, name: str, path: Path) -> None:
        with Image.open(path) as picture:
            self._writer.add_image(name, np.asarray(picture.convert("RGB")), step, dataformats="HWC")

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        with pl.Config(
            tbl_formatting="MARKDOWN",
            tbl_hide_dataframe_shape=True,
            tbl_hide_column_data_types=True,
            tbl_rows=-1,
            tbl_cols=-1,
        ):
            self._writer.add_text(name, str(table), step)

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """Log the path of a checkpoint, not the contents."""
        self._writer.add_text(f"checkpoint/{name}", f"{path}: {dict(about)}")

    def summary(self, outcome: Mapping[str, Any]) -> None:
        self._writer.add_text("summary", f"```yaml\n{yaml.safe_dump(dict(outcome), sort_keys=False)}```")

    def finish(self, exit_code: int) -> None:
        """Write the exit code and close the files."""
        self._writer.add_text("exit_code", str(exit_code))
        self._writer.close()
