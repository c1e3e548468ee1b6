# SPDX-License-Identifier: GPL-2.0-only
"""Base of loggers, which by itself does nothing.

A new logger is a class derived from `LoggerSettings` and a file in conf/logger that names it by `_target_`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bbrgym.targets import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LoggedRun:
    """Description of what is logged.

    Attributes:
        command: name of the command, such as ``train``.
        name: name of the run for people.
        group: name that repetitions of the run share.
        config: all settings.
        folder: run folder; loggers write their files in it.
        step: step from which the run continues; 0 at its beginning.
    """

    command: str
    name: str
    group: str
    config: Mapping[str, Any]
    folder: Path
    step: int = 0


class Logger:
    """Takes the measurements of a run, and does nothing with them. Steps never decrease."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Log numbers by name; names are like ``validation/score``."""

    def figure(self, step: int, name: str, figure: Figure) -> None:
        """Log a figure."""

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        """Log a table."""

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """Log a checkpoint's file with its description."""

    def summary(self, outcome: Mapping[str, Any]) -> None:
        """Log the results of the run."""

    def finish(self, exit_code: int) -> None:
        """End the log; an exit code other than 0 means an error."""


class LoggerSettings(Target):
    """Base of the settings of loggers."""

    @abstractmethod
    def start(self, run: LoggedRun) -> Logger:
        """Return a logger for a run.

        Raises:
            MissingExtraError: a package that it needs is not installed.
        """


class NoLoggerSettings(LoggerSettings):
    """Settings of the logger that does nothing: none."""

    def start(self, run: LoggedRun) -> Logger:  # noqa: ARG002 - there is nothing to log
        """Return a logger that does nothing."""
        return Logger()


@contextmanager
def logged(settings: LoggerSettings, run: LoggedRun) -> Iterator[Logger]:
    """Return a context with a logger of a run; an exception finishes the log with exit code 1.

    Raises:
        MissingExtraError: a package that the logger needs is not installed.
    """
    logger = settings.start(run)
    try:
        yield logger
    except BaseException:
        logger.finish(1)
        raise
    logger.finish(0)
