# SPDX-License-Identifier: GPL-2.0-only
"""Stages `identification` and `reselect`: the path identified as by the agent, then every setting from that moment on.

In stage `reselect` that moment is as much time later, when the agent has held the setting that it chose first. The
world is saved at that moment and restored for each setting, so what leads to it is simulated once.

An agent that acts for each flow by itself identifies from the flow's start on; the moment is that of the flow that
starts last, and from then on all flows hold the setting that is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone
from bbrgym.agents.portfolio.fit import Examples
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.scenario.files import with_variant
from bbrgym.worlds import TUNABLE_COLUMNS, Flags, Snapshot, Table, VectorWorld
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
        ends = [(watched(self.conditions, draw, self._identifications), draw) for draw in self.draws]
        return sum(
            end + len(self.library) * max(0, self.conditions.intervals(draw.scenario) - end) for end, draw in ends
        )

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Run; return a row per controller of a draw: its weight, what it observed, and the library's scores."""
        options = replace(
            self.conditions.options,
            critic=False,
            scenario=[with_variant(draw.scenario, self.conditions.options.variant) for draw in self.draws],
            threads=threads,
        )
        batch = batch_of(len(self.draws), options)
        try:
            histories, moments = self._identified(batch)
            scores = self._scores(batch, moments)
        finally:
            batch.close()
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

    @property
    def _identifications(self) -> int:
        """Control intervals that a controller acts until every setting is tried."""
        return self.intervals if self.first is None else 2 * self.intervals

    def _identified(self, batch: TuneBatch | FlowBatch) -> tuple[list[NDArray[np.float32]], list[Snapshot]]:
        """Run each draw until every setting is tried.

        Returns:
            What its controllers observed in their last identification, [controllers, intervals, numbers] of each draw,
            and each draw's world then.
        """
        seeds = [draw.run_seed(0) for draw in self.draws]
        batch.reset(range(len(self.draws)), seeds)
        ends = [watched(self.conditions, draw, self._identifications) for draw in self.draws]
        acts = _acting(batch)
        begun = np.full(acts.shape, -1)  # interval in which a controller first acted
        held = np.tile(self.setting, (*acts.shape, 1))
        views: list[NDArray[np.float32]] = []
        moments: dict[int, Snapshot] = {}

        def history(draw: int, controller: int, identification: int) -> NDArray[np.float32]:
            first = begun[draw, controller] + identification * self.intervals
            return np.stack([view[draw, controller] for view in views[first : first + self.intervals]])

        for done in range(max(ends)):
            begun[acts & (begun < 0)] = done
            if self.first is not None:
                for draw, controller in np.argwhere((begun >= 0) & (begun + self.intervals == done)).tolist():
                    held[draw, controller] = alone(self.first, history(draw, controller, 0).reshape(1, -1))[0][0]
            batch.act(held if isinstance(batch, FlowBatch) else held[:, 0])
            views.append(np.asarray(batch.observe()).reshape(*acts.shape, -1))
            for draw in [draw for draw, end in enumerate(ends) if end == done + 1]:
                moments[draw] = _worlds_of(batch).save(draw)
            if batch.has_ended.any():  # their moments are saved; they run on, ignored, so that all can advance together
                again = np.flatnonzero(batch.has_ended).tolist()
                batch.reset(again, [seeds[draw] for draw in again])
            acts = _acting(batch)
        last = self._identifications // self.intervals - 1
        controllers = [
            [one for one, first in enumerate(of_draw) if 0 <= first <= end - self._identifications]
            for of_draw, end in zip(begun.tolist(), ends, strict=True)
        ]
        return (
            [np.stack([history(draw, one, last) for one in own]) for draw, own in enumerate(controllers)],
            [moments[draw] for draw in range(len(self.draws))],
        )

    def _scores(self, batch: TuneBatch | FlowBatch, moments: Sequence[Snapshot]) -> Table:
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


def watched(conditions: TrainingConditions, draw: TrainingDraw, identifications: int) -> int:
    """Return the control intervals of a draw until each controller has acted for some."""
    if not isinstance(conditions.options, FlowOptions):
        return identifications
    starts_s = [flow.start_s for flow in draw.scenario.resolved().flows if flow.role == "tuned"]
    return identifications + int(max(starts_s) / conditions.options.control_interval_s)


def _acting(batch: TuneBatch | FlowBatch) -> Flags:
    """Return which controllers act next, [draws, controllers]."""
    return batch.will_act if isinstance(batch, FlowBatch) else np.ones((batch.num_envs, 1), np.bool_)


def _worlds_of(batch: TuneBatch | FlowBatch) -> VectorWorld:
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
    draws = np.cumsum(table["controller"].to_numpy() == 0) - 1
    return Examples(found, np.array(table["scores"].to_list()), table["weight"].to_numpy(), draws)
