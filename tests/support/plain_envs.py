# SPDX-License-Identifier: GPL-2.0-only
"""Environments in their simplest form: BBQ in ns-3, each flow's last 100 ms alone in observations and rewards."""

from typing import Any

import gymnasium

import bbrgym.envs  # noqa: F401 - registers the environments

PLAIN: dict[str, Any] = {
    "world": "ns3",
    "scenario": "steady",
    "variant": "bbq",
    "control_interval_s": 0.1,
    "view": "each",
    "frame_stack": 1,
    "reward_horizon_s": None,
}


def make(name: str, **arguments: Any) -> Any:
    """Return an environment, of these arguments or else the plain ones."""
    return gymnasium.make(name, **{**PLAIN, **arguments})


def make_vec(name: str, num_envs: int, **arguments: Any) -> Any:
    """Return a vector of environments, of these arguments or else the plain ones."""
    return gymnasium.make_vec(name, num_envs=num_envs, **{**PLAIN, **arguments})
