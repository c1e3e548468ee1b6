# SPDX-License-Identifier: GPL-2.0-only
"""Policy `network`: a layer of tanh that moves some tunables around a fixed setting.

    action   the setting + linear function of the layer, clipped to [-1, 1]

Features are standardised by constants, so that all weights have one scale; `folded` leaves them out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bbrgym.agents.networks import Network, clipped

_WIDTH = 8  # of the layer: with 19 features and 3 tunables 187 numbers to find


class CorrectionsNetwork(nn.Module):
    """Network: observations [N, numbers], episode_starts [N] -> actions [N, tunables].

    Args:
        anchor: setting around which it moves, [tunables].
        places: of the tunables that it moves, 1 in the column of each: [moved, tunables].
        mean: of the features, [features]; an observation begins with these.
        deviation: standard deviation of the features, [features].
    """

    def __init__(self, anchor: Tensor, places: Tensor, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.anchor: Tensor
        self.places: Tensor
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("anchor", anchor.clone())
        self.register_buffer("places", places.clone())
        self.register_buffer("mean", mean.clone())
        self.register_buffer("deviation", deviation.clone())
        self.layer = nn.Parameter(torch.zeros(_WIDTH, len(mean)))
        self.layer_bias = nn.Parameter(torch.zeros(_WIDTH))
        self.head = nn.Parameter(torch.zeros(len(places), _WIDTH))
        self.head_bias = nn.Parameter(torch.zeros(len(places)))

    @classmethod
    def drawn(cls, anchor: Tensor, places: Tensor, mean: Tensor, deviation: Tensor, seed: int) -> CorrectionsNetwork:
        """Return a network with a random layer that moves nothing yet."""
        network = cls(anchor, places, mean, deviation)
        nn.init.normal_(network.layer, std=len(mean) ** -0.5, generator=torch.Generator().manual_seed(seed))
        return network

    def forward(self, observations: Tensor, episode_starts: Tensor) -> tuple[Tensor]:  # noqa: ARG002 - no memory
        features = (observations[:, : len(self.mean)] - self.mean) / self.deviation
        layer = torch.tanh(features @ self.layer.T + self.layer_bias)
        return (clipped(self.anchor + (layer @ self.head.T + self.head_bias) @ self.places),)

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return inputs at the beginning of ``count`` episodes with observations of ``width`` numbers."""
        return torch.zeros(count, width), torch.ones(count)

    @torch.no_grad()
    def folded(self, width: int) -> Network:
        """Return the same function of whole observations, of ``width`` numbers, as layers that can be exported."""
        first, last = nn.Linear(width, _WIDTH), nn.Linear(_WIDTH, len(self.anchor))
        weights = self.layer / self.deviation
        first.weight.zero_()
        first.weight[:, : len(self.mean)] = weights
        first.bias.copy_(self.layer_bias - weights @ self.mean)
        last.weight.copy_(self.places.T @ self.head)
        last.bias.copy_(self.anchor + self.head_bias @ self.places)
        return Network(nn.Sequential(first, nn.Tanh(), last), clipped).requires_grad_(False)
