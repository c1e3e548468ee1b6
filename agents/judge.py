# SPDX-License-Identifier: GPL-2.0-only
"""What an agent is worth: its scores on fixed scenarios, all of them run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bbrgym.agents.agent import Agent
from bbrgym.distribution import Distribution
from bbrgym.envs.batch import TuneBatch
from bbrgym.envs.options import Options
from bbrgym.scenario import Scenario
from bbrgym.score import DEFAULT_DELTA, score_of_run
from bbrgym.worlds import Table


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
        self._batch = TuneBatch(len(seeds), replace(options, scenario=scenarios))
        self._seeds = list(seeds)
        self._delta = delta

    def scores(self, agent: Agent) -> Table:
        """The score of each run with the agent in charge: [seeds].

        Raises:
            WorldError: a simulation broke.
        """
        count = len(self._seeds)
        tuner = agent.tuner(self._seeds)
        observations = self._batch.reset(range(count), self._seeds)
        begun = np.ones(count, np.bool_)
        scores = np.full(count, np.nan)
        ended = np.zeros(count, np.bool_)
        again: list[int] = []  # runs that ended before others begin anew, unobserved, so that all can go on
        while True:
            step = self._batch.step(tuner.act(observations, begun), again, [self._seeds[index] for index in again])
            for index in np.flatnonzero(step.truncated & ~ended).tolist():
                scores[index] = self._score(index)
            ended |= step.truncated
            if ended.all():
                return scores
            observations, again = step.observations, np.flatnonzero(step.truncated).tolist()
            begun = np.zeros(count, np.bool_)

    def close(self) -> None:
        """Ends the worlds."""
        self._batch.close()

    def _score(self, index: int) -> float:
        worlds = self._batch.worlds
        if worlds is None:
            raise ValueError("the runs are closed")
        flows, _ = worlds.summary(index)
        return score_of_run(worlds.scenarios[index], worlds.flow_summary_fields, flows, delta=self._delta)
