# SPDX-License-Identifier: GPL-2.0-only
"""Examples that a selector is fitted on, and the settings of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from bbrgym.schema import Float, Model, Positive, Whole
from bbrgym.worlds import Flags, Table


class FitSettings(Model):
    """Settings of the fit."""

    trees: Annotated[Whole, Field(ge=1, le=10_000)] = 80  # trees, whose predictions are averaged
    leaf_draws: Annotated[Whole, Field(ge=1, le=1_000_000)] = 2  # least number of draws in a leaf of a tree
    # share of the features that each split of a tree chooses from
    split_share: Annotated[Float, Field(gt=0, le=1)] = 1.0
    clip: Positive = 2.0  # largest distance of a score from the mean over the library that counts
    folds: Annotated[Whole, Field(ge=2, le=100)] = 5  # parts of the draws in the cross-validation


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples to fit on, one of each draw."""

    features: Tensor  # of the identifications, [draws, features]
    scores: Table  # of the library's settings, [draws, settings]
    weights: Table  # of the draws, [draws]

    def __len__(self) -> int:
        return len(self.scores)

    def of(self, chosen: Flags) -> Examples:
        """Return some of the draws."""
        kept = torch.from_numpy(chosen)
        return Examples(self.features[kept], self.scores[chosen], self.weights[chosen])

    def folds(self, count: int, seed: int) -> npt.NDArray[np.intp]:
        """Return the fold of each draw in a cross-validation, [draws]."""
        return np.random.default_rng(seed).permutation(len(self)) % count

    def targets(self, clip: float) -> Table:
        """Return what a fit predicts: each score less the mean over the library, clipped, [draws, settings]."""
        targets: Table = (self.scores - self.scores.mean(axis=1, keepdims=True)).clip(-clip, clip)
        return targets
