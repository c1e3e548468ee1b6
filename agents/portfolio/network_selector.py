# SPDX-License-Identifier: GPL-2.0-only
"""Selector of small networks in PyTorch, which can be exported as a C header too."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from bbrgym.agents.portfolio.selector import Examples, FitSettings, Selector

_LEAST_STD = 1e-3  # a feature that hardly varies is not blown up to the size of the others


class NetworkSelector(Selector):
    """Mean of some networks' predictions; see `Selector`.

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


def _layers(features: int, settings: int, fit: FitSettings) -> nn.Sequential:
    widths = [features, *fit.hidden]
    layers: list[nn.Module] = [nn.Dropout(fit.dropout)]
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], settings))


def fitted_networks(examples: Examples, fit: FitSettings, seed: int) -> NetworkSelector:
    """Fit networks by weighted least squares; see `fitted`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        selector = NetworkSelector(examples.features.shape[1], examples.scores.shape[1], fit)
        weights = torch.from_numpy(examples.weights / examples.weights.mean()).float()
        mean = (examples.features * weights[:, None]).mean(0)
        variance = ((examples.features - mean) ** 2 * weights[:, None]).mean(0)
        selector.mean.copy_(mean)
        selector.std.copy_(variance.sqrt().clamp(min=_LEAST_STD))
        targets = torch.from_numpy(examples.targets(fit.clip)).float()
        for member in selector.members:
            _fit_member(selector, member, examples.features, targets, weights, fit)
    return selector


def _fit_member(
    selector: NetworkSelector, member: nn.Module, features: Tensor, targets: Tensor, weights: Tensor, fit: FitSettings
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
