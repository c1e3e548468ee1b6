# SPDX-License-Identifier: GPL-2.0-only
"""Examples of what was observed of draws, and of what each setting is worth there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bbrgym.worlds import Flags, Table

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples to fit on: one of each controller of each draw, all tuned flows' or each flow's own."""

    features: Tensor  # of the identifications, [examples, features]
    scores: Table  # of the library's settings in the example's draw, [examples, settings]
    weights: Table  # of the draws, divided among their examples, [examples]
    draws: Indices  # number of each example's draw, from 0 on, [examples]

    def __len__(self) -> int:
        return len(self.scores)

    def of(self, chosen: Flags) -> Examples:
        """Return some of the draws."""
        kept = torch.from_numpy(chosen)
        return Examples(self.features[kept], self.scores[chosen], self.weights[chosen], self.draws[chosen])

    def folds(self, count: int, seed: int) -> Indices:
        """Return the fold of each example in a cross-validation, [examples]: examples of one draw share a fold."""
        of_draws = np.random.default_rng(seed).permutation(int(self.draws.max()) + 1) % count
        folds: Indices = of_draws[self.draws]
        return folds

    def gains_over(self, chosen: Indices, others: Indices) -> Table:
        """Return the scores of chosen settings less those of others, [examples]."""
        every = np.arange(len(self))
        gains: Table = self.scores[every, chosen] - self.scores[every, others]
        return gains

    def targets(self, clip: float) -> Table:
        """Return what a fit predicts: each score less the mean over the library, clipped, [draws, settings]."""
        targets: Table = (self.scores - self.scores.mean(axis=1, keepdims=True)).clip(-clip, clip)
        return targets


def joined(parts: Sequence[Examples]) -> Examples:
    """Return the examples of all parts, whose draws differ."""
    firsts = np.cumsum([0, *(int(part.draws.max()) + 1 for part in parts[:-1])])
    return Examples(
        torch.cat([part.features for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.draws + first for part, first in zip(parts, firsts, strict=True)]),
    )
