# SPDX-License-Identifier: GPL-2.0-only
"""Selector: from the features of a probe to the score of each setting of the library; what it is fitted on, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from bbrgym.agents.layers import refuse_large
from bbrgym.schema import Float, List, Model, Positive, Whole
from bbrgym.worlds import Flags, Table


class FitSettings(Model):
    """Settings of the fit.

    Attributes:
        model: what is fitted.
        hidden: layers of each network.
        members: networks, whose predictions are averaged.
        epochs: passes over the draws.
        batch_size: draws of a step of the gradient.
        learning_rate: at the beginning; it falls to 0 along a cosine.
        weight_decay: of AdamW.
        dropout: share of the features that a network does not see in a step.
        trees: trees, whose predictions are averaged.
        leaf_draws: least number of draws in a leaf of a tree.
        split_share: share of the features that each split of a tree chooses from.
        clip: largest distance of a score from the mean over the library that counts.
        folds: parts of the draws in the cross-validation.
    """

    model: Literal["networks", "trees"] = "networks"
    hidden: Annotated[List[Annotated[Whole, Field(ge=1, le=4096)]], Field(max_length=8)] = (64, 64)
    members: Annotated[Whole, Field(ge=1, le=100)] = 5
    epochs: Annotated[Whole, Field(ge=1, le=100_000)] = 60
    batch_size: Annotated[Whole, Field(ge=1, le=1_000_000)] = 128
    learning_rate: Annotated[Float, Field(gt=0, le=1)] = 2e-3
    weight_decay: Annotated[Float, Field(ge=0, le=100)] = 1.0
    dropout: Annotated[Float, Field(ge=0, lt=1)] = 0.1
    trees: Annotated[Whole, Field(ge=1, le=10_000)] = 80
    leaf_draws: Annotated[Whole, Field(ge=1, le=1_000_000)] = 2
    split_share: Annotated[Float, Field(gt=0, le=1)] = 1.0
    clip: Positive = 2.0
    folds: Annotated[Whole, Field(ge=2, le=100)] = 5

    @model_validator(mode="after")
    def _refuse_large(self) -> FitSettings:
        refuse_large("hidden", self.hidden, self.members)
        return self


@dataclass(frozen=True, eq=False)
class Examples:
    """Probes to fit on: one of each draw, or one of each of its flows.

    Attributes:
        features: of the probes, [probes, features].
        scores: of the library's settings, [probes, settings].
        weights: of the probes, [probes].
        draws: number of each probe's draw, [probes].
    """

    features: Tensor
    scores: Table
    weights: Table
    draws: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.scores)

    def of(self, chosen: Flags) -> Examples:
        """Return some of the probes."""
        kept = torch.from_numpy(chosen)
        return Examples(self.features[kept], self.scores[chosen], self.weights[chosen], self.draws[chosen])

    def folds(self, count: int, seed: int) -> npt.NDArray[np.intp]:
        """Return the fold of each probe in a cross-validation, [probes]; that of all probes of a draw is the same."""
        numbers, places = np.unique(self.draws, return_inverse=True)
        return fold_of(len(numbers), count, seed)[places]

    def targets(self, clip: float) -> Table:
        """Return what a fit predicts: each score less the mean over the library, clipped, [probes, settings]."""
        targets: Table = (self.scores - self.scores.mean(axis=1, keepdims=True)).clip(-clip, clip)
        return targets


class Selector(nn.Module):
    """Predicts the score of each setting less their mean: features [N, features] -> [N, settings]."""

    def choices(self, features: Tensor) -> npt.NDArray[np.intp]:
        """Return the setting with the highest prediction, [N]."""
        with torch.no_grad():
            chosen: npt.NDArray[np.intp] = self.eval()(features).argmax(-1).numpy()
        return chosen


def fold_of(draws: int, folds: int, seed: int) -> npt.NDArray[np.intp]:
    """Return the fold of each draw in a cross-validation, [draws]."""
    return np.random.default_rng(seed).permutation(draws) % folds
