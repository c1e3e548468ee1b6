# SPDX-License-Identifier: GPL-2.0-only
"""Episodes in which an agent acts, with every decision and what the network did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bbrgym.agents.base import Agent, Policy
from bbrgym.agents.rollout import Rollout, flow_seed, validation_rollout
from bbrgym.envs.options import Options
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags, Table

Place: TypeAlias = tuple[int, int | None]
"""Number of an episode, and of a tuned flow in it; None of a policy that sets the tunables of all of them."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions of one policy in an episode."""

    seed: int  # seed of the policy
    flow: int | None  # number of its flow among the tuned ones; None: it sets the tunables of all of them
    times_s: Table  # [decisions]
    observations: NDArray[np.float32]  # [decisions, numbers]
    actions: NDArray[Any]  # [decisions, ...]


@dataclass(frozen=True, eq=False)
class RecordedEpisode:
    """Episode of an agent."""

    scenario: Scenario  # its scenario
    seed: int  # of the draw and the run
    score: float  # NaN where nothing was measured
    flows: tuple[str, ...]  # names of all flows
    times_s: Table  # ends of the control intervals, [intervals]
    queue_delay_ms: Table  # mean queueing delay at the bottleneck, [intervals]
    goodput_mbps: Table  # [intervals, flows]
    decisions: tuple[Decisions, ...]  # of each policy that acted


def recorded_episodes(
    agent: Agent, options: Options, source: Scenario | Distribution, seeds: Sequence[int], *, delta: float
) -> list[RecordedEpisode]:
    """Run an agent in one episode per seed, side by side, to their ends.

    Raises:
        WorldError: a simulation failed.
    """
    scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in seeds]
    rollout = validation_rollout(options, source, seeds)
    recorder = _Recorder(agent, rollout, seeds)
    try:
        scores = recorder.run(delta)
        names = [tuple(rollout.worlds.flow_names(index)) for index in range(len(seeds))]
    finally:
        rollout.close()
    return [
        RecordedEpisode(
            scenarios[index], seeds[index], scores[index], names[index], *measured, recorder.decisions_of(index)
        )
        for index, measured in enumerate(recorder.measured())
    ]


class _Recorder:
    """Records a rollout until the first end of each of its episodes."""

    def __init__(self, agent: Agent, rollout: Rollout, seeds: Sequence[int]) -> None:
        self._agent, self._rollout, self._seeds = agent, rollout, seeds
        self._places = Places(agent, seeds)
        self._has_ended = np.zeros(len(seeds), np.bool_)
        self._rows: dict[Place, list[tuple[float, Any, Any]]] = {}
        self._policy_seeds: dict[Place, int] = {}
        self._intervals: list[list[tuple[float, float, Table]]] = [[] for _ in seeds]

    def run(self, delta: float) -> list[float]:
        """Run to the end and return the scores."""
        scores: list[float] = self._rollout.scores(self.make_policy, delta=delta, on_advanced=self._measure).tolist()
        return scores

    def _measure(self, ended: Flags) -> None:
        worlds = self._rollout.worlds
        delay, goodput = worlds.link_fields.index("queue_delay_mean_ms"), worlds.flow_fields.index("goodput_mbps")
        for index in np.flatnonzero(~self._has_ended).tolist():
            flows = len(worlds.flow_names(index))
            measured = worlds.link_stats[index, delay], worlds.flow_stats[index, :flows, goodput].copy()
            self._intervals[index].append((float(worlds.now_s[index]), *measured))
        self._has_ended |= ended

    def make_policy(self, seeds: Sequence[int]) -> Policy:
        """Return a policy whose decisions are recorded."""
        places = self._places.of(seeds)
        self._policy_seeds.update(zip(places, seeds, strict=True))
        return _RecordingPolicy(self._agent.make_policy(seeds), self, places)

    def add(self, place: Place, observation: Any, action: Any) -> None:
        """Take a decision of an episode that has not ended before."""
        if not self._has_ended[place[0]]:
            now_s = float(self._rollout.worlds.now_s[place[0]])
            self._rows.setdefault(place, []).append((now_s, np.array(observation), np.array(action)))

    def decisions_of(self, index: int) -> tuple[Decisions, ...]:
        """Return the decisions in an episode, by flow."""
        places = sorted((place for place in self._rows if place[0] == index), key=lambda place: place[1] or 0)
        return tuple(
            Decisions(self._policy_seeds[place], place[1], *map(np.array, zip(*self._rows[place], strict=True)))
            for place in places
        )

    def measured(self) -> list[tuple[Table, Table, Table]]:
        """Return the times, the queueing delays and the goodputs of each episode."""
        columns = (tuple(map(np.array, zip(*rows, strict=True))) for rows in self._intervals)
        return [(times_s, delays_ms, goodputs) for times_s, delays_ms, goodputs in columns]


class _RecordingPolicy:
    def __init__(self, policy: Policy, recorder: _Recorder, places: Sequence[Place]) -> None:
        self._policy, self._recorder, self._places = policy, recorder, places

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        actions = self._policy.act(observations, episode_starts)
        for place, observation, action in zip(self._places, observations, actions, strict=True):
            self._recorder.add(place, observation, action)
        return actions


class Places:
    """The place of each policy in a rollout: its episode and, of an agent per flow, its tuned flow."""

    def __init__(self, agent: Agent, seeds: Sequence[int]) -> None:
        self._seeds = seeds
        self._known: dict[int, Place] = {}
        self._flows = 0
        if not agent.is_per_flow:
            self._known = {seed: (episode, None) for episode, seed in enumerate(seeds)}

    def of(self, policy_seeds: Sequence[int]) -> list[Place]:
        """Return the place of each seed that `make_policy` gets."""
        while not self._known.keys() >= set(policy_seeds):
            for episode, seed in enumerate(self._seeds):
                self._known[flow_seed(seed, self._flows)] = episode, self._flows
            self._flows += 1
        return [self._known[seed] for seed in policy_seeds]
