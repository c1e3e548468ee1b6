# SPDX-License-Identifier: GPL-2.0-only
"""Where the jobs of a sweep run: ``launcher=joblib``, ``submitit`` or ``ray``; conf/launcher/*.yaml has their settings.

They are launchers of our own behind one interface, not Hydra's plugins: Hydra's for Ray and its sweeper for Optuna
cannot be installed beside today's Ray and Optuna, and a launcher of Hydra's gives up all jobs when one is lost.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import Model, first_problem, shown
from bbrgym.sweeps.task import End, Task


class Launcher(Protocol):
    """Runs tasks."""

    threads: int
    """What a job may take."""

    def run(self, tasks: Sequence[Task]) -> Iterator[End]:
        """Runs all of them, and yields how each ended, as they end. When it is closed or broken, nothing goes on.

        Raises:
            SweepError: the jobs did not end in time.
            ModuleNotFoundError: what it needs is not installed.
        """


LAUNCHERS: Mapping[str, str] = {name: f"{__name__}.{name}_jobs" for name in ("joblib", "submitit", "ray")}
"""Modules by the name that conf/launcher/*.yaml gives; each has `Settings` and `launcher`."""


def make_launcher(asked: Mapping[str, Any]) -> Launcher:
    """The launcher that is asked for.

    Raises:
        ConfigError: there is no such launcher, or a setting of it cannot be.
    """
    name = str(asked.get("name"))
    if name not in LAUNCHERS:
        raise ConfigError(f"launcher.name: is {shown(name)}; {nearest(name, LAUNCHERS)}")
    module = importlib.import_module(LAUNCHERS[name])
    settings_type: type[Model] = module.Settings
    try:
        settings = settings_type.model_validate({key: value for key, value in asked.items() if key != "name"})
    except ValidationError as error:
        path, problem = first_problem(error, settings_type)
        raise ConfigError(f"launcher.{path}: {problem}") from None
    launcher: Launcher = module.launcher(settings)
    return launcher


def needs(launcher: str, error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """What to raise where a launcher's library is not installed."""
    return ModuleNotFoundError(
        f"launcher={launcher} needs {error.name}: pip install 'bbrgym[{extra}]'", name=error.name
    )
