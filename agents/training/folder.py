# SPDX-License-Identifier: GPL-2.0-only
"""The run folder of a training; docs/training.md lists the files.

Those of a checkpoint are written in an order by which ``last`` is never ahead of anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from bbrgym.errors import ConfigError
from bbrgym.runs.checksum import check_checksum
from bbrgym.runs.run_folder import RunFolder
from bbrgym.untrusted_files import MAX_TABLE_BYTES, opened

METRICS = "metrics.parquet"
VALIDATION = "validation.parquet"
SUMMARY = "summary.json"
MODEL = "model.zip"
CHECKPOINTS = "checkpoints"


class TrainingFolder(RunFolder):
    """A training's run folder on disk."""

    command = "train"

    def read_up_to(self, step: int, name: str) -> pl.DataFrame:
        """Return the rows of a table up to the step of a checkpoint.

        Raises:
            ConfigError: it cannot be read, or has no row of that step.
        """
        table = self.read_table(name)
        if "step" not in table.columns or not (table["step"] == step).any():
            raise ConfigError(
                f"{str(self.path / name)!r} has no row of step {step}, where the last checkpoint is: it is damaged or "
                f"another training's; expected the file that was written with the checkpoint, or a new output_dir"
            )
        return table.filter(pl.col("step") <= step)

    def checkpoint(self, name: str) -> Path:
        """Return the path of a file among the checkpoints."""
        return self.path / CHECKPOINTS / name

    def has_checkpoint(self, name: str) -> bool:
        """Return whether there is a checkpoint of this name, such as ``last``, whatever its format."""
        return any(path.stem == name for path in (self.path / CHECKPOINTS).glob(f"{name}.*"))

    def check_model(self) -> None:
        """Raise ConfigError if there is a model of Stable-Baselines3 that is damaged."""
        if self.holds(MODEL):
            with opened(self.path / MODEL, MAX_TABLE_BYTES, below=self.path) as file:
                check_checksum(file, self.path / MODEL)

    def take_over(self, other: TrainingFolder) -> None:
        """Copy the curve, the checkpoints and the model of another training."""
        names = sorted(path.name for path in (other.path / CHECKPOINTS).iterdir())
        for name in (METRICS, VALIDATION, MODEL, *(f"{CHECKPOINTS}/{name}" for name in names)):
            self.copy_file(name, other)

    def write_checkpoint(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file ``name``, ending included, among the checkpoints."""
        self.write_file(f"{CHECKPOINTS}/{name}", write)
