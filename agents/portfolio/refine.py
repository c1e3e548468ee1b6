# SPDX-License-Identifier: GPL-2.0-only
"""Stage `refine`: the best candidates tried on more draws, then children of the library, turn by turn, beside them.

A setting of stage search fits one draw, by chance in most of its tunables. A child is such a setting of the library
with some tunables of another one, and steps away from it; it enters the library if it covers the draws better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bbrgym.agents.oracle import mutated
from bbrgym.agents.portfolio.greedy_library import greedy
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.worlds import Table

_CROSSED = 0.25  # share of the tunables that a child has of its second parent


@dataclass(frozen=True, eq=False)
class Candidates:
    """Settings, and their scores on the same draws."""

    settings: NormalisedAction  # [candidates, tunables]
    scores: Table  # [draws, candidates]
    weights: Table  # of the draws, [draws]

    def best(self, size: int) -> Candidates:
        """Return the library of so many of them, see `greedy`."""
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
