# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym task``: an environment written down for a simulation in an ns-3 tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bbrgym.agents.settings import parse_training
from bbrgym.compose import compose_config
from bbrgym.envs.task import task_of
from bbrgym.errors import ConfigError


def task_from(overrides: Sequence[str]) -> dict[str, Any]:
    """The task that a command line asks for, ready for JSON.

    Raises:
        ConfigError, ScenarioError: names what is wrong, its value and what is allowed.
    """
    config = compose_config("task", overrides)
    if config["env"].get("name", "tune") != "tune":
        raise ConfigError(f"env: is {config['env']['name']!r}, expected tune: ns3-gym's protocol has one agent")
    return task_of(parse_training(config).options("ns3"))  # the options are some of a training's, and mean the same
