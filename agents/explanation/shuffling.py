# SPDX-License-Identifier: GPL-2.0-only
"""Permutation of features: an agent's actions and scores when one feature is taken from another episode.

The other episode's value is that of the same decision's number, or of its last one. Breiman, Random forests, 2001.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.agents.base import Agent, Policy
from bbrgym.agents.explanation.episodes import Decisions, Place, Places, RecordedEpisode
from bbrgym.agents.rollout import validation_rollout
from bbrgym.envs.options import Options
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags, Table
from bbrgym.worlds.score import Objective

TUNABLES = "current tunables"
"""Name for the tunables among the numbers of an observation."""


@dataclass(frozen=True, eq=False)
class ShuffledFeature:
    """Changes that follow if a feature is that of another episode."""

    name: str  # of the feature
    # mean distance between the actions in the same situation, in parts of the tunables' ranges; of actions by number
    # the share that differs: [episodes]
    action_change: Table
    score_drop: Table  # what whole episodes score less, [episodes]


def columns_by_feature(names: Sequence[str], tunables: Sequence[str]) -> dict[str, list[int]]:
    """Return the columns of an observation by feature, in all intervals and of all flows."""
    columns: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        feature = re.sub(r"^(mean|min|max) |@-\d+$", "", name)
        feature = TUNABLES if feature in tunables else re.sub(r"\[\d+\]$", "", feature)
        columns.setdefault(feature, []).append(column)
    return columns


def shuffled_features(
    agent: Agent,
    options: Options,
    source: Scenario | Distribution,
    episodes: Sequence[RecordedEpisode],
    columns: Mapping[str, Sequence[int]],
    *,
    objective: Objective,
) -> list[ShuffledFeature]:
    """Return what each feature changes over two episodes at least, that which changes the actions most first.

    Raises:
        WorldError: a simulation failed.
    """
    found = []
    seeds = [one.seed for one in episodes]
    rollout = validation_rollout(options, source, seeds)
    try:
        for number, (name, own) in enumerate(columns.items()):
            shift = int(np.random.default_rng(number).integers(1, len(episodes)))
            shuffling = _Shuffling(agent, episodes, shift, own)
            scores = rollout.scores(shuffling.make_policy, objective=objective)
            drop = np.array([one.score for one in episodes]) - scores
            found.append(ShuffledFeature(name, shuffling.action_changes(), drop))
    finally:
        rollout.close()
    return sorted(found, key=lambda one: -float(np.nanmean(one.action_change)))


class _Shuffling:
    """A feature that is that of the episode so many further on."""

    def __init__(self, agent: Agent, episodes: Sequence[RecordedEpisode], shift: int, columns: Sequence[int]) -> None:
        self._agent, self._episodes, self._shift = agent, episodes, shift
        self._columns = np.array(columns)
        self._places = Places(agent, [one.seed for one in episodes])

    def make_policy(self, seeds: Sequence[int]) -> Policy:
        """Return a policy that observes the shuffled feature."""
        others = [self._other(place) for place in self._places.of(seeds)]
        return _Misled(self._agent.make_policy(seeds), others, self._columns)

    def action_changes(self) -> Table:
        """Return the change of each episode's actions when only this feature is shuffled, [episodes].

        All policies act side by side; one whose decisions have ended acts on, and what it does does not count.
        """
        rows = [(number, own) for number, one in enumerate(self._episodes) for own in one.decisions]
        changes: list[list[float]] = [[] for _ in self._episodes]
        if rows:
            others = [self._other((number, own.flow)) for number, own in rows]
            policy = _Misled(self._agent.make_policy([own.seed for _, own in rows]), others, self._columns)
            for step in range(max(len(own.actions) for _, own in rows)):
                observations = np.stack([own.observations[min(step, len(own.actions) - 1)] for _, own in rows])
                actions = policy.act(observations, np.full(len(rows), step == 0))
                for (number, own), action in zip(rows, actions, strict=True):
                    if step < len(own.actions):
                        changes[number].append(_distance(action, own.actions[step]))
        return np.array([np.mean(of_episode) if of_episode else np.nan for of_episode in changes])

    def _other(self, place: Place) -> Decisions | None:
        """Return the decisions of another episode for a place; None: nothing acted there."""
        episode, flow = place
        decisions = self._episodes[(episode + self._shift) % len(self._episodes)].decisions
        return decisions[(flow or 0) % len(decisions)] if decisions else None


def _distance(action: NDArray[Any], former: NDArray[Any]) -> float:
    if np.issubdtype(former.dtype, np.integer):
        return float(np.mean(action != former))
    return float(np.mean(np.abs(action - former)) / 2.0)


class _Misled:
    """Policy that observes some numbers of other episodes."""

    def __init__(self, policy: Policy, others: Sequence[Decisions | None], columns: NDArray[np.intp]) -> None:
        self._policy, self._others, self._columns = policy, others, columns
        self._steps = [0] * len(others)

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        seen = np.array(observations)
        for row, other in enumerate(self._others):
            self._steps[row] = 0 if episode_starts[row] else self._steps[row] + 1
            if other is not None:
                number = min(self._steps[row], len(other.observations) - 1)
                seen[row, self._columns] = other.observations[number, self._columns]
        return self._policy.act(seen, episode_starts)
