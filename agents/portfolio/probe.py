# SPDX-License-Identifier: GPL-2.0-only
"""Stages `probe` and `again`: draws probed as the agent will, then every setting of the library from that moment on.

In stage `again` that moment is a probe's time later, when the agent has held the setting that it chose first.

The world is saved when the probe ends and restored for each setting, so the probe is simulated once. With a
controller for each flow (`env=multi`) every flow probes from its own start on, and the world is saved when all have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone
from bbrgym.agents.portfolio.examples import Examples
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.episode_spec import to_ns
from bbrgym.envs.features import Observation
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.scaling import Coordinates
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import TUNABLE_COLUMNS, Snapshot, Table, VectorWorld
from bbrgym.worlds.score import score_of_world

Begins: TypeAlias = dict[int, int]
"""Control interval in which each controller begins to probe, by its place in an observation."""


def probe_begins(conditions: TrainingConditions, scenario: Scenario, intervals: int) -> Begins:
    """Return the controllers that have so many control intervals within a run, and when these begin.

    With one controller for all flows that is its place 0, from the run's beginning on.
    """
    if not isinstance(conditions.options, FlowOptions):
        return {0: 0}
    tuned = [flow for flow in scenario.resolved().flows if flow.role == "tuned"]
    (interval_ns,) = to_ns([conditions.options.control_interval_s])
    begins = to_ns([flow.start_s for flow in tuned]) // interval_ns
    stops = [scenario.duration_s if flow.stop_s is None else flow.stop_s for flow in tuned]
    last = np.minimum(to_ns(stops) // interval_ns, conditions.intervals(scenario))
    return {place: int(begins[place]) for place in np.flatnonzero(begins + intervals < last).tolist()}


def probe_length(begins: Begins, intervals: int) -> int:
    """Return the control intervals until all have had so many; that many if none has."""
    return intervals + max(begins.values(), default=0)


@dataclass(frozen=True, eq=False)
class ProbePart:
    """Probes some draws, and tries every setting of a library after it, or after the setting chosen then.

    Attributes:
        conditions: of the simulations.
        draws: to run.
        probe: setting during the probe, [tunables].
        intervals: control intervals of the probe.
        library: settings to try, [settings, tunables].
        first: network that chooses after the probe, for stage `again`; None: every setting is tried then.
        run: number of the run of each draw, see `TrainingDraw.run_seed`.
    """

    conditions: TrainingConditions
    draws: tuple[TrainingDraw, ...]
    probe: Coordinates
    intervals: int
    library: Coordinates
    first: nn.Module | None = None
    run: int = 0

    @property
    def steps(self) -> int:
        """Control intervals of all runs; those until all have probed count once."""
        return sum(
            length + len(self.library) * max(0, self.conditions.intervals(draw.scenario) - length)
            for draw, length in zip(self.draws, self._lengths, strict=True)
        )

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Run; return a row per draw: its weight, what each controller observed, and the library's scores."""
        options = replace(
            self.conditions.options,
            critic=False,
            scenario=[with_variant(draw.scenario, self.conditions.options.variant) for draw in self.draws],
            threads=threads,
        )
        batch = batch_of(len(self.draws), options)
        try:
            views, moments = self._probed(batch)
            scores = self._scores(batch, moments)
        finally:
            batch.close()
        histories = [
            [views[begin : begin + self._watched, index, place][-self.intervals :] for place, begin in begins.items()]
            for index, begins in enumerate(self._begins)
        ]
        return pl.DataFrame(
            {
                "draw": [draw.seed for draw in self.draws],
                "weight": [draw.weight for draw in self.draws],
                "history": [np.ravel(history).tolist() for history in histories],
                "scores": scores.tolist(),
            },
            schema_overrides={"history": pl.List(pl.Float32)},
        )

    @property
    def _watched(self) -> int:
        """Control intervals of a controller until every setting is tried."""
        return self.intervals if self.first is None else 2 * self.intervals

    @property
    def _begins(self) -> list[Begins]:
        return [probe_begins(self.conditions, draw.scenario, self._watched) for draw in self.draws]

    @property
    def _lengths(self) -> list[int]:
        return [probe_length(begins, self._watched) for begins in self._begins]

    def _probed(self, batch: TuneBatch | FlowBatch) -> tuple[NDArray[np.float32], list[Snapshot]]:
        """Run until all have been watched.

        Returns:
            What was observed, [intervals, draws, controllers, numbers], and each draw's world when its last one had
            been watched.
        """
        seeds = [draw.run_seed(self.run) for draw in self.draws]
        batch.reset(range(len(self.draws)), seeds)
        lengths = np.array(self._lengths)
        controllers = batch.max_tuned if isinstance(batch, FlowBatch) else 1
        actions = np.tile(self.probe, (len(self.draws), controllers, 1))
        views: list[Observation] = []
        moments = dict[int, Snapshot]()
        for done in range(1, int(lengths.max()) + 1):
            self._choose(actions, views)
            batch.simulate(actions if isinstance(batch, FlowBatch) else actions[:, 0])
            views.append(cast(Observation, batch.observe()).reshape(len(self.draws), -1, batch.observation.width))
            for index in np.flatnonzero(lengths == done).tolist():
                moments[index] = _worlds_of(batch).save(index)
            ended = np.flatnonzero(batch.has_ended).tolist()
            if ended:  # shorter than others, and saved: these run once more, ignored
                batch.reset(ended, [seeds[index] for index in ended])
        return np.stack(views), [moments[index] for index in range(len(self.draws))]

    def _choose(self, actions: Coordinates, views: Sequence[Observation]) -> None:
        """Replace the actions of the controllers whose probe has just ended, [draws, controllers, tunables]."""
        if self.first is None:
            return
        for index, begins in enumerate(self._begins):
            for place, begin in begins.items():
                if begin + self.intervals == len(views):
                    history = np.concatenate([view[index, place] for view in views[begin:]])
                    actions[index, place] = alone(self.first, history[None])[0][0]

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


def _worlds_of(batch: TuneBatch | FlowBatch) -> VectorWorld:
    if batch.worlds is None:
        raise ValueError("the probe has not run")
    return batch.worlds


def histories(table: pl.DataFrame, intervals: int, width: int) -> tuple[Tensor, NDArray[np.intp]]:
    """Return what was observed in the probes of a table of `ProbePart`.

    Args:
        table: of the stage.
        intervals: of a probe.
        width: numbers of an interval's observation.

    Returns:
        Histories of all controllers, [controllers, intervals, numbers], and the row of each one's draw, [controllers].
    """
    observed = np.concatenate([np.array(row, np.float32) for row in table["history"].to_list()])
    each = table["history"].list.len().to_numpy() // (intervals * width)
    return torch.from_numpy(observed.reshape(-1, intervals, width)), np.repeat(np.arange(len(table)), each)


def examples_of(table: pl.DataFrame, features: nn.Module, intervals: int, width: int) -> Examples:
    """Return the probes of a table of `ProbePart`; those of a draw share its weight.

    Args:
        table: of the stage.
        features: from histories to features.
        intervals: of a probe.
        width: numbers of an interval's observation.
    """
    history, draws = histories(table, intervals, width)
    with torch.no_grad():
        found = features(history)
    shares = table["weight"].to_numpy() / np.bincount(draws, minlength=len(table)).clip(min=1)
    return Examples(found, np.array(table["scores"].to_list())[draws], shares[draws], draws)


def newest(observations: Observation, width: int) -> Observation:
    """Return the newest interval of stacked observations, [N, width]."""
    return observations[:, -width:]
