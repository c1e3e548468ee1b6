# SPDX-License-Identifier: GPL-2.0-only
"""Stage `probe`: draws probed as the agent will, then every setting of the library from the same moment on.

The world is saved when the probe ends and restored for each setting, so the probe is simulated once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import polars as pl
import torch
from torch import Tensor

from bbrgym.agents.portfolio.draws import TrainingDraw
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.envs.features import Observation
from bbrgym.envs.scaling import Coordinates
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.scenario.files import with_variant
from bbrgym.worlds import TUNABLE_COLUMNS, Table
from bbrgym.worlds.score import score_of_world


@dataclass(frozen=True, eq=False)
class ProbePart:
    """Probes some draws, and tries every setting of a library after it.

    Attributes:
        conditions: of the simulations.
        draws: to run.
        probe: setting during the probe, [tunables].
        intervals: control intervals of the probe.
        library: settings to try, [settings, tunables].
        run: number of the run of each draw, see `TrainingDraw.run_seed`.
    """

    conditions: TrainingConditions
    draws: tuple[TrainingDraw, ...]
    probe: Coordinates
    intervals: int
    library: Coordinates
    run: int = 0

    @property
    def steps(self) -> int:
        """Control intervals of all runs; the probe counts once."""
        after = [max(0, self.conditions.intervals(draw.scenario) - self.intervals) for draw in self.draws]
        return self.intervals * len(self.draws) + len(self.library) * sum(after)

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Run; return a row per draw: its weight, what was observed in the probe, and the library's scores."""
        options = replace(
            self.conditions.options,
            critic=False,
            scenario=[with_variant(draw.scenario, self.conditions.options.variant) for draw in self.draws],
            threads=threads,
        )
        batch = TuneBatch(len(self.draws), options)
        try:
            history = self._probed(batch)
            scores = self._scores(batch)
        finally:
            batch.close()
        return pl.DataFrame(
            {
                "draw": [draw.seed for draw in self.draws],
                "weight": [draw.weight for draw in self.draws],
                "history": history.reshape(len(self.draws), -1).tolist(),
                "scores": scores.tolist(),
            },
            schema_overrides={"history": pl.List(pl.Float32)},
        )

    def _probed(self, batch: TuneBatch) -> Observation:
        """Run the probe; return the observations of its intervals, [draws, intervals, numbers]."""
        batch.reset(range(len(self.draws)), [draw.run_seed(self.run) for draw in self.draws])
        views = []
        for _ in range(self.intervals):
            batch.simulate(np.tile(self.probe, (len(self.draws), 1)))
            views.append(newest(cast(Observation, batch.observe()), batch.observation.width))
        return np.stack(views, axis=1)

    def _scores(self, batch: TuneBatch) -> Table:
        """Return the scores of the runs with each setting held to the end, [draws, settings]."""
        worlds = batch.worlds
        if worlds is None:
            raise ValueError("the probe has not run")
        moments = [worlds.save(index) for index in range(len(self.draws))]
        columns = [TUNABLE_COLUMNS[name] for name in batch.scaling.names]
        scores = np.empty((len(self.draws), len(self.library)))
        for number, values in enumerate(batch.scaling.values(self.library)):
            for index, moment in enumerate(moments):
                worlds.restore(index, moment)
                learners = [
                    flow for flow, each in enumerate(moment.scenario.resolved().flows) if each.role == "learner"
                ]
                worlds.tunables[np.ix_([index], learners, columns)] = values
            worlds.run_to_end()
            for index in range(len(moments)):
                scores[index, number] = score_of_world(worlds, index, delta=self.conditions.delta)
        return scores


def histories(table: pl.DataFrame, intervals: int) -> Tensor:
    """Return what was observed in the probes of a table of `ProbePart`, [draws, intervals, numbers]."""
    rows = np.array(table["history"].to_list(), np.float32)
    return torch.from_numpy(rows.reshape(len(table), intervals, -1))


def newest(observations: Observation, width: int) -> Observation:
    """Return the newest interval of stacked observations, [N, width]."""
    return observations[:, -width:]
