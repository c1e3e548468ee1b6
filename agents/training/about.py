# SPDX-License-Identifier: GPL-2.0-only
"""Description of an agent and its environment, in the files that hold a model alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bbrgym.agents.base import Agent
from bbrgym.agents.rollout import batch_of, options_for
from bbrgym.worlds import FAST_WORLD

KEY = "bbrgym"
"""Name of the description in a file; one in JSON is called so with the ending .json."""


def about_agent(agent: Agent, checkpoint: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of an agent, plain values."""
    arguments = {**arguments, "critic": False}
    batch = batch_of(1, options_for(agent, **{**arguments, "world": FAST_WORLD}))
    return {
        "agent": agent.name,
        "acts_for": "each tuned flow" if agent.is_per_flow else "all tuned flows",
        "checkpoint": checkpoint,
        "variant": arguments["variant"],
        "tunables": list(batch.scaling.names),
        "features": [feature.name for feature in batch.observation.features],
        "environment": {name: value for name, value in arguments.items() if name not in _NOT_OF_THE_AGENT},
    }


_NOT_OF_THE_AGENT = ("variant", "scenario", "reward")
