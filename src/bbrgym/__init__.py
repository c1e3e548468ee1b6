# SPDX-License-Identifier: GPL-2.0-only
"""A Gymnasium for tuning BBR-family congestion control; importing it registers its environments."""

import importlib
from typing import TYPE_CHECKING, Any

from bbrgym import envs
from bbrgym.distribution import Distribution, load_distribution
from bbrgym.errors import ConfigError, ScenarioError
from bbrgym.scenario import Scenario
from bbrgym.scenario_files import distribution_names, load_scenario, scenario_names
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.worlds import World, WorldError, make_world

if TYPE_CHECKING:
    from bbrgym.agents.agent import load_agent
    from bbrgym.agents.training import resume_training, train
    from bbrgym.evaluation import evaluate

__version__ = "0.1.0"

__all__ = [
    "TUNABLES",
    "VARIANTS",
    "ConfigError",
    "Distribution",
    "Scenario",
    "ScenarioError",
    "World",
    "WorldError",
    "distribution_names",
    "envs",
    "evaluate",
    "load_agent",
    "load_distribution",
    "load_scenario",
    "make_world",
    "resume_training",
    "scenario_names",
    "train",
]


#: What brings tables, figures or networks, which an environment does without: the module of each.
_LATE = {
    "evaluate": "bbrgym.evaluation",
    "load_agent": "bbrgym.agents.agent",
    "resume_training": "bbrgym.agents.training",
    "train": "bbrgym.agents.training",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module 'bbrgym' has no attribute {name!r}")
