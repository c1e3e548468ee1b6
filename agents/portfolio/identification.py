# SPDX-License-Identifier: GPL-2.0-only
"""Stages `identification` and `reselect`: the agent so far acts up to a moment, then every setting is tried.

In stage `identification` the moment is its end; in stage `reselect` it comes at random later, when the agent has
chosen. The world is saved at that moment and restored for each setting, so what leads to it is simulated once.

An agent that acts for each flow by itself identifies from the flow's start on; the moment is that of the flow that
starts last, and from then on all flows hold the setting that is tried.
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

from bbrgym.agents.networks import torch_threads
from bbrgym.agents.portfolio.examples import Examples
from bbrgym.agents.portfolio.policy import Histories, IdentificationRoutine, PortfolioNetwork, PortfolioPolicy
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.scenario.files import with_variant
from bbrgym.worlds import TUNABLE_COLUMNS, Flags, Snapshot, Table, VectorWorld

LATER = 2
"""Times an identification after it, up to which the moment comes at random in stage `reselect`."""


@dataclass(frozen=True, eq=False)
class IdentificationPart:
    """Lets the agent so far act in some draws, then tries every setting of a library."""

    conditions: TrainingConditions  # of the simulations
    draws: tuple[TrainingDraw, ...]  # to run
    library: NormalisedAction  # settings to try, [settings, tunables]
    routine: IdentificationRoutine  # of the agent
    # network by which it chooses, for stage `reselect`; None: the settings are tried when it has identified
    network: PortfolioNetwork | None = None

    @property
    def steps(self) -> int:
        """Control intervals of all runs; those before the settings are tried count once."""
        moments = [(self._moment(draw), draw) for draw in self.draws]
        return sum(
            end + len(self.library) * max(0, self.conditions.intervals(draw.scenario) - end) for end, draw in moments
        )

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Run; return a row per controller of a draw: weight, observations and the library's scores."""
        options = replace(
            self.conditions.options,
            critic=False,
            scenario=[with_variant(draw.scenario, self.conditions.options.variant) for draw in self.draws],
            threads=threads,
        )
        batch = batch_of(len(self.draws), options)
        try:
            histories, worlds = self._acted(batch)
            scores = self._scores(batch, worlds, threads)
        finally:
            batch.episodes.close()
        rows = [
            {
                "draw": draw.seed,
                "controller": controller,
                "weight": draw.weight / len(own),
                "history": history.ravel(),
                "scores": of_draw,
            }
            for draw, own, of_draw in zip(self.draws, histories, scores.tolist(), strict=True)
            for controller, history in enumerate(own)
        ]
        return pl.DataFrame(rows, schema_overrides={"history": pl.List(pl.Float32)})

    def _moment(self, draw: TrainingDraw) -> int:
        return moment_of(self.conditions, draw, self.routine.intervals, is_later=self.network is not None)

    def _acted(self, batch: TuneBatch | FlowBatch) -> tuple[list[list[NDArray[np.float32]]], list[Snapshot]]:
        """Run each draw until every setting is tried.

        Returns:
            What its controllers observed, [intervals, numbers] each: those of the identification, or the last ones. And
            each draw's world then.
        """
        seeds = [draw.run_seed(0) for draw in self.draws]
        moments, intervals = [self._moment(draw) for draw in self.draws], self.routine.intervals
        observations = batch.reset(range(len(self.draws)), seeds)
        acts = _acting(batch)
        first_acted = np.full(acts.shape, -1)  # interval in which a controller first acted
        policy = PortfolioPolicy(acts.size, self.routine, None if self.network is None else self._choose)
        views: list[NDArray[np.float32]] = []
        worlds: dict[int, Snapshot] = {}
        for done in range(1, max(moments) + 1):
            starts = acts & (first_acted < 0)
            first_acted[starts] = done - 1
            actions = policy.act(np.asarray(observations).reshape(acts.size, -1), starts.ravel())
            batch.act(actions.reshape(*acts.shape, -1) if isinstance(batch, FlowBatch) else actions)
            observations = batch.observe()
            views.append(np.asarray(observations).reshape(*acts.shape, -1))
            for draw in np.flatnonzero(np.array(moments) == done).tolist():
                worlds[draw] = _worlds_of(batch).save(draw)
            if batch.episodes.has_ended.any():  # their worlds are saved; they run on, ignored, so that all can advance
                again = np.flatnonzero(batch.episodes.has_ended).tolist()
                batch.reset(again, [seeds[draw] for draw in again])
            acts = _acting(batch)
        seen = np.stack(views, axis=2)
        histories: list[list[NDArray[np.float32]]] = [[] for _ in self.draws]
        for (draw, controller), first in np.ndenumerate(first_acted):
            last = moments[draw] - intervals
            if 0 <= first <= last:
                begin = first if self.network is None else last
                histories[draw].append(seen[draw, controller, begin : begin + intervals])
        return histories, [worlds[draw] for draw in range(len(self.draws))]

    def _choose(self, histories: Histories) -> NormalisedAction:
        """Return the settings for histories, computed together: a part always has the same ones."""
        network = cast(PortfolioNetwork, self.network)
        with torch_threads(1), torch.no_grad():
            chosen: NormalisedAction = network(torch.from_numpy(histories.reshape(len(histories), -1))).numpy()
        return chosen

    def _scores(self, batch: TuneBatch | FlowBatch, moments: Sequence[Snapshot], threads: int | None) -> Table:
        """Return the scores of the runs with each setting held to the end from a moment on, [draws, settings]."""
        worlds = _worlds_of(batch)
        scenarios, seeds = [draw.scenario for draw in self.draws], [draw.run_seed(0) for draw in self.draws]
        worth = self.conditions.worth(scenarios, seeds, threads)
        columns = [TUNABLE_COLUMNS[name] for name in batch.scaling.names]
        scores = np.empty((len(self.draws), len(self.library)))
        for number, values in enumerate(batch.scaling.values(self.library)):
            for index, moment in enumerate(moments):
                worlds.restore(index, moment)
                tuned = [flow for flow, each in enumerate(moment.scenario.resolved().flows) if each.role == "tuned"]
                worlds.tunables[np.ix_([index], tuned, columns)] = values
            worlds.run_to_end()
            for index in range(len(moments)):
                scores[index, number] = worth.of_world(worlds, index)
        return scores


