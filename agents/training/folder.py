# SPDX-License-Identifier: GPL-2.0-only
"""The run folder of a training.

    config.yaml           the request, every default written out
    metrics.parquet       the curve: a row per step at which something was measured, a column per metric
    validation.parquet    a row per validation and episode of it: its step, the episode's seed, the score
    figures/curve.png     both as a picture, at the end
    checkpoints/last.pt   the checkpoint from which an interrupted training goes on
    checkpoints/best.pt   the agent with the highest validation score so far
    summary.json          the steps taken, the best score, the time used

The files of a checkpoint are written in this order, so that ``last`` is never ahead of anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from bbrgym.atomic_files import write_atomically
from bbrgym.errors import ConfigError
from bbrgym.run_folder import RunFolder

_METRICS = "metrics.parquet"
_VALIDATION = "validation.parquet"
_SUMMARY = "summary.json"
_CHECKPOINTS = "checkpoints"


class TrainingFolder(RunFolder):
    """A training's run folder on disk."""

    command = "train"

    def read_metrics(self, step: int) -> pl.DataFrame:
        """Return the curve up to the step of a checkpoint.

        Raises:
            ConfigError: it cannot be read, or has no row of that step.
        """
        return self._up_to(step, _METRICS)

    def write_metrics(self, metrics: pl.DataFrame) -> None:
        """Write the curve."""
        self.write_table(_METRICS, metrics)

    def read_validation(self, step: int) -> pl.DataFrame:
        """Return the scores of the validations up to the step of a checkpoint.

        Raises:
            ConfigError: they cannot be read, or have no row of that step.
        """
        return self._up_to(step, _VALIDATION)

    def write_validation(self, scores: pl.DataFrame) -> None:
        """Write the scores of all validations."""
        self.write_table(_VALIDATION, scores)

    def _up_to(self, step: int, name: str) -> pl.DataFrame:
        table = self.read_table(name)
        if "step" not in table.columns or not (table["step"] == step).any():
            raise ConfigError(
                f"{str(self.path / name)!r} has no row of step {step}, where the last checkpoint is: it is damaged or "
                f"another training's; expected the file that was written with the checkpoint, or a new output_dir"
            )
        return table.filter(pl.col("step") <= step)

    def write_figure(self, name: str, figure: Figure) -> None:
        """Write a picture, PNG."""
        write_atomically(self.path / "figures" / name, lambda partial: figure.savefig(partial, format="png", dpi=120))

    def read_summary(self) -> dict[str, Any]:
        """Return the summary of the last checkpoint; empty before the first one.

        Raises:
            ConfigError: it cannot be read.
        """
        return self.read_json(_SUMMARY)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write the summary of a checkpoint."""
        self.write_json(_SUMMARY, summary)

    def checkpoint(self, name: str) -> Path:
        """Return the path of a file among the checkpoints."""
        return self.path / _CHECKPOINTS / name

    def write_checkpoint(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file ``name``, ending included, among the checkpoints."""
        write_atomically(self.checkpoint(name), write)
