# SPDX-License-Identifier: GPL-2.0-only
"""Selector: some small networks, from an identification's features to the score of each setting of the library."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

_FURTHEST = 5.0  # standard deviations from the mean, beyond which features count as alike


class Selector(nn.Module):
    """Predicts the score of each setting less the mean of all: features [N, features] -> [N, settings].

    It is the mean of some networks' predictions, each of which has rectified linear units between its layers.

    Args:
        tables: `mean` and `deviation` of the features, [features]; of layer i, from 0 on, `weights_i`
            [networks, inputs, outputs] and `biases_i` [networks, 1, outputs].
    """

    def __init__(self, tables: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.mean: Tensor
        self.deviation: Tensor
        for name, table in tables.items():
            self.register_buffer(name, table)
        self._count = len(tables) // 2 - 1

    @property
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Return the weights and biases of each layer."""
        return [(getattr(self, f"weights_{place}"), getattr(self, f"biases_{place}")) for place in range(self._count)]

    def forward(self, features: Tensor) -> Tensor:
        return layered(self.inputs(features), self.layers).mean(0)

    def inputs(self, features: Tensor) -> Tensor:
        """Return what the first layers have as inputs, the features standardised, [N, features]."""
        return ((features - self.mean) / self.deviation).clamp(-_FURTHEST, _FURTHEST)


def layered(inputs: Tensor, layers: list[tuple[Tensor, Tensor]], dropout: float = 0.0) -> Tensor:
    """Return the outputs of networks with these weights and biases, [networks, N, outputs].

    Args:
        inputs: of all networks, [N, inputs], or of each, [networks, N, inputs].
        layers: weights and biases of each layer, the last one behind the last unit.
        dropout: share of a layer's outputs that count as 0, in training. Default: none.
    """
    values = inputs.expand(len(layers[0][0]), *inputs.shape[-2:])
    for weights, biases in layers[:-1]:
        values = torch.relu(torch.baddbmm(biases, values, weights))
        if dropout:
            values = nn.functional.dropout(values, dropout)
    return torch.baddbmm(layers[-1][1], values, layers[-1][0])


def choices(selector: Selector, features: Tensor) -> npt.NDArray[np.intp]:
    """Return the setting with the highest prediction, [N]."""
    with torch.no_grad():
        chosen: npt.NDArray[np.intp] = selector.eval()(features).argmax(-1).numpy()
    return chosen
