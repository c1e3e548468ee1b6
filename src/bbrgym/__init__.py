# SPDX-License-Identifier: GPL-2.0-only
"""A Gymnasium for tuning BBR-family congestion control; importing it registers its environments."""

import bbrgym.startup  # noqa: F401 - before what takes long to import

# isort: split
import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bbrgym import envs
from bbrgym.errors import ConfigError, ScenarioError, WorldError
from bbrgym.version import __version__

if TYPE_CHECKING:
    from bbrgym.agents.loading import load_agent
    from bbrgym.agents.training.train_agent import resume_training, train
    from bbrgym.controller import Controller
    from bbrgym.evaluate.evaluation import evaluate
    from bbrgym.plugins import load_controller
    from bbrgym.scenario.distribution import Distribution, load_distribution
    from bbrgym.scenario.files import load_scenario
    from bbrgym.scenario.model import Scenario
    from bbrgym.scenario.shipped import distribution_names, scenario_names
    from bbrgym.tunables import TUNABLES, VARIANTS
    from bbrgym.worlds import World, make_world

__all__ = [
    "TUNABLES",
    "VARIANTS",
    "ConfigError",
    "Controller",
    "Distribution",
    "Scenario",
    "ScenarioError",
    "World",
    "WorldError",
    "__version__",
    "distribution_names",
    "envs",
    "evaluate",
    "load_agent",
    "load_controller",
    "load_distribution",
    "load_scenario",
    "make_world",
    "resume_training",
    "scenario_names",
    "train",
]


#: Names whose modules take long to import: the module of each.
_LATE = {
    "Controller": "bbrgym.controller",
    "Distribution": "bbrgym.scenario.distribution",
    "Scenario": "bbrgym.scenario.model",
    "TUNABLES": "bbrgym.tunables",
    "VARIANTS": "bbrgym.tunables",
    "World": "bbrgym.worlds",
    "distribution_names": "bbrgym.scenario.shipped",
    "load_agent": "bbrgym.agents.loading",
    "load_controller": "bbrgym.plugins",
    "load_distribution": "bbrgym.scenario.distribution",
    "load_scenario": "bbrgym.scenario.files",
    "make_world": "bbrgym.worlds",
    "resume_training": "bbrgym.agents.training.train_agent",
    "scenario_names": "bbrgym.scenario.shipped",
    "train": "bbrgym.agents.training.train_agent",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module 'bbrgym' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are imported late included."""
    return sorted(__all__)


class _Package(ModuleType):
    """The package, in which ``evaluate`` is the function even after the folder of the same name is imported."""

    @property
    def evaluate(self) -> Any:
        """Compare variants and agents; see `bbrgym.evaluate.evaluation.evaluate`."""
        return importlib.import_module("bbrgym.evaluate.evaluation").evaluate

    @evaluate.setter
    def evaluate(self, folder: ModuleType) -> None:
        """Ignore the folder, which the import system binds here."""


sys.modules[__name__].__class__ = _Package
