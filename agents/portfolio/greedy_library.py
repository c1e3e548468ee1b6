# SPDX-License-Identifier: GPL-2.0-only
"""Stage `library`: the few settings that together cover the draws best, found greedily."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bbrgym.worlds import Table

Indices = npt.NDArray[np.intp]


def greedy(scores: Table, weights: Table, size: int) -> Indices:
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
