# SPDX-License-Identifier: GPL-2.0-only
"""What a logger is, and the one that does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl
from matplotlib.figure import Figure

from bbrgym.schema import Model


@dataclass(frozen=True)
class Job:
    """What is logged.

    Attributes:
        kind: what it does, such as ``train``.
        name: for people.
        group: of the jobs that are repetitions of it.
        config: all that was asked for.
        folder: its run folder; files of loggers lie in it.
        step: from which it goes on; 0 at the beginning.
    """

    kind: str
    name: str
    group: str
    config: Mapping[str, Any]
    folder: Path
    step: int = 0


class Logger(Protocol):
    """Takes what a job measures."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers by name; names are like ``validation/score``. Steps never fall."""

    def figure(self, step: int, name: str, figure: Figure) -> None:
        """A picture."""

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        """A table."""

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """A file that is to be kept, and what there is to say of it."""

    def summary(self, outcome: Mapping[str, Any]) -> None:
        """What the job came to."""

    def finish(self, exit_code: int) -> None:
        """The end; another code than 0 is an error."""


class NoLogger:
    """Does nothing."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """See `Logger`."""

    def figure(self, step: int, name: str, figure: Figure) -> None:
        """See `Logger`."""

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        """See `Logger`."""

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """See `Logger`."""

    def summary(self, outcome: Mapping[str, Any]) -> None:
        """See `Logger`."""

    def finish(self, exit_code: int) -> None:
        """See `Logger`."""


class Settings(Model):
    """None."""


def start(settings: Settings, job: Job) -> Logger:  # noqa: ARG001 - there is nothing to start
    """A logger for a job."""
    return NoLogger()
