# SPDX-License-Identifier: GPL-2.0-only
"""Stages `identification` and `reselect`: the path identified as by the agent, then every setting from that moment on.

In stage `reselect` that moment is as much time later, when the agent has held the setting that it chose first. The
world is saved at that moment and restored for each setting, so what leads to it is simulated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone
from bbrgym.agents.portfolio.fit import Examples
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.features import Observation
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.scenario.files import with_variant
from bbrgym.worlds import TUNABLE_COLUMNS, Snapshot, Table, VectorWorld
from bbrgym.worlds.score import score_of_world


@dataclass(frozen=True, eq=False)
class IdentificationPart:
    """Identifies the paths of some draws, then tries every setting of a library, at once or after the first choice."""

    conditions: TrainingConditions  # of the simulations
    draws: tuple[TrainingDraw, ...]  # to run
    setting: NormalisedAction  # during the identification, [tunables]
    intervals: int  # control intervals of the identification
    library: NormalisedAction  # settings to try, [settings, tunables]
    # network that chooses after the identification, for stage `reselect`; None: every setting is tried then
    first: nn.Module | None = None

    @property
    def steps(self) -> int:
        """Control intervals of all runs; those before the settings are tried count once."""
        return sum(
            self._watched + len(self.library) * max(0, self.conditions.intervals(draw.scenario) - self._watched)
            for draw in self.draws
        )

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Run; return a row per draw: its weight, what was observed, and the library's scores."""
        options = replace(
            self.conditions.options,
            critic=False,
            scenario=[with_variant(draw.scenario, self.conditions.options.variant) for draw in self.draws],
            threads=threads,
        )
        batch = TuneBatch(len(self.draws), options)
        try:
            history, moments = self._identified(batch)
            scores = self._scores(batch, moments)
        finally:
            batch.close()
        return pl.DataFrame(
            {
                "draw": [draw.seed for draw in self.draws],
                "weight": [draw.weight for draw in self.draws],
                "history": [row.ravel().tolist() for row in history],
                "scores": scores.tolist(),
            },
            schema_overrides={"history": pl.List(pl.Float32)},
        )

    @property
    def _watched(self) -> int:
        """Control intervals until every setting is tried."""
        return self.intervals if self.first is None else 2 * self.intervals

    def _identified(self, batch: TuneBatch) -> tuple[NDArray[np.float32], list[Snapshot]]:
        """Run until every setting is tried.

        Returns:
            What was observed in the last intervals, [draws, intervals, numbers], and each draw's world then.
        """
        every = range(len(self.draws))
        batch.reset(every, [draw.run_seed(0) for draw in self.draws])
        actions = np.tile(self.setting, (len(self.draws), 1))
        views: list[Observation] = []
        for done in range(self._watched):
            if self.first is not None and done == self.intervals:
                actions = self._first_choices(self.first, views)
            batch.simulate(actions)
            views.append(cast(Observation, batch.observe()))
        worlds = _worlds_of(batch)
        return np.stack(views[-self.intervals :], axis=1), [worlds.save(index) for index in every]

    @staticmethod
    def _first_choices(first: nn.Module, views: Sequence[Observation]) -> NormalisedAction:
        """Return the settings chosen after the identification, [draws, tunables], each alone as by the agent."""
        chosen: list[NormalisedAction] = [alone(first, row[None])[0][0] for row in np.concatenate(views, axis=1)]
        return np.stack(chosen)

    def _scores(self, batch: TuneBatch, moments: Sequence[Snapshot]) -> Table:
        """Return the scores of the runs with each setting held to the end from a moment on, [draws, settings]."""
        worlds = _worlds_of(batch)
        columns = [TUNABLE_COLUMNS[name] for name in batch.scaling.names]
        scores = np.empty((len(self.draws), len(self.library)))
        for number, values in enumerate(batch.scaling.values(self.library)):
            for index, moment in enumerate(moments):
                worlds.restore(index, moment)
                tuned = [flow for flow, each in enumerate(moment.scenario.resolved().flows) if each.role == "tuned"]
                worlds.tunables[np.ix_([index], tuned, columns)] = values
            worlds.run_to_end()
            for index in range(len(moments)):
                scores[index, number] = score_of_world(worlds, index, delta=self.conditions.delta)
        return scores


def _worlds_of(batch: TuneBatch) -> VectorWorld:
    if batch.worlds is None:
        raise ValueError("the identification has not run")
    return batch.worlds


def histories(table: pl.DataFrame, intervals: int) -> Tensor:
    """Return what was observed in a table of `IdentificationPart`, [draws, intervals, numbers]."""
    return torch.from_numpy(np.array(table["history"].to_list(), np.float32).reshape(len(table), intervals, -1))


def examples_of(table: pl.DataFrame, features: nn.Module, intervals: int) -> Examples:
    """Return the examples of a table of `IdentificationPart`."""
    with torch.no_grad():
        found = features(histories(table, intervals))
    return Examples(found, np.array(table["scores"].to_list()), table["weight"].to_numpy())
