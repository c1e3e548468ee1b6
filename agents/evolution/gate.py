# SPDX-License-Identifier: GPL-2.0-only
"""First guess of a gate: on which features each setting gains over the first one, by ridge regression.

The features are those of flows that hold the first setting: another one may hide what the choice needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bbrgym.worlds import Table

_LARGEST_GAIN = 1.0  # clipped there: a few draws on which a setting fails decide nothing
_RIDGE = 1.0  # in observations
_LEAST_DEVIATION = 1e-3  # of a feature that hardly varies


@dataclass(frozen=True)
class Gate:
    """Linear prediction of gains from standardised features."""

    mean: Table  # of the features, [features]
    deviation: Table
    weights: Table  # of the standardised features, [settings - 1, features]
    bias: Table  # gain at the mean of the features, [settings - 1]


def fit_gate(features: NDArray[np.float32], gains: Table, weights: Table) -> Gate:
    """Fit a gate.

    Args:
        features: of flows, [samples, features].
        gains: of the other settings over the first one in the episode of each sample, [samples, settings - 1].
        weights: of the samples, [samples].
    """
    share = weights / weights.sum()
    mean = share @ features
    deviation = np.maximum(np.sqrt(share @ (features - mean) ** 2), _LEAST_DEVIATION)
    standardised = (features - mean) / deviation
    targets = np.clip(gains, -_LARGEST_GAIN, _LARGEST_GAIN)
    bias = share @ targets
    weighed = standardised * share[:, None]
    ridge = _RIDGE / len(features) * np.eye(features.shape[1])
    slopes = np.linalg.solve(weighed.T @ standardised + ridge, weighed.T @ (targets - bias))
    return Gate(mean, deviation, slopes.T, bias)
