# SPDX-License-Identifier: GPL-2.0-only
"""Simulations of stage `evolve`: agents with settings and favours of their own, each in all flows of the same draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from bbrgym.agents.evolution.population import Parameters, Policies, Population
from bbrgym.agents.networks import torch_threads
from bbrgym.agents.portfolio.policy import Histories, IdentificationRoutine, PortfolioNetwork, PortfolioPolicy, Rows
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.worlds import Flags

FAVOUR = 0.2  # score for 1 of a parameter, so that a step moves favours and settings about as far


@dataclass(frozen=True, eq=False)
class EvolvePart:
    """Scores P agents on some draws, each followed by all flows of its runs.

    What evolves of an agent is

        identification   the setting during the identification, [tunables]
        library          the settings that it chooses from, [settings, tunables]
        favours          what each has besides its predicted score, in `FAVOUR`, in each turn, [turns, settings]
    """

    conditions: TrainingConditions  # of the simulations
    draws: tuple[TrainingDraw, ...]  # to run
    networks: tuple[PortfolioNetwork, ...]  # that predict scores, one for each turn
    routine: IdentificationRoutine  # of all agents, but for the setting
    agents: Parameters  # what evolves of each, [P, ...]

    @property
    def steps(self) -> int:
        """Control intervals of all runs."""
        return len(self.agents["library"]) * sum(self.conditions.intervals(draw.scenario) for draw in self.draws)

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Run; return a row per draw: its weight, and the scores of the agents."""
        options = replace(self.conditions.options, critic=False, threads=threads)
        population = Population(len(self.agents["library"]), len(self.draws), options, self.conditions.delta)
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
        self._rows = rows
        self._agents = part.agents
        first: NormalisedAction = part.agents["identification"].clamp(-1.0, 1.0).repeat_interleave(rows, 0).numpy()
        choosers = [partial(self._choose, network, turn) for turn, network in enumerate(part.networks)]
        self._policy = PortfolioPolicy(first, part.routine, choosers)

    def actions(self, observations: NDArray[np.float32], starts: Flags) -> NDArray[np.float32]:
        rows = observations.reshape(-1, observations.shape[-1])
        return self._policy.act(rows, starts.ravel()).reshape(*observations.shape[:2], -1)

    def _choose(self, network: PortfolioNetwork, turn: int, histories: Histories, rows: Rows) -> NormalisedAction:
        agents = torch.from_numpy(rows // self._rows)
        with torch.no_grad():
            merits = network.merits(torch.from_numpy(histories)) + FAVOUR * self._agents["favours"][agents, turn]
        settings: NormalisedAction = self._agents["library"][agents, merits.argmax(1)].clamp(-1.0, 1.0).numpy()
        return settings


def favouring(selector: Mapping[str, Tensor], favours: Tensor) -> dict[str, Tensor]:
    """Return the state of a selector that favours settings so, [settings]."""
    return {**selector, "value": selector["value"] + FAVOUR * favours}
