# SPDX-License-Identifier: GPL-2.0-only
"""The oracle: for each scenario alone the best fixed setting that a search on that very run finds.

What no tuner can know beforehand, and so the upper reference for fixed settings; a tuner that adapts may exceed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bbrgym.agents.trials import Trials
from bbrgym.envs.scaling import Coordinates, TunableScaling
from bbrgym.tunables import SWITCHES, TUNABLES, VARIANTS
from bbrgym.worlds import Table

_REDRAWN = 0.5  # part of the coordinates that are drawn anywhere; the others keep the default
_EXPLORING = 0.5  # part of the budget for settings that are drawn anywhere
_MUTATED = 0.25  # part of the coordinates that a mutation changes
_STEP = 0.3  # standard deviation of a mutation, of a range of 2


@dataclass(frozen=True)
class Best:
    """What was found.

    Attributes:
        actions: the best setting of each scenario, [scenarios, tunables].
        scores: theirs, [scenarios].
    """

    actions: Coordinates
    scores: Table

    def or_better(self, actions: Coordinates, scores: Table) -> Best:
        """For each scenario the better one; the earlier of equals."""
        is_better = scores > self.scores
        return Best(np.where(is_better[:, None], actions, self.actions), np.maximum(scores, self.scores))


def search_each(
    trials: Trials,
    seeds: Sequence[int],
    budget: int,
    *,
    seed: int = 0,
    also: Sequence[Coordinates] = (),
    on_tried: Callable[[int], None] | None = None,
) -> Best:
    """The best setting of each scenario by (1+1) search: presets, then settings anywhere, then mutations of the best.

    What a scenario's search draws depends on its seed and `seed` alone, so it finds the same alone or among others.

    Args:
        trials: the scenarios.
        seeds: of their runs.
        budget: settings tried on each, at least 1.
        seed: of the draws.
        also: settings to try first.
        on_tried: called with how many have been tried.
    """
    generators = [np.random.default_rng([seed, run_seed]) for run_seed in seeds]
    first = [*also, *presets(trials.action)]
    best = Best(np.tile(trials.action.default, (len(trials), 1)), np.full(len(trials), -np.inf))
    for turn in range(budget):
        if turn < len(first):
            actions = np.tile(first[turn], (len(trials), 1))
        elif turn < _EXPLORING * budget:
            actions = np.array([_anywhere(generator, trials.action) for generator in generators])
        else:
            actions = np.array([_mutated(*pair) for pair in zip(generators, best.actions, strict=True)])
        best = best.or_better(actions, trials.scores(actions))
        if on_tried is not None:
            on_tried(turn + 1)
    return best


def presets(action: TunableScaling) -> list[Coordinates]:
    """The settings of all variants that are points of the space, its own first."""
    own = VARIANTS[action.variant].preset
    points = [own, *(_in_terms_of(own, variant.preset) for variant in VARIANTS.values())]
    actions = [action.from_values({**own, **point}) for point in points if point]
    return [one for index, one in enumerate(actions) if not any((one == other).all() for other in actions[:index])]


def _in_terms_of(own: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return a preset as values of another variant's tunables, switches included; empty if that cannot express it."""
    if own.keys() == other.keys():
        return dict(other)
    if not other or not own.keys() >= set(SWITCHES.values()):  # only all the switches make every mechanism optional
        return {}
    mechanisms = {TUNABLES[name].mechanism for name in other} & SWITCHES.keys()
    return {**other, **{SWITCHES[mechanism]: 1.0 for mechanism in mechanisms}}


def _anywhere(generator: np.random.Generator, action: TunableScaling) -> Coordinates:
    """The default with some coordinates drawn anew; in many dimensions all drawn at once are rarely any good."""
    return np.where(generator.random(action.default.shape) < _REDRAWN, _uniform(generator, action), action.default)


def _uniform(generator: np.random.Generator, action: TunableScaling) -> Coordinates:
    return generator.uniform(-1.0, 1.0, action.default.shape).astype(np.float32)


def _mutated(generator: np.random.Generator, parent: Coordinates) -> Coordinates:
    step = generator.normal(0.0, _STEP, parent.shape) * (generator.random(parent.shape) < _MUTATED)
    mutated: Coordinates = np.clip(parent + step, -1.0, 1.0).astype(np.float32)
    return mutated
