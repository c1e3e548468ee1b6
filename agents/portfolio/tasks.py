# SPDX-License-Identifier: GPL-2.0-only
"""Simulations of a training: the conditions that all share, and the parts of stages `search` and `cross`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from bbrgym.agents.oracle import search_each
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.agents.trials import Trials
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Table, WorldSettings
from bbrgym.worlds.score import Objective

_COLUMN_PREFIX = "at_"  # before the names of tunables in columns


@dataclass(frozen=True)
class TrainingConditions:
    """Conditions of a training's simulations."""

    options: Options  # of the agent's environment
    world_settings: WorldSettings  # settings of the world
    objective: Objective  # what a setting is worth in a run

    def intervals(self, scenario: Scenario) -> int:
        """Return the number of control intervals of a run."""
        return max(1, round(scenario.duration_s / self.options.control_interval_s))

    def trials(self, draws: Sequence[TrainingDraw], runs: int, threads: int | None) -> Trials:
        """Return trials with ``runs`` runs of each draw, those of a draw in a row."""
        return Trials(
            [draw.scenario for draw in draws for _ in range(runs)],
            [draw.run_seed(number) for draw in draws for number in range(runs)],
            self.options.variant,
            self.options.tunables,
            world=self.options.world,
            world_settings=self.world_settings,
            threads=threads,
            objective=self.objective,
        )


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
        """Search; return a row per draw: the score of the setting found, and the normalised setting."""
        with self.conditions.trials(self.draws, self.runs, threads) as trials:
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
        """Run; return a row per draw: the draw's weight, and the candidates' scores."""
        with self.conditions.trials(self.draws, 1, threads) as trials:
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
