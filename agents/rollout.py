# SPDX-License-Identifier: GPL-2.0-only
"""Rollouts: an agent acts in episodes side by side, with a policy per episode or per tuned flow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bbrgym.agents.base import Agent, Policy
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags, Table, VectorWorld
from bbrgym.worlds.score import Objective

MakePolicy: TypeAlias = Callable[[Sequence[int]], Policy]
"""Function such as `Agent.make_policy`."""


def options_for(agent: Agent, **arguments: Any) -> Options:
    """Return the options of environments that an agent can act in."""
    return FlowOptions(**arguments) if agent.is_per_flow else Options(**arguments)


def batch_of(num_envs: int, options: Options) -> TuneBatch | FlowBatch:
    """Return environments with one controller each, or, for `FlowOptions`, with one for each tuned flow.

    Raises:
        ConfigError: an option cannot be used.
    """
    if isinstance(options, FlowOptions):
        return FlowBatch(num_envs, options, runs_to_the_end=True)
    return TuneBatch(num_envs, options)


def make_rollout(options: Options, seeds: Sequence[int]) -> Rollout:
    """Return a rollout of one episode per seed in environments with these options."""
    batch = batch_of(len(seeds), options)
    return _FlowRollout(batch, seeds) if isinstance(batch, FlowBatch) else _EpisodeRollout(batch, seeds)


def validation_rollout(options: Options, source: Scenario | Distribution, seeds: Sequence[int]) -> Rollout:
    """Return a rollout of a scenario, or of the one that each seed draws from a distribution, one episode per seed."""
    scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in seeds]
    return make_rollout(replace(options, scenario=scenarios), seeds)


class Rollout(ABC):
    """N episodes side by side, each from the beginning to the end of a scenario."""

    def __init__(self, batch: TuneBatch | FlowBatch, seeds: Sequence[int]) -> None:
        self._batch = batch
        batch.episodes.refuses_late = True
        self._seeds = list(seeds)
        self.tunables = batch.scaling.names
        self._observations: Any = None

    @property
    def worlds(self) -> VectorWorld:
        """Worlds of the episodes, [N].

        Raises:
            ValueError: the rollout has not begun, or is closed.
        """
        if self._batch.episodes.worlds is None:
            raise ValueError("the rollout has not begun, or is closed")
        return self._batch.episodes.worlds

    def begin(self, make_policy: MakePolicy) -> None:
        """Begin all episodes, with new policies."""
        self._renew(make_policy)
        self.restart(range(len(self._seeds)))

    def restart(self, indices: Sequence[int]) -> None:
        """Begin some episodes once more, so that all can advance together."""
        self._observations = self._batch.reset(indices, [self._seeds[index] for index in indices])
        self._forget(indices)

    def advance(self) -> Flags:
        """Act, or hold the last action, and simulate one control interval; return the episodes that have ended, [N].

        Raises:
            WorldError: a simulation failed.
        """
        if self._batch.is_holding:
            self._batch.hold()
        else:
            self._batch.act(self._actions())
        self._observations = self._batch.observe()
        return self._batch.episodes.has_ended

    @abstractmethod
    def _renew(self, make_policy: MakePolicy) -> None:
        """Replace all policies."""

    @abstractmethod
    def _forget(self, indices: Sequence[int]) -> None:
        """Clear the policies' memory of some episodes."""

    @abstractmethod
    def _actions(self) -> NDArray[Any]:
        """Return the actions of the policies."""

    def scores(self, make_policy: MakePolicy, *objectives: Objective) -> Table:
        """Run all episodes with new policies to the end; return scores, [objectives, N], NaN where none was measured.

        Args:
            make_policy: as for `begin`.
            objectives: scores of an episode.

        Raises:
            WorldError: a simulation failed.
        """
        scores = np.full((len(objectives), len(self._seeds)), np.nan)
        has_ended = np.zeros(len(self._seeds), np.bool_)
        self.begin(make_policy)
        while True:
            ended = self.advance()
            for index in np.flatnonzero(ended & ~has_ended).tolist():
                scores[:, index] = [objective.of_world(self.worlds, index) for objective in objectives]
            has_ended |= ended
            if has_ended.all():
                return scores
            if ended.any():  # these run once more, ignored, so that all can advance together
                self.restart(np.flatnonzero(ended).tolist())

    def close(self) -> None:
        """End the worlds."""
        self._batch.episodes.close()


class _EpisodeRollout(Rollout):
    def _renew(self, make_policy: MakePolicy) -> None:
        self._policy = make_policy(self._seeds)
        self._episode_starts = np.zeros(len(self._seeds), np.bool_)

    def _forget(self, indices: Sequence[int]) -> None:
        self._episode_starts[indices] = True

    def _actions(self) -> NDArray[Any]:
        actions = self._policy.act(self._observations, self._episode_starts)
        self._episode_starts = np.zeros_like(self._episode_starts)
        return actions


class _FlowRollout(Rollout):
    """Makes a flow's policy when the flow first acts; the policy acts alone and observes no other flow."""

    _batch: FlowBatch

    def _renew(self, make_policy: MakePolicy) -> None:
        self._make_policy = make_policy
        self._policies: dict[tuple[int, int], Policy] = {}  # by episode and tuned flow

    def _forget(self, indices: Sequence[int]) -> None:
        forgotten = set(indices)
        self._policies = {place: policy for place, policy in self._policies.items() if place[0] not in forgotten}

    def _actions(self) -> NDArray[Any]:
        actions: NDArray[Any] = np.stack(
            [np.stack([self._batch.action.default] * self._batch.max_tuned)] * len(self._seeds)
        )
        for episode, tuned_flow in np.argwhere(self._batch.will_act).tolist():
            has_joined = (episode, tuned_flow) not in self._policies
            if has_joined:
                self._policies[episode, tuned_flow] = self._make_policy([flow_seed(self._seeds[episode], tuned_flow)])
            policy, observation = self._policies[episode, tuned_flow], self._observations[episode, tuned_flow][None]
            actions[episode, tuned_flow] = policy.act(observation, np.array([has_joined]))[0]
        return actions


def flow_seed(seed: int, tuned_flow: int) -> int:
    """Return the seed of a flow's own policy, from the episode's seed and the flow's number among the tuned flows."""
    return int(np.random.SeedSequence([seed, tuned_flow, *b"flow"]).generate_state(1, np.uint64)[0])
