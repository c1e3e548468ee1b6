# SPDX-License-Identifier: GPL-2.0-only
"""A Gymnasium for tuning BBR-family congestion control."""

from bbrgym.errors import ConfigError, ScenarioError
from bbrgym.scenario import Scenario
from bbrgym.scenario_files import load_scenario, scenario_names
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.worlds import World, WorldError, make_world

__version__ = "0.1.0"

__all__ = [
    "TUNABLES",
    "VARIANTS",
    "ConfigError",
    "Scenario",
    "ScenarioError",
    "World",
    "WorldError",
    "load_scenario",
    "make_world",
    "scenario_names",
]
