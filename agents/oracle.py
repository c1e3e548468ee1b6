# SPDX-License-Identifier: GPL-2.0-only
"""Oracle: the best fixed setting for each scenario, found by a search on some of the scenario's runs.

No policy can know it beforehand, so it is the upper reference for fixed settings; a policy that adapts may exceed it.
It is honest if the runs on which it was found are others than that on which it is scored: the best of many settings on
one run owes a part of its score to that run's random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bbrgym.agents.trials import Trials
from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.tunables import VARIANTS, Variant
from bbrgym.worlds import Table

_REDRAWN = 0.5  # share of the tunables that are drawn again; the others keep the default
_EXPLORING = 0.5  # share of the budget that explores the whole space
_MUTATED = 0.25  # share of the tunables that a mutation changes
_STEP = 0.3  # standard deviation of a mutation; normalised tunables range from -1 to 1


@dataclass(frozen=True)
class BestSettings:
    """The best setting of each scenario so far."""

    actions: NormalisedAction  # settings, [scenarios, tunables], in [-1, 1]
    scores: Table  # their scores, [scenarios]

    def or_better(self, actions: NormalisedAction, scores: Table) -> BestSettings:
        """Return the better setting of each scenario; of equals the earlier one."""
        is_better = scores > self.scores
        return BestSettings(np.where(is_better[:, None], actions, self.actions), np.maximum(scores, self.scores))


def search_each(
    trials: Trials,
    seeds: Sequence[int],
    budget: int,
    *,
    seed: int = 0,
    runs: int = 1,
    also: Sequence[NormalisedAction] = (),
    on_tried: Callable[[int], None] | None = None,
) -> BestSettings:
    """Search the best setting of each scenario: try presets, then random settings, then mutations of the best (1+1).

    The search on a scenario depends on its seed and `seed` only: its result is the same alone and among others.

    Args:
        trials: the scenarios, each as often as it has runs, these one after the other.
        seeds: one per scenario; of its only run, or any others that differ.
        budget: settings to try on each, at least 1.
        seed: seed of the search.
        runs: of each scenario, over which the score of a setting is the mean.
        also: settings to try first, each [tunables].
        on_tried: called with the number of settings tried so far.

    Raises:
        WorldError: a simulation failed.
    """
    generators = [np.random.default_rng([seed, run_seed]) for run_seed in seeds]
    first = [*also, *presets(trials.action)]
    best = BestSettings(np.tile(trials.action.default, (len(seeds), 1)), np.full(len(seeds), -np.inf))
    for turn in range(budget):
        if turn < len(first):
            actions = np.tile(first[turn], (len(seeds), 1))
        elif turn < _EXPLORING * budget:
            actions = np.array([_anywhere(generator, trials.action) for generator in generators])
        else:
            actions = np.array([mutated(*pair) for pair in zip(generators, best.actions, strict=True)])
        scores = trials.scores(np.repeat(actions, runs, axis=0)).reshape(len(seeds), runs)
        best = best.or_better(actions, scores.mean(axis=1))
        if on_tried is not None:
            on_tried(turn + 1)
    return best


def other_seeds(seed: int, count: int) -> list[int]:
    """Return the seeds of other runs of the draw that has a seed, to choose on: always the same ones."""
    return [
        int(np.random.SeedSequence([seed, number, *b"oracle"]).generate_state(1, np.uint64)[0] >> np.uint64(1))
        for number in range(count)
    ]


def presets(action: TunableScaling) -> list[NormalisedAction]:
    """Return the presets of all variants that are points of the action space, each [tunables], the own one first."""
    own = VARIANTS[action.variant]
    points = [own.preset, *(_in_terms_of(own, variant) for variant in VARIANTS.values())]
    actions = [action.from_values({**own.preset, **point}) for point in points if point]
    return [one for index, one in enumerate(actions) if not any((one == other).all() for other in actions[:index])]


def _in_terms_of(own: Variant, other: Variant) -> dict[str, float]:
    """Return a variant's preset as values of the tunables of ``own``, switches included; empty if there are none."""
    if other.algorithm != own.algorithm:
        return {}
    if own.preset.keys() == other.preset.keys():
        return dict(other.preset)
    if not own.preset.keys() >= other.switches.keys():  # without all switches some mechanism is always on
        return {}
    return {**other.preset, **other.switches}


def _anywhere(generator: np.random.Generator, action: TunableScaling) -> NormalisedAction:
    """Return the default with some tunables drawn: in many dimensions a setting drawn whole rarely is good."""
    return np.where(generator.random(action.default.shape) < _REDRAWN, _uniform(generator, action), action.default)


def _uniform(generator: np.random.Generator, action: TunableScaling) -> NormalisedAction:
    return generator.uniform(-1.0, 1.0, action.default.shape).astype(np.float32)


def mutated(generator: np.random.Generator, parent: NormalisedAction) -> NormalisedAction:
    """Return a setting with a step away from another one in some of the tunables."""
    step = generator.normal(0.0, _STEP, parent.shape) * (generator.random(parent.shape) < _MUTATED)
    moved: NormalisedAction = np.clip(parent + step, -1.0, 1.0).astype(np.float32)
    return moved
