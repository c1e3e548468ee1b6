# SPDX-License-Identifier: GPL-2.0-only
"""Stage `fit`: networks from the features of a probe to the score of each setting of the library."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn

from bbrgym.schema import Float, List, Model, Whole
from bbrgym.worlds import Table

_LEAST_STD = 1e-3  # a feature that hardly varies is not blown up to the size of the others

Flags = npt.NDArray[np.bool_]


class FitSettings(Model):
    """Settings of the fit.

    Attributes:
        hidden: layers of each network.
        members: networks, whose predictions are averaged.
        epochs: passes over the draws.
        batch_size: draws of a step of the gradient.
        learning_rate: at the beginning; it falls to 0 along a cosine.
        weight_decay: of AdamW.
        dropout: share of the features that a network does not see in a step.
        clip: largest distance of a score from the mean over the library that counts.
        folds: parts of the draws in the cross-validation.
    """

    hidden: Annotated[List[Annotated[Whole, Field(ge=1, le=4096)]], Field(max_length=8)] = (64, 64)
    members: Annotated[Whole, Field(ge=1, le=100)] = 5
    epochs: Annotated[Whole, Field(ge=1, le=100_000)] = 60
    batch_size: Annotated[Whole, Field(ge=1, le=1_000_000)] = 128
    learning_rate: Annotated[Float, Field(gt=0, le=1)] = 2e-3
    weight_decay: Annotated[Float, Field(ge=0, le=100)] = 1.0
    dropout: Annotated[Float, Field(ge=0, lt=1)] = 0.1
    clip: Annotated[Float, Field(gt=0)] = 2.0
    folds: Annotated[Whole, Field(ge=2, le=100)] = 5


@dataclass(frozen=True, eq=False)
class Examples:
    """Draws to fit on.

    Attributes:
        features: of the probes, [draws, features].
        scores: of the library's settings, [draws, settings].
        weights: of the draws, [draws].
    """

    features: Tensor
    scores: Table
    weights: Table

    def __len__(self) -> int:
        return len(self.scores)

    def of(self, chosen: Flags) -> Examples:
        """Return some of the draws."""
        return Examples(self.features[torch.from_numpy(chosen)], self.scores[chosen], self.weights[chosen])


class Selector(nn.Module):
    """Predicts the score of each setting less their mean: features [N, features] -> [N, settings].

    Args:
        features: number of features.
        settings: number of settings.
        fit: layers and number of networks.
    """

    def __init__(self, features: int, settings: int, fit: FitSettings) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))
        self.members = nn.ModuleList(_layers(features, settings, fit) for _ in range(fit.members))

    def forward(self, features: Tensor) -> Tensor:
        scaled = self.scaled(features)
        return torch.stack([member(scaled) for member in self.members]).mean(0)

    def scaled(self, features: Tensor) -> Tensor:
        """Return what the networks are given: the features less their mean, in standard deviations up to 5."""
        return ((features - self.mean) / self.std).clamp(-5.0, 5.0)

    def choices(self, features: Tensor) -> npt.NDArray[np.intp]:
        """Return the setting with the highest prediction, [N]."""
        with torch.no_grad():
            chosen: npt.NDArray[np.intp] = self.eval()(features).argmax(-1).numpy()
        return chosen


def _layers(features: int, settings: int, fit: FitSettings) -> nn.Sequential:
    widths = [features, *fit.hidden]
    layers: list[nn.Module] = [nn.Dropout(fit.dropout)]
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], settings))


def fitted(examples: Examples, fit: FitSettings, seed: int) -> Selector:
    """Fit a selector to clipped scores by weighted least squares.

    Args:
        examples: draws to fit on.
        fit: settings.
        seed: of the first weights and the order of the draws.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        selector = Selector(examples.features.shape[1], examples.scores.shape[1], fit)
        weights = torch.from_numpy(examples.weights / examples.weights.mean()).float()
        mean = (examples.features * weights[:, None]).mean(0)
        variance = ((examples.features - mean) ** 2 * weights[:, None]).mean(0)
        selector.mean.copy_(mean)
        selector.std.copy_(variance.sqrt().clamp(min=_LEAST_STD))
        centred = examples.scores - examples.scores.mean(axis=1, keepdims=True)
        targets = torch.from_numpy(centred).float().clamp(-fit.clip, fit.clip)
        for member in selector.members:
            _fit_member(selector, member, examples.features, targets, weights, fit)
    return selector.eval()


def _fit_member(
    selector: Selector, member: nn.Module, features: Tensor, targets: Tensor, weights: Tensor, fit: FitSettings
) -> None:
    scaled = selector.scaled(features)
    steps = fit.epochs * -(-len(features) // fit.batch_size)
    optimiser = torch.optim.AdamW(member.parameters(), lr=fit.learning_rate, weight_decay=fit.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    member.train()
    for _ in range(fit.epochs):
        for chosen in torch.split(torch.randperm(len(features)), fit.batch_size):
            errors = (member(scaled[chosen]) - targets[chosen]).square().mean(1)
            loss = (errors * weights[chosen]).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()


# ---- cross-validation ---------------------------------------------------------------------------------


def fold_of(draws: int, folds: int, seed: int) -> npt.NDArray[np.intp]:
    """Return the fold of each draw, [draws]."""
    return np.random.default_rng(seed).permutation(draws) % folds


def held_out(examples: Examples, fit: FitSettings, seed: int) -> Iterator[tuple[Flags, Selector]]:
    """Yield, for each fold, the draws in it and a selector fitted on all others."""
    folds = fold_of(len(examples), fit.folds, seed)
    for fold in range(min(fit.folds, len(examples))):
        is_held_out = folds == fold
        yield is_held_out, fitted(examples.of(~is_held_out), fit, seed)
