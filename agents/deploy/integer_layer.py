# SPDX-License-Identifier: GPL-2.0-only
"""Layers of networks in integer arithmetic: weights of 16 bits, sums of 64, outputs in Q16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bbrgym.agents.deploy.integer_tables import Integers, tanh

MAX_OUTPUT = (1 << 31) - 1

Activation = Literal["none", "relu", "tanh"]


@dataclass(frozen=True)
class IntegerLayer:
    """Layer of a network: ``activation((weights x + biases) / 2^shift)``.

    Attributes:
        weights: int16 values, [outputs, inputs / groups].
        biases: [outputs].
        shift: digits of the weights behind the point.
        activation: function of the outputs.
        groups: equal parts of the inputs, each of which makes such a part of the outputs.
    """

    weights: Integers
    biases: Integers
    shift: int
    activation: Activation
    groups: int = 1

    @property
    def inputs(self) -> int:
        """Return the number of inputs."""
        return int(self.weights.shape[1]) * self.groups

    def outputs(self, inputs: Integers) -> Integers:
        """Return the outputs, [N, outputs], of inputs, [N, inputs], both Q16."""
        parts = zip(np.split(inputs, self.groups, axis=1), np.split(self.weights, self.groups), strict=True)
        sums = np.concatenate([part @ weights.T for part, weights in parts], axis=1) + self.biases
        rounded: Integers = np.clip((sums + (1 << (self.shift - 1))) >> self.shift, -MAX_OUTPUT, MAX_OUTPUT)
        if self.activation == "tanh":
            return tanh(rounded)
        return np.maximum(rounded, 0) if self.activation == "relu" else rounded
