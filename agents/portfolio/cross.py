# SPDX-License-Identifier: GPL-2.0-only
"""Stage `cross`: the score of every candidate on draws that none of them was searched on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.worlds import Table


@dataclass(frozen=True, eq=False)
class CrossPart:
    """Scores all candidates on some draws."""

    conditions: TrainingConditions  # of the simulations
    draws: tuple[TrainingDraw, ...]  # to run
    settings: NormalisedAction  # the candidates, [candidates, tunables]

    @property
    def steps(self) -> int:
        """Control intervals of all runs."""
        return len(self.settings) * sum(self.conditions.intervals(draw.scenario) for draw in self.draws)

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Run; return a row per draw: its weight, and the candidates' scores."""
        with self.conditions.trials(self.draws, 1, 0, threads) as trials:
            scores = np.array([trials.scores(setting) for setting in self.settings]).T
        return pl.DataFrame(
            {
                "draw": [draw.seed for draw in self.draws],
                "weight": [draw.weight for draw in self.draws],
                "scores": scores.tolist(),
            }
        )


def scores_of(table: pl.DataFrame) -> Table:
    """Return the scores of the stage's table, [draws, candidates]."""
    return np.array(table["scores"].to_list())
