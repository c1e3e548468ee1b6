# SPDX-License-Identifier: GPL-2.0-only
"""Validation of agents: their scores on fixed scenarios, all simulated side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bbrgym.agents.base import Agent
from bbrgym.agents.rollout import make_rollout
from bbrgym.envs.options import Options
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Table
from bbrgym.worlds.score import DEFAULT_DELTA


class Validation:
    """Runs the same scenarios with the same seeds for every agent.

    Args:
        options: of the environments that the agents act in; their scenario is ignored.
        source: a scenario, or a distribution from which each seed draws one.
        seeds: of the runs.
        delta: weight of the RTT in the score.

    Raises:
        ConfigError: an option cannot be used.
    """

    def __init__(
        self, options: Options, source: Scenario | Distribution, seeds: Sequence[int], delta: float = DEFAULT_DELTA
    ) -> None:
        scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in seeds]
        self._rollout = make_rollout(replace(options, scenario=scenarios), seeds)
        self._delta = delta

    def scores(self, agent: Agent) -> Table:
        """Return the score of each run with an agent, [seeds].

        Raises:
            WorldError: a simulation failed.
        """
        return self._rollout.scores(agent.make_policy, delta=self._delta)

    def close(self) -> None:
        """End the worlds."""
        self._rollout.close()
