# SPDX-License-Identifier: GPL-2.0-only
"""Stages `refine` and `library`: the few settings that together cover the draws best, and children of theirs.

A setting of stage search fits one draw, by chance in most of its tunables. A child is such a setting of the library
with some tunables of another one, and steps away from it; it enters the library if it covers the draws better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bbrgym.agents.oracle import mutated
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.worlds import Table

_CROSSED = 0.25  # share of the tunables that a child has of its second parent


def greedy(scores: Table, weights: Table, size: int) -> npt.NDArray[np.intp]:
    """Return the candidates of a library: first the best one, then whichever raises the coverage most.

    Of equals the first is taken. So a smaller library is the beginning of a larger one, and coverage never falls.

    Args:
        scores: of the candidates, [draws, candidates].
        weights: of the draws, [draws].
        size: largest number of settings; there are fewer if there are fewer candidates.
    """
    covered = np.full(len(scores), -np.inf)
    chosen: list[int] = []
    for _ in range(min(size, scores.shape[1])):
        means = _weighted_sums(np.maximum(scores, covered[:, None]), weights)
        means[chosen] = -np.inf
        chosen.append(int(means.argmax()))
        covered = np.maximum(covered, scores[:, chosen[-1]])
    return np.array(chosen, np.intp)


def coverage(scores: Table, weights: Table) -> Table:
    """Return the mean score of the best of the first k settings on each draw, for each k: [settings].

    Args:
        scores: of a library's settings in their order, [draws, settings].
        weights: of the draws, [draws].
    """
    best: Table = np.maximum.accumulate(scores, axis=1)
    means: Table = _weighted_sums(best, weights) / weights.sum()
    return means


def _weighted_sums(scores: Table, weights: Table) -> Table:
    """Return the weighted sum of each column; row by row, so that larger scores never give a smaller sum."""
    sums: Table = (weights[:, None] * np.ascontiguousarray(scores)).sum(axis=0)
    return sums


@dataclass(frozen=True, eq=False)
class Candidates:
    """Settings, and their scores on the same draws."""

    settings: NormalisedAction  # [candidates, tunables]
    scores: Table  # [draws, candidates]
    weights: Table  # of the draws, [draws]

    def best(self, size: int) -> Candidates:
        """Return the library of so many settings, see `greedy`."""
        chosen = greedy(self.scores, self.weights, size)
        return Candidates(self.settings[chosen], self.scores[:, chosen], self.weights)

    def beside(self, others: Candidates) -> Candidates:
        """Return these and others, scored on the same draws."""
        settings = np.concatenate([self.settings, others.settings])
        return Candidates(settings, np.concatenate([self.scores, others.scores], axis=1), self.weights)


def children(library: NormalisedAction, generator: np.random.Generator) -> NormalisedAction:
    """Return a child of each setting of a library, [settings, tunables]."""
    others = library[generator.integers(len(library), size=len(library))]
    crossed = np.where(generator.random(library.shape) < _CROSSED, others, library)
    return np.array([mutated(generator, one) for one in crossed], np.float32)
