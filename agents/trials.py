# SPDX-License-Identifier: GPL-2.0-only
"""Scores of fixed settings of a variant's tunables, on many scenarios at once.

A setting is an action of `TunableScaling`: a number in [-1, 1] per tunable, so that searches treat all tunables alike.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import (
    FAST_WORLD,
    TUNABLE_COLUMNS,
    Table,
    VectorWorld,
    WorldSettings,
    make_vector_world,
    repeat_late,
    world_spec,
)
from bbrgym.worlds.score import Objective

_LOG = logging.getLogger(__name__)
_SCORE = Objective()


class Worth(Protocol):
    """Worth of a run, as `Objective` has it."""

    def of_world(self, worlds: VectorWorld, index: int) -> float:
        """Return the worth of one of several worlds, of its run so far."""


class Trials:
    """Scenarios to try settings of a variant's tunables on, side by side, each in a world with a seed of its own.

    In real time they run one after the other, and one that was late is repeated.

    Raises:
        ConfigError: the variant, a tunable or a scenario cannot be used.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        seeds: Sequence[int],
        variant: str,
        tunables: Sequence[str] | None = None,
        *,
        world: str = FAST_WORLD,
        world_settings: WorldSettings | None = None,
        threads: int | None = None,
        objective: Worth = _SCORE,
    ) -> None:
        self.action = TunableScaling(variant, tunables)
        self._columns = [TUNABLE_COLUMNS[name] for name in self.action.names]
        self._objective = objective
        self._scenarios = [with_variant(scenario, variant) for scenario in scenarios]
        self._tuned = [
            [index for index, flow in enumerate(scenario.resolved().flows) if flow.role == "tuned"]
            for scenario in self._scenarios
        ]
        self._is_real_time = world_spec(world).is_real_time
        self._worlds = make_vector_world(
            world,
            len(scenarios),
            self._scenarios,
            list(seeds),
            threads=threads,
            **dict(world_settings or WorldSettings()),
        )

    def __len__(self) -> int:
        """Return the number of scenarios."""
        return len(self._scenarios)

    def scores(self, settings: NormalisedAction) -> Table:
        """Return the objective of each run with one setting from the first packet to the last, [scenarios].

        Args:
            settings: one for all scenarios, [tunables], or one for each, [scenarios, tunables]; in [-1, 1].

        Raises:
            ConfigError: a setting is not in the action space.
            WorldError: a simulation failed.
        """
        each = np.broadcast_to(settings, (len(self), len(self.action.names)))
        values = self.action.values(np.ascontiguousarray(each))
        if self._is_real_time:
            for index in range(len(self)):
                self._run_in_time(index, values)
        else:
            self._begin(range(len(self)), values)
            self._worlds.run_to_end()
        return np.array([self._objective.of_world(self._worlds, index) for index in range(len(self))])

    def _begin(self, indices: Iterable[int], values: Table) -> None:
        for index in indices:
            self._worlds.reset(index)
            self._worlds.tunables[np.ix_([index], self._tuned[index], self._columns)] = values[index]

    def _run_in_time(self, index: int, values: Table) -> None:
        is_its = np.arange(len(self)) == index

        def run() -> None:
            self._begin([index], values)
            while not self._worlds.done[index]:
                self._worlds.advance(self._scenarios[index].duration_s, is_its)

        repeat_late(run, lambda error: _LOG.warning("a run is repeated: %s", error))

    def close(self) -> None:
        """End the worlds."""
        self._worlds.close()

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
