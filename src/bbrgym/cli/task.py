# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym task``: an environment written down for a simulation in an ns-3 tree."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from bbrgym.agents.training.settings import parse_training
from bbrgym.cli.terminal import add_composed_command
from bbrgym.compose import compose_config
from bbrgym.envs.task import task_of
from bbrgym.errors import ConfigError

_DESCRIPTION = """\
Prints a scenario, what an agent sees and sets in it and what it is paid for, as JSON: bbrgym/Tune-v0 for the program
bbrgym-opengym in an ns-3 tree, which ns3-gym's scripts can drive (ns3-scratch/README.md).

example:
  bbrgym task scenario=rtt_fairness variant=bbq env.control_interval_s=0.1 > task.json
"""


def add(commands: Any) -> None:
    """Add the command."""
    add_composed_command(commands, "task", "print an environment's JSON for an ns-3 tree", _DESCRIPTION, run)


def run(options: argparse.Namespace) -> None:
    """Print the task."""
    sys.stdout.write(json.dumps(task_from(options.overrides), indent=2) + "\n")


def task_from(overrides: Sequence[str]) -> dict[str, Any]:
    """The task that a command line asks for, ready for JSON.

    Raises:
        ConfigError, ScenarioError: names what is wrong, its value and what is allowed.
    """
    config = compose_config("task", overrides)
    if config["env"].get("name", "tune") != "tune":
        raise ConfigError(f"env: is {config['env']['name']!r}, expected tune: ns3-gym's protocol has one agent")
    return task_of(parse_training(config).options("ns3"))  # the options are some of a training's, and mean the same
