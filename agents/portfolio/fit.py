# SPDX-License-Identifier: GPL-2.0-only
"""Stage `fit`: networks learn side by side, each from another initialisation and order of examples."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from bbrgym.agents.portfolio.examples import Examples
from bbrgym.agents.portfolio.selector import Selector, layered
from bbrgym.schema import Model, NotNegative, Positive, Whole

_HIDDEN = 64  # units of each of two layers
_EPOCHS = 60
_BATCH = 256  # examples
_RATE = 2e-3  # highest learning rate; it rises to it, and falls to nothing
_DROPOUT = 0.1
_DECAY = 1e-3
_LEAST_DEVIATION = 1e-3  # of a feature, which else hardly differs


class FitSettings(Model):
    """Settings of the fit."""

    networks: Annotated[Whole, Field(ge=1, le=100)] = 4  # networks, whose predictions are averaged
    clip: Positive = 2.0  # largest distance of a score from the mean over the library that counts
    # what the library's first setting has besides its predicted score: flows that choose by themselves and do not agree
    # lose, so another setting must promise more
    margin: NotNegative = 0.0
    folds: Annotated[Whole, Field(ge=2, le=100)] = 5  # parts of the draws in the cross-validation


def fitted(examples: Examples, fit: FitSettings, seed: int) -> Selector:
    """Return a selector that predicts clipped scores, see `Examples.targets`."""
    features, weights = examples.features.float(), torch.from_numpy(examples.weights / examples.weights.mean()).float()
    targets = torch.from_numpy(examples.targets(fit.clip)).float()
    deviation, mean = torch.std_mean(features, 0, correction=0)
    tables = {"mean": mean, "deviation": deviation.clamp(min=_LEAST_DEVIATION)}
    inputs = Selector(tables).inputs(features)
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        layers = _beginning(fit.networks, [inputs.shape[1], _HIDDEN, _HIDDEN, targets.shape[1]])
        _learn(layers, inputs, targets, weights)
    layers[-1][1].detach()[..., 0] += fit.margin
    for place, (weight, bias) in enumerate(layers):
        tables |= {f"weights_{place}": weight.detach(), f"biases_{place}": bias.detach()}
    return Selector(tables).eval()


def _beginning(count: int, sizes: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Return random layers of networks, the last one small."""
    layers = []
    for place, (inputs, outputs) in enumerate(itertools.pairwise(sizes), start=2):
        scale = math.sqrt(2.0 / inputs) * (0.3 if place == len(sizes) else 1.0)
        layers.append((torch.randn(count, inputs, outputs) * scale, torch.zeros(count, 1, outputs)))
    return [(weight.requires_grad_(), bias.requires_grad_()) for weight, bias in layers]


def _learn(layers: list[tuple[Tensor, Tensor]], inputs: Tensor, targets: Tensor, weights: Tensor) -> None:
    """Move layers to where the weighted mean of the squared errors is least."""
    count, size = len(layers[0][0]), min(_BATCH, len(inputs))
    weighed, added = ([layer[part] for layer in layers] for part in (0, 1))
    groups: list[dict[str, Any]] = [{"params": weighed, "weight_decay": _DECAY}, {"params": added, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=_RATE)
    batches = len(inputs) // size
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=_EPOCHS * batches + 1)
    for _ in range(_EPOCHS):
        orders = torch.stack([torch.randperm(len(inputs)) for _ in range(count)])
        for first in range(0, batches * size, size):
            batch = orders[:, first : first + size]
            errors = (layered(inputs[batch], layers, _DROPOUT) - targets[batch]).square().mean(2)
            optimiser.zero_grad()
            torch.autograd.backward((weights[batch] * errors).mean(1).sum())
            optimiser.step()
            schedule.step()
