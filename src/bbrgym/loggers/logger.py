# SPDX-License-Identifier: GPL-2.0-only
"""Base of loggers, which by itself does nothing, and several loggers as one.

A new logger is a class derived from `LoggerSettings` and a file in conf/logger that names it by `_target_`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import SerializeAsAny

from bbrgym.errors import ConfigError
from bbrgym.schema import shown
from bbrgym.targets import KEY, Target, build, with_shipped


@dataclass(frozen=True)
class LoggedRun:
    """Description of what is logged."""

    command: str  # name of the command, such as ``train``
    name: str  # name of the run for people
    group: str  # name that repetitions of the run share
    config: Mapping[str, Any]  # all settings
    folder: Path  # run folder; loggers write their files in it
    step: int = 0  # from which the run continues
    # where the results come from, see `bbrgym.runs.provenance`. Default: unknown
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def about(self) -> dict[str, Any]:
        """Return all settings and where the results come from; packages as one list, ``name==version``."""
        packages = [f"{name}=={version}" for name, version in self.provenance.get("packages", {}).items()]
        return {**self.config, "provenance": {**self.provenance, "packages": packages}}


class Logger:
    """Takes the measurements of a run and discards the measurements. Steps never decrease."""

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Log numbers by name; names are like ``validation/score``."""

    def picture(self, step: int, name: str, path: Path) -> None:
        """Log a picture, a PNG file."""

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        """Log a table."""

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """Log a checkpoint's file with a description."""

    def summary(self, outcome: Mapping[str, Any]) -> None:
        """Log the results of the run."""

    def finish(self, exit_code: int) -> None:
        """End the log; an exit code other than 0 means an error."""


class LoggerSettings(Target):
    """Base of the settings of loggers."""

    @abstractmethod
    def start(self, run: LoggedRun) -> Logger:
        """Return a logger for a run. Raises MissingExtraError: a package that it needs is not installed."""


class NoLoggerSettings(LoggerSettings):
    """Settings of the logger that does nothing: none."""

    def start(self, run: LoggedRun) -> Logger:  # noqa: ARG002 - there is nothing to log
        return Logger()


class SeveralLoggers(Logger):
    """Several loggers as one."""

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self._loggers = loggers

    def finish(self, exit_code: int) -> None:
        with ExitStack() as stack:  # each is finished, whatever another one raises
            for one in reversed(self._loggers):
                stack.callback(one.finish, exit_code)


def _telling_each(name: str) -> Callable[..., None]:
    """Return the method of `SeveralLoggers` that calls the method of this name of each logger."""

    def tell(self: SeveralLoggers, *arguments: Any) -> None:
        for one in self._loggers:
            getattr(one, name)(*arguments)

    return tell


for _name in ("metrics", "picture", "table", "checkpoint", "summary"):
    setattr(SeveralLoggers, _name, _telling_each(_name))


class SeveralSettings(LoggerSettings):
    """Settings of several loggers at once."""

    loggers: tuple[SerializeAsAny[LoggerSettings], ...]  # in the order in which they are told of everything

    def start(self, run: LoggedRun) -> Logger:
        """Return a logger that forwards to each; if one cannot start, the earlier ones are finished as broken."""
        started: list[Logger] = []
        try:
            for one in self.loggers:
                started.append(one.start(run))  # noqa: PERF401 - those before are finished if one fails
        except BaseException:
            SeveralLoggers(started).finish(1)
            raise
        return SeveralLoggers(started)


def logger_of(options: Mapping[str, Any], *, is_trusted: bool) -> LoggerSettings:
    """Return the settings of the logger that options name, or of all loggers of a mapping from names to options.

    Raises:
        ConfigError: there is no such logger, or a setting has a value that is not allowed.
    """
    if KEY in options:
        return build("logger", options, LoggerSettings, is_trusted=is_trusted)
    own = [build(f"logger.{name}", one, LoggerSettings, is_trusted=is_trusted) for name, one in options.items()]
    return SeveralSettings(name="several", loggers=tuple(own))


def completed_loggers(options: Any) -> Any:
    """Complete the option `logger` by the named files in conf/logger.

    Args:
        options: name of a file, or mapping with such a name and what differs; or a list of names, or a mapping from
            names to what differs, of several loggers.

    Raises:
        ConfigError: there is no such file, or one is named twice.
    """
    if isinstance(options, list | tuple):
        if len(set(map(str, options))) < len(options):
            raise ConfigError(f"logger: is {shown(list(options))}, expected each once")
        return completed_loggers({str(name): {} for name in options})
    if isinstance(options, Mapping) and KEY not in options and "name" not in options:
        for name, own in options.items():
            if not isinstance(own, Mapping):
                raise ConfigError(f"logger.{name}: is {shown(own)}, expected a mapping of what differs from its file")
        return {
            str(name): with_shipped("logger", own if KEY in own else {**own, "name": name})
            for name, own in options.items()
        }
    return with_shipped("logger", options)


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
