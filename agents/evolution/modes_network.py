# SPDX-License-Identifier: GPL-2.0-only
"""Rule `modes`: a gate with hysteresis chooses one of a few settings, and a linear term corrects some tunables.

    merit of a mode   linear function of the features, 0 of the first one; the held mode has `hysteresis` besides
    mode              that of the largest merit; the first one where an episode starts
    action            the mode's setting + linear function of the features, clipped to [-1, 1]

Features are standardised by constants, so that all weights have one scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bbrgym.agents.networks import clipped
from bbrgym.worlds import Table

_ALWAYS = 1e6  # merit that no feature outweighs


@dataclass(frozen=True)
class LinearTerms:
    """Linear functions of the observed features, not standardised."""

    weights: Table  # [functions, features]
    biases: Table  # [functions]


class ModesNetwork(nn.Module):
    """The rule: observations [N, numbers], episode_starts [N], mode [1, N, modes] -> actions [N, tunables], mode.

    Its parameters are 0 at first, so it holds the first mode's setting.

    Args:
        anchors: settings of the modes, [modes, tunables].
        places: of the tunables that are corrected, 1 in the column of each: [corrected, tunables].
        mean: of the features, [features]; an observation begins with these.
        deviation: standard deviation of the features, [features].
    """

    inputs = ("observations", "episode_starts", "mode")
    outputs = ("actions", "next_mode")

    def __init__(self, anchors: Tensor, places: Tensor, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        modes, features = len(anchors), len(mean)
        self.anchors: Tensor
        self.mean: Tensor
        self.deviation: Tensor
        self.places: Tensor
        self.register_buffer("anchors", anchors.clone())
        self.register_buffer("mean", mean.clone())
        self.register_buffer("deviation", deviation.clone())
        self.register_buffer("places", places.clone())
        self.merit = nn.Parameter(torch.zeros(modes - 1, features))
        self.merit_bias = nn.Parameter(torch.zeros(modes - 1))
        self.hysteresis = nn.Parameter(torch.zeros(1))
        self.correction = nn.Parameter(torch.zeros(len(places), features))
        self.correction_bias = nn.Parameter(torch.zeros(len(places)))

    def forward(self, observations: Tensor, episode_starts: Tensor, mode: Tensor) -> tuple[Tensor, Tensor]:
        is_first = episode_starts.unsqueeze(-1) > 0
        features = (observations[:, : len(self.mean)] - self.mean) / self.deviation
        features = torch.where(is_first, 0.0, features)  # nothing is measured yet
        first = torch.eye(len(self.anchors))[:1].expand(len(observations), -1)
        held = torch.where(is_first, first, mode[0])
        merits = features @ self.merit.T + self.merit_bias
        merits = torch.cat([torch.zeros_like(features[:, :1]), merits], dim=-1) + self.hysteresis.abs() * held
        chosen = (merits >= merits.amax(-1, keepdim=True)).to(merits.dtype)
        chosen = torch.where(is_first, first, chosen * (chosen.cumsum(-1) <= 1))
        correction = features @ self.correction.T + self.correction_bias
        return clipped(chosen @ self.anchors + correction @ self.places), chosen.unsqueeze(0)

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return inputs at the beginning of ``count`` episodes with observations of ``width`` numbers."""
        return torch.zeros(count, width), torch.ones(count), torch.zeros(1, count, len(self.anchors))

    def terms(self) -> tuple[LinearTerms, LinearTerms]:
        """Return the merits of all modes but the first, and the corrections."""
        return self._linear(self.merit, self.merit_bias), self._linear(self.correction, self.correction_bias)

    def _linear(self, weight: Tensor, bias: Tensor) -> LinearTerms:
        mean, deviation = self.mean.double().numpy(), self.deviation.double().numpy()
        weights = weight.detach().double().numpy() / deviation
        return LinearTerms(weights, bias.detach().double().numpy() - weights @ mean)

    def holding(self, modes: Sequence[int]) -> dict[str, Tensor]:
        """Return parameters of a policy that holds one of some modes after an episode's start, [modes, ...] each."""
        held = torch.eye(len(self.anchors))[list(modes)]
        merits = _ALWAYS * (held - held[:, :1])
        zeros = {name: torch.zeros(len(modes), *one.shape) for name, one in self.named_parameters()}
        return {**zeros, "merit_bias": merits[:, 1:]}


class HeldNetwork(nn.Module):
    """Policy that holds one setting, its parameter: observations [N, numbers], episode_starts [N] -> [N, tunables]."""

    def __init__(self, setting: Tensor) -> None:
        super().__init__()
        self.setting = nn.Parameter(setting.clone())

    def forward(self, observations: Tensor, episode_starts: Tensor) -> tuple[Tensor]:  # noqa: ARG002 - it holds
        return (clipped(self.setting).expand(len(observations), -1),)

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return inputs at the beginning of ``count`` episodes with observations of ``width`` numbers."""
        return torch.zeros(count, width), torch.ones(count)
