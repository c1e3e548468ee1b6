# SPDX-License-Identifier: GPL-2.0-only
"""The run folder of a training.

    config.yaml           what was asked for, every default written out
    metrics.parquet       the curve: a row per step at which something was measured, a column per metric
    validation.parquet    a row per validation and run of it: its step, the run's seed, the score
    figures/curve.png     both as a picture, at the end
    checkpoints/last.pt   from where an interrupted training goes on
    checkpoints/best.pt   the agent with the highest validation score so far
    summary.json          how far it is, the best score, what it took

Every file is written beside its place and then renamed: a killed training leaves whole files or none.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import polars as pl
import yaml
from matplotlib.figure import Figure

from bbrgym.errors import ConfigError
from bbrgym.files import write_atomically

_CONFIG = "config.yaml"
_METRICS = "metrics.parquet"
_VALIDATION = "validation.parquet"
_SUMMARY = "summary.json"
_LOCK = ".lock"
_CHECKPOINTS = "checkpoints"


class TrainingFolder:
    """A training's run folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[bytes] | None = None
        self._is_new = False  # nothing was in it
        self._is_made = False  # nor was it there

    def open(self, *, resume: bool) -> None:
        """Makes the folder, or goes on with it; no other process can until `close`.

        Raises:
            ConfigError: it holds something and ``resume`` is off, it is in use, or it cannot be made.
        """
        try:
            self._is_made = not self.path.exists()
            self._is_new = self._is_made or not any(self.path.iterdir())
            if not resume and not self._is_new:
                raise ConfigError(
                    f"output_dir: {str(self.path)!r} is not empty, expected a new one, or resume=true to go on"
                )
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / _LOCK).open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for partial in self.path.rglob(".*.partial"):
                partial.unlink(missing_ok=True)
        except BlockingIOError:
            self.close()
            raise ConfigError(f"output_dir: {str(self.path)!r} is in use by another training") from None
        except OSError as error:
            self.close()
            raise ConfigError(f"output_dir: cannot use {str(self.path)!r}: {error}") from error

    def forget(self) -> None:
        """Leaves the folder as it was found, if there was nothing in it, and there is no checkpoint yet."""
        if not self._is_new or (self.path / _CHECKPOINTS).exists():
            return
        for path in self.path.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self._is_made:
            self.path.rmdir()

    def close(self) -> None:
        """Lets others use it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # ---- what it holds -----------------------------------------------------------------------------------------

    def has_config(self) -> bool:
        """Whether a training has begun here."""
        return (self.path / _CONFIG).exists()

    def read_config(self) -> dict[str, Any]:
        """What was asked for.

        Raises:
            ConfigError: there is none, or it cannot be read.
        """
        path = self.path / _CONFIG
        try:
            config = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError(f"{str(self.path)!r} is no run folder of bbrgym train: {error}") from error
        if not isinstance(config, dict):
            raise ConfigError(f"{str(path)!r} is no configuration of bbrgym train")
        return config

    def write_config(self, config: Mapping[str, Any]) -> None:
        """What is asked for."""
        self.write_text(_CONFIG, yaml.safe_dump(dict(config), sort_keys=False))

    def read_metrics(self) -> pl.DataFrame:
        """The curve; empty before anything was measured."""
        path = self.path / _METRICS
        return pl.read_parquet(path) if path.exists() else pl.DataFrame(schema={"step": pl.Int64})

    def write_metrics(self, metrics: pl.DataFrame) -> None:
        """The curve."""
        write_atomically(self.path / _METRICS, lambda partial: metrics.write_parquet(partial, compression="zstd"))

    def read_validation(self) -> pl.DataFrame:
        """The scores of all validations; only where there is a curve."""
        return pl.read_parquet(self.path / _VALIDATION)

    def write_validation(self, scores: pl.DataFrame) -> None:
        """The scores of all validations."""
        write_atomically(self.path / _VALIDATION, lambda partial: scores.write_parquet(partial, compression="zstd"))

    def write_figure(self, name: str, figure: Figure) -> None:
        """Writes a picture."""
        write_atomically(self.path / "figures" / name, lambda partial: figure.savefig(partial, format="png", dpi=120))

    def read_summary(self) -> dict[str, Any]:
        """How far the training is; empty before its first checkpoint."""
        path = self.path / _SUMMARY
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return summary

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """How far the training is."""
        self.write_text(_SUMMARY, json.dumps(summary, indent=2) + "\n")

    def checkpoint(self, name: str) -> Path:
        """The file of the checkpoint ``best`` or ``last``, without its ending."""
        return self.path / _CHECKPOINTS / name

    def write_checkpoint(self, name: str, write: Callable[[Path], object]) -> None:
        """Writes a file ``name``, ending included, among the checkpoints."""
        write_atomically(self.checkpoint(name), write)

    def write_text(self, name: str, text: str) -> None:
        """Writes a text."""
        write_atomically(self.path / name, lambda partial: partial.write_text(text, encoding="utf-8"))
