# SPDX-License-Identifier: GPL-2.0-only
"""Runs side by side with an agent at the wheel: one tuner for a run, or one for each learner flow in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from bbrgym.agents.base import Agent, Tuner
from bbrgym.envs.episodes import Episodes
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.learners import Flags
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.worlds import VectorWorld

MakeTuner: TypeAlias = Callable[[Sequence[int]], Tuner]
"""As `Agent.tuner`."""


def options_for(agent: Agent, **arguments: Any) -> Options:
    """Of environments that an agent knows."""
    return FlowOptions(**arguments) if agent.is_per_flow else Options(**arguments)


def batch_of(num_envs: int, options: Options) -> TuneBatch | FlowBatch:
    """Environments with a controller each, or with one for each learner flow, as the options are.

    Raises:
        ConfigError: they cannot be.
    """
    if isinstance(options, FlowOptions):
        return FlowBatch(num_envs, options, is_to_the_end=True)
    return TuneBatch(num_envs, options)


def steered(options: Options, seeds: Sequence[int]) -> Steered:
    """A run for each seed, all of them of environments with these options."""
    batch = batch_of(len(seeds), options)
    return _PerFlow(batch, seeds) if isinstance(batch, FlowBatch) else _PerRun(batch, seeds)


class Steered(ABC):
    """N runs, each from its beginning to its scenario's end.

    Attributes:
        tunables: names of those that are set.
    """

    def __init__(self, batch: Episodes, seeds: Sequence[int]) -> None:
        self._runs = batch
        self._seeds = list(seeds)
        self.tunables = batch.scaling.names

    @property
    def worlds(self) -> VectorWorld:
        """Where they run."""
        if self._runs.worlds is None:
            raise ValueError("the runs are closed, or have not begun")
        return self._runs.worlds

    @abstractmethod
    def begin(self, make_tuner: MakeTuner) -> None:
        """Begins all runs, with fresh tuners."""

    @abstractmethod
    def begin_again(self, indices: Sequence[int]) -> None:
        """Begins some runs once more, as all that run have to run on together."""

    @abstractmethod
    def advance(self) -> Flags:
        """Acts and runs for a control interval; which runs are at their ends, [N]."""

    def close(self) -> None:
        """Ends the worlds."""
        self._runs.close()

    def _seeds_of(self, indices: Sequence[int]) -> list[int]:
        return [self._seeds[index] for index in indices]


class _PerRun(Steered):
    def __init__(self, batch: TuneBatch, seeds: Sequence[int]) -> None:
        super().__init__(batch, seeds)
        self._batch = batch

    def begin(self, make_tuner: MakeTuner) -> None:
        self._tuner = make_tuner(self._seeds)
        self._begun = np.zeros(len(self._seeds), np.bool_)
        self.begin_again(range(len(self._seeds)))

    def begin_again(self, indices: Sequence[int]) -> None:
        self._observations = self._batch.reset(indices, self._seeds_of(indices))
        self._begun[indices] = True

    def advance(self) -> Flags:
        step = self._batch.step(self._tuner.act(self._observations, self._begun))
        self._observations = step.observations
        self._begun = np.zeros_like(self._begun)
        return step.truncated


class _PerFlow(Steered):
    """A tuner is made when its flow acts for the first time, and acts alone: it knows nothing of other flows."""

    def __init__(self, batch: FlowBatch, seeds: Sequence[int]) -> None:
        super().__init__(batch, seeds)
        self._batch = batch

    def begin(self, make_tuner: MakeTuner) -> None:
        self._make_tuner = make_tuner
        self._tuners: dict[tuple[int, int], Tuner] = {}  # by run and slot
        self.begin_again(range(len(self._seeds)))

    def begin_again(self, indices: Sequence[int]) -> None:
        self._observations = self._batch.reset(indices, self._seeds_of(indices))
        again = set(indices)
        self._tuners = {place: tuner for place, tuner in self._tuners.items() if place[0] not in again}

    def advance(self) -> Flags:
        actions = np.stack([np.stack([self._batch.action.default] * self._batch.max_learners)] * len(self._seeds))
        for run, slot in np.argwhere(self._batch.will_act).tolist():
            has_joined = (run, slot) not in self._tuners
            if has_joined:
                self._tuners[run, slot] = self._make_tuner([flow_seed(self._seeds[run], slot)])
            seen = self._observations[run, slot][None]
            actions[run, slot] = self._tuners[run, slot].act(seen, np.array([has_joined]))[0]
        step = self._batch.step(actions)
        self._observations = step.observations
        return step.has_ended


def flow_seed(seed: int, slot: int) -> int:
    """Of what a flow's own tuner draws, from the seed of its run and its number among the learner flows."""
    return int(np.random.SeedSequence([seed, slot, *b"flow"]).generate_state(1, np.uint64)[0])