def moment_of(conditions: TrainingConditions, draw: TrainingDraw, intervals: int, *, is_later: bool) -> int:
    """Return the control intervals of a draw until every setting is tried.

    Args:
        conditions: of the simulations.
        draw: the draw.
        intervals: of an identification, which each controller has acted for by then.
        is_later: whether it has acted for longer, at random up to `LATER` as many intervals.
    """
    acted = intervals + (1 + draw.run_seed(1) % (LATER * intervals) if is_later else 0)
    if not isinstance(conditions.options, FlowOptions):
        return acted
    starts_s = [flow.start_s for flow in draw.scenario.resolved().flows if flow.role == "tuned"]
    return acted + int(max(starts_s) / conditions.options.control_interval_s)


def _acting(batch: TuneBatch | FlowBatch) -> Flags:
    """Return which controllers act next, [draws, controllers]."""
    return batch.will_act if isinstance(batch, FlowBatch) else np.ones((batch.num_envs, 1), np.bool_)


def _worlds_of(batch: TuneBatch | FlowBatch) -> VectorWorld:
    if batch.episodes.worlds is None:
        raise ValueError("the identification has not run")
    return batch.episodes.worlds


def histories(table: pl.DataFrame, intervals: int) -> Tensor:
    """Return what was observed in a table of `IdentificationPart`, [draws, intervals, numbers]."""
    return torch.from_numpy(np.array(table["history"].to_list(), np.float32).reshape(len(table), intervals, -1))


def examples_of(table: pl.DataFrame, features: nn.Module, intervals: int) -> Examples:
    """Return the examples of a table of `IdentificationPart`."""
    with torch.no_grad():
        found = features(histories(table, intervals))
    draws = np.cumsum(table["controller"].to_numpy() == 0) - 1
    return Examples(found, np.array(table["scores"].to_list()), table["weight"].to_numpy(), draws)
