# SPDX-License-Identifier: GPL-2.0-only
"""A Gymnasium for tuning BBR-family congestion control; importing it registers its environments."""

from typing import TYPE_CHECKING, Any

from bbrgym import envs
from bbrgym.distribution import Distribution, load_distribution
from bbrgym.errors import ConfigError, ScenarioError
from bbrgym.scenario import Scenario
from bbrgym.scenario_files import distribution_names, load_scenario, scenario_names
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.worlds import World, WorldError, make_world

if TYPE_CHECKING:
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
    "load_distribution",
    "load_scenario",
    "make_world",
    "scenario_names",
]


def __getattr__(name: str) -> Any:
    if name == "evaluate":  # brings tables and figures, which an environment does without
        from bbrgym.evaluation import evaluate

        return evaluate
    raise AttributeError(f"module 'bbrgym' has no attribute {name!r}")
