# SPDX-License-Identifier: GPL-2.0-only
"""Guard: takes the best fixed setting where the probe's features leave the range of the training.

    distance    mean over the features of how far each lies outside the range that all but 1 % of the training's draws
                have on either side, in standard deviations
    outside     a larger distance than that of a share of the training's draws

A selector says something of every network, also of those that no draw was like. With the guard it is heard only where
its training reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn

from bbrgym.agents.portfolio.selector import Examples
from bbrgym.schema import Float, Model

_TAIL = 0.01  # share of the draws beyond each end of a feature's range
_LEAST_STD = 1e-3


class GuardSettings(Model):
    """Settings of the guard.

    Attributes:
        share: share of the training's draws that are outside.
    """

    share: Annotated[Float, Field(gt=0, lt=1)] = 0.02


class Guard(nn.Module):
    """Tells whether features are outside the training's: [N, features] -> [N], 1 or 0.

    Args:
        features: number of features.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.low: Tensor
        self.high: Tensor
        self.std: Tensor
        self.threshold: Tensor
        self.register_buffer("low", torch.zeros(features))
        self.register_buffer("high", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))
        self.register_buffer("threshold", torch.tensor(torch.inf))

    def forward(self, features: Tensor) -> Tensor:
        return (self.distance(features) > self.threshold).to(features.dtype)

    def distance(self, features: Tensor) -> Tensor:
        """Return how far features are from the training's range, [N]."""
        beyond = (self.low - features).clamp(min=0.0) + (features - self.high).clamp(min=0.0)
        distance: Tensor = (beyond / self.std).mean(1)
        return distance


def fitted_guard(features: Tensor, settings: GuardSettings) -> Guard:
    """Return the guard of a training.

    Args:
        features: of the training's draws, [draws, features].
        settings: of the guard.
    """
    guard = Guard(features.shape[1])
    guard.low.copy_(features.quantile(_TAIL, dim=0))
    guard.high.copy_(features.quantile(1.0 - _TAIL, dim=0))
    guard.std.copy_(features.std(dim=0).clamp(min=_LEAST_STD))
    guard.threshold.copy_(guard.distance(features).quantile(1.0 - settings.share))
    return guard


# ---- price --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GuardPrice:
    """Price of a guard on draws like those of the training.

    Attributes:
        share: of these draws that are outside.
        price: mean score of the choices less that with the guard.
    """

    share: float
    price: float


def guarded(
    examples: Examples, choices: npt.NDArray[np.intp], folds: int, seed: int, settings: GuardSettings
) -> GuardPrice:
    """Return the price of the guard, cross-validated.

    Args:
        examples: the training's draws.
        choices: of selectors that were fitted without the draw, [draws].
        folds: of the cross-validation that made the choices.
        seed: of that.
        settings: of the guard.
    """
    fold, probes = examples.folds(folds, seed), np.arange(len(examples))
    is_outside = np.zeros(len(examples), np.bool_)
    for number in range(fold.max() + 1):
        is_held_out = fold == number
        guard = fitted_guard(examples.of(~is_held_out).features, settings)
        is_outside[is_held_out] = guard(examples.of(is_held_out).features).numpy() > 0
    weights = examples.weights / examples.weights.sum()
    lost = examples.scores[probes, choices] - examples.scores[:, 0]
    return GuardPrice(float(weights @ is_outside), float(weights @ (lost * is_outside)))
