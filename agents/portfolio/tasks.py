# SPDX-License-Identifier: GPL-2.0-only
"""Simulations of a training: the conditions that all share, and the parts of stages `search` and `cross`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from bbrgym.agents.oracle import search_each
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.agents.trials import Trials, Worth
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Table, VectorWorld, WorldSettings
from bbrgym.worlds.score import Objective

_COLUMN_PREFIX = "at_"  # before the names of tunables in columns


@dataclass(frozen=True, eq=False)
class PricedObjective:
    """Score of a run, less a price on what the tuned flows leave to BBR: the network's score does not ask who yields.

    That is by how much their own score is below the one that BBR v1 has in their place.
    """

    objective: Objective  # the score
    price: float  # of 1 in the own score, in units of the score
    references: Sequence[float]  # own score of BBR v1 in their place in each run; NaN where no other flow is of BBR

    def of_world(self, worlds: VectorWorld, index: int) -> float:
        """Return what the run of one of several worlds is worth, so far."""
        score, reference = self.objective.of_world(worlds, index), self.references[index]
        if math.isnan(reference):
            return score
        return score - self.price * max(0.0, reference - replace(self.objective, score="own").of_world(worlds, index))


@dataclass(frozen=True)
class TrainingConditions:
    """Conditions of a training's simulations."""

    options: Options  # of the agent's environment
    world_settings: WorldSettings  # settings of the world
    objective: Objective  # score of a run
    yield_price: float = 0.0  # see `PricedObjective`

    def intervals(self, scenario: Scenario) -> int:
        """Return the number of control intervals of a run."""
        return max(1, round(scenario.duration_s / self.options.control_interval_s))

    def trials(self, draws: Sequence[TrainingDraw], runs: int, threads: int | None) -> Trials:
        """Return trials with ``runs`` runs of each draw, those of a draw in a row."""
        scenarios = [draw.scenario for draw in draws for _ in range(runs)]
        seeds = [draw.run_seed(number) for draw in draws for number in range(runs)]
        worth = self.worth(scenarios, seeds, threads)
        return self._trials(scenarios, seeds, self.options.variant, self.options.tunables, threads, worth)

    def worth(self, scenarios: Sequence[Scenario], seeds: Sequence[int], threads: int | None) -> PricedObjective:
        """Return what settings are worth in runs of some scenarios; runs BBR v1 in the tuned flows' place."""
        references = np.full(len(scenarios), np.nan)
        beside_bbr = [number for number, one in enumerate(scenarios) if self.yield_price and _is_beside_bbr(one)]
        if beside_bbr:
            runs = [scenarios[number] for number in beside_bbr], [seeds[number] for number in beside_bbr]
            with self._trials(*runs, "bbr", None, threads, replace(self.objective, score="own")) as trials:
                references[beside_bbr] = trials.scores(trials.action.default)
        return PricedObjective(self.objective, self.yield_price, references.tolist())

    def _trials(
        self,
        scenarios: Sequence[Scenario],
        seeds: Sequence[int],
        variant: str,
        tunables: Sequence[str] | None,
        threads: int | None,
        objective: Worth,
    ) -> Trials:
        return Trials(
            scenarios,
            seeds,
            variant,
            tunables,
            world=self.options.world,
            world_settings=self.world_settings,
            threads=threads,
            objective=objective,
        )


def _is_beside_bbr(scenario: Scenario) -> bool:
    return any(flow.role == "fixed" and str(flow.cc).startswith("bbr") for flow in scenario.resolved().flows)


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
