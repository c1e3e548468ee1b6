# SPDX-License-Identifier: GPL-2.0-only
"""Where a job's metrics go beside its run folder: nowhere, to TensorBoard or to Weights & Biases."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from bbrgym.agents.training.loggers.logger import Job, Logger
from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import Model, first_problem, shown

__all__ = ["LOGGERS", "Job", "Logger", "logged", "parse_logger"]

LOGGERS: Mapping[str, str] = {
    "none": "bbrgym.agents.training.loggers.logger",
    "tensorboard": "bbrgym.agents.training.loggers.tensorboard",
    "wandb": "bbrgym.agents.training.loggers.wandb",
}
"""Modules by the name that conf/logger/*.yaml gives; each has `Settings` and `start`."""


def parse_logger(asked: Mapping[str, Any]) -> Model:
    """Checks what is asked of a logger.

    Raises:
        ConfigError: there is no such logger, or a setting of it cannot be.
    """
    name = str(asked.get("name"))
    if name not in LOGGERS:
        raise ConfigError(f"logger.name: is {shown(name)}; {nearest(name, LOGGERS)}")
    settings: type[Model] = importlib.import_module(LOGGERS[name]).Settings
    try:
        return settings.model_validate({key: value for key, value in asked.items() if key != "name"})
    except ValidationError as error:
        path, problem = first_problem(error, settings)
        raise ConfigError(f"logger.{path}: {problem}") from None


@contextmanager
def logged(asked: Mapping[str, Any], job: Job) -> Iterator[Logger]:
    """A logger for the length of a job; it is finished whatever happens, with exit code 1 where that is an error.

    Raises:
        ConfigError: see `parse_logger`.
        MissingExtraError: what it needs is not installed.
    """
    settings = parse_logger(asked)
    logger: Logger = importlib.import_module(LOGGERS[asked["name"]]).start(settings, job)
    try:
        yield logger
    except BaseException:
        logger.finish(1)
        raise
    logger.finish(0)
