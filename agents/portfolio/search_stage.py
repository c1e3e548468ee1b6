# SPDX-License-Identifier: GPL-2.0-only
"""Stage `search`: the best setting of each draw, by its mean score over some runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from bbrgym.agents.oracle import search_each
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.scaling import NormalisedAction

_COLUMN_PREFIX = "at_"  # before the names of tunables in columns


@dataclass(frozen=True)
class SearchPart:
    """Searches the best setting of each of some draws."""

    conditions: TrainingConditions  # of the simulations
    draws: tuple[TrainingDraw, ...]  # to search on
    runs: int  # of each setting on its draw; a setting that is lucky in one run is not chosen
    trials: int  # settings that are tried on each draw
    seed: int  # of the search

    @property
    def steps(self) -> int:
        """Control intervals of all runs."""
        return self.runs * self.trials * sum(self.conditions.intervals(draw.scenario) for draw in self.draws)

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Search; return a row per draw: the score of its setting, and the normalised setting."""
        with self.conditions.trials(self.draws, self.runs, 0, threads) as trials:
            seeds = [draw.seed for draw in self.draws]
            best = search_each(trials, seeds, self.trials, seed=self.seed, runs=self.runs)
            columns = dict(zip(trials.action.names, best.actions.T, strict=True))
        return pl.DataFrame(
            {
                "draw": seeds,
                "score": best.scores,
                **{_COLUMN_PREFIX + name: normalised for name, normalised in columns.items()},
            }
        )


def settings_of(found: pl.DataFrame) -> NormalisedAction:
    """Return the settings of the stage's table, [draws, tunables]."""
    columns = [name for name in found.columns if name.startswith(_COLUMN_PREFIX)]
    settings: NormalisedAction = found.select(columns).to_numpy().astype(np.float32)
    return settings
