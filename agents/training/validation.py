# SPDX-License-Identifier: GPL-2.0-only
"""What an agent is worth: its scores on fixed scenarios, all of them run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bbrgym.agents.base import Agent
from bbrgym.agents.rollout import steered
from bbrgym.envs.options import Options
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Table
from bbrgym.worlds.score import DEFAULT_DELTA, score_of_run


class Judge:
    """Runs the same scenarios with the same seeds for every agent.

    Args:
        options: of the environments that the agents know; their scenario is left aside.
        source: a scenario, or a distribution that each seed draws one from.
        seeds: of the runs.
        delta: weight of the RTT in the score.
    """

    def __init__(
        self, options: Options, source: Scenario | Distribution, seeds: Sequence[int], delta: float = DEFAULT_DELTA
    ) -> None:
        scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in seeds]
        self._runs = steered(replace(options, scenario=scenarios), seeds)
        self._count = len(seeds)
        self._delta = delta

    def scores(self, agent: Agent) -> Table:
        """The score of each run with the agent in charge: [seeds].

        Raises:
            WorldError: a simulation broke.
        """
        scores = np.full(self._count, np.nan)
        has_ended = np.zeros(self._count, np.bool_)
        self._runs.begin(agent.tuner)
        while True:
            ended = self._runs.advance()
            for index in np.flatnonzero(ended & ~has_ended).tolist():
                scores[index] = self._score(index)
            has_ended |= ended
            if has_ended.all():
                return scores
            if ended.any():  # these begin anew, unobserved, so that all can go on
                self._runs.begin_again(np.flatnonzero(ended).tolist())

    def close(self) -> None:
        """Ends the worlds."""
        self._runs.close()

    def _score(self, index: int) -> float:
        worlds = self._runs.worlds
        flows, _ = worlds.summary(index)
        return score_of_run(worlds.scenarios[index], worlds.flow_summary_fields, flows, delta=self._delta)
