# SPDX-License-Identifier: GPL-2.0-only
"""Simulations of stage `evolve`: agents that choose alike, between settings of their own, on the same draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from bbrgym.agents.evolution.population import Policies, Population
from bbrgym.agents.networks import torch_threads
from bbrgym.agents.portfolio.policy import Histories, PortfolioNetwork, PortfolioPolicy, Rows
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.worlds import Flags


@dataclass(frozen=True, eq=False)
class EvolvePart:
    """Scores sets of settings on some draws, each run by an agent that chooses among them."""

    conditions: TrainingConditions  # of the simulations
    draws: tuple[TrainingDraw, ...]  # to run
    networks: tuple[PortfolioNetwork, ...]  # that choose
    intervals: int  # control intervals of the identification
    settings: NormalisedAction  # sets, that of the identification first: [sets, 1 + settings, tunables]

    @property
    def steps(self) -> int:
        """Control intervals of all runs."""
        return len(self.settings) * sum(self.conditions.intervals(draw.scenario) for draw in self.draws)

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Run; return a row per draw: its weight, and the scores of the sets."""
        options = replace(self.conditions.options, critic=False, threads=threads)
        population = Population(len(self.settings), len(self.draws), options, self.conditions.delta)
        try:
            with torch_threads(1):
                scores = population.scores(_Agents(self, population.rows), self.draws)
        finally:
            population.close()
        return pl.DataFrame(
            {
                "draw": [draw.seed for draw in self.draws],
                "weight": [draw.weight for draw in self.draws],
                "scores": scores.T.tolist(),
            }
        )


class _Agents(Policies):
    """The agents of a part, with some rows each."""

    def __init__(self, part: EvolvePart, rows: int) -> None:
        self._shape = len(part.settings), rows
        self._libraries = part.settings[:, 1:].clip(-1.0, 1.0)
        choosers = [partial(self._choose, network) for network in part.networks]
        self._policy = PortfolioPolicy(
            np.repeat(part.settings[:, 0].clip(-1.0, 1.0), rows, axis=0), part.intervals, choosers
        )

    def actions(self, observations: NDArray[np.float32], starts: Flags) -> NDArray[np.float32]:
        rows = observations.reshape(-1, observations.shape[-1])
        return self._policy.act(rows, starts.ravel()).reshape(*self._shape, -1)

    def _choose(self, network: PortfolioNetwork, histories: Histories, rows: Rows) -> NormalisedAction:
        with torch.no_grad():
            chosen = network.choices(torch.from_numpy(histories)).numpy()
        settings: NormalisedAction = self._libraries[rows // self._shape[1], chosen]
        return settings
