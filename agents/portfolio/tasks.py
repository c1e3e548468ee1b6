# SPDX-License-Identifier: GPL-2.0-only
"""Conditions that all simulations of a training share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.agents.trials import Trials
from bbrgym.envs.options import Options
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import WorldSettings


@dataclass(frozen=True)
class TrainingConditions:
    """Conditions of a training's simulations."""

    options: Options  # of the agent's environment
    world_settings: WorldSettings  # settings of the world
    delta: float  # weight of the RTT in the score

    def intervals(self, scenario: Scenario) -> int:
        """Return the number of control intervals of a run."""
        return max(1, round(scenario.duration_s / self.options.control_interval_s))

    def trials(self, draws: Sequence[TrainingDraw], runs: int, first: int, threads: int | None) -> Trials:
        """Return trials with ``runs`` runs of each draw, the runs of a draw one after the other.

        Args:
            draws: to run.
            runs: of each draw.
            first: number of the first of them, see `TrainingDraw.run_seed`.
            threads: of the worlds.
        """
        numbers = range(first, first + runs)
        return Trials(
            [draw.scenario for draw in draws for _ in numbers],
            [draw.run_seed(number) for draw in draws for number in numbers],
            self.options.variant,
            self.options.tunables,
            world=self.options.world,
            world_settings=self.world_settings,
            threads=threads,
            delta=self.delta,
        )
