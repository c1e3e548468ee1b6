# SPDX-License-Identifier: GPL-2.0-only
"""Episodes in which an agent acts, with every decision and what the network did meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bbrgym.agents.base import Agent, Policy
from bbrgym.agents.rollout import flow_seed, validation_rollout
from bbrgym.envs.options import Options
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags, Table
from bbrgym.worlds.score import Objective

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
    agent: Agent, options: Options, source: Scenario | Distribution, seeds: Sequence[int], *, objective: Objective
) -> list[RecordedEpisode]:
    """Run an agent in one episode per seed, side by side, to the end of each.

    Raises:
        WorldError: a simulation failed.
    """
    scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in seeds]
    rollout, places = validation_rollout(options, source, seeds), Places(agent, seeds)
    has_ended = np.zeros(len(seeds), np.bool_)
    policy_seeds: dict[Place, int] = {}
    decided: dict[Place, list[tuple[float, Any, Any]]] = {}  # of each policy that acted
    intervals: list[list[tuple[float, float, Table]]] = [[] for _ in seeds]

    def add(place: Place, observation: Any, action: Any) -> None:
        if not has_ended[place[0]]:  # what has ended runs once more
            now_s = float(rollout.worlds.now_s[place[0]])
            decided.setdefault(place, []).append((now_s, np.array(observation), np.array(action)))

    def make_policy(seeds: Sequence[int]) -> Policy:
        of = places.of(seeds)
        policy_seeds.update(zip(of, seeds, strict=True))
        return _RecordingPolicy(agent.make_policy(seeds), of, add)

    def measure(ended: Flags) -> None:
        worlds = rollout.worlds
        delay, goodput = worlds.link_fields.index("queue_delay_mean_ms"), worlds.flow_fields.index("goodput_mbps")
        for index in np.flatnonzero(~has_ended).tolist():
            flows = len(worlds.flow_names(index))
            measured = worlds.link_stats[index, delay], worlds.flow_stats[index, :flows, goodput].copy()
            intervals[index].append((float(worlds.now_s[index]), *measured))
        has_ended[ended] = True

    try:
        scores: list[float] = rollout.scores(make_policy, objective=objective, on_advanced=measure).tolist()
        names = [tuple(rollout.worlds.flow_names(index)) for index in range(len(seeds))]
    finally:
        rollout.close()
    episodes = []
    for index, rows in enumerate(intervals):
        of = sorted((place for place in decided if place[0] == index), key=lambda place: place[1] or 0)
        decisions = tuple(Decisions(policy_seeds[place], place[1], *_columns(decided[place])) for place in of)
        named = scenarios[index], seeds[index], scores[index], names[index]
        times_s, delays_ms, goodputs = _columns(rows)
        episodes.append(RecordedEpisode(*named, times_s, delays_ms, goodputs, decisions))
    return episodes


def _columns(rows: Sequence[tuple[Any, ...]]) -> Iterator[NDArray[Any]]:
    return map(np.array, zip(*rows, strict=True))


class _RecordingPolicy:
    def __init__(self, policy: Policy, places: Sequence[Place], add: Callable[[Place, Any, Any], None]) -> None:
        self._policy, self._places, self._add = policy, places, add

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        actions = self._policy.act(observations, episode_starts)
        for place, observation, action in zip(self._places, observations, actions, strict=True):
            self._add(place, observation, action)
        return actions


class Places:
    """Place of each policy in a rollout: the episode and, of an agent per flow, the tuned flow."""

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
