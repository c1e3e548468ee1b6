# SPDX-License-Identifier: GPL-2.0-only
"""Features over the probe: what each number of an observation was, and where it went.

For each number of an interval's observation, the coordinates of the tunables apart:

    mean    over the second half of the probe
    last    mean over the last fifth
    low     smallest
    high    largest
    trend   mean of the last third minus mean of the third before it
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bbrgym.envs.features import View

POOLINGS = ("mean", "least", "most")
"""Poolings of a feature over the flows, in the order of the observation."""

STATISTICS = ("mean", "last", "low", "high", "trend")


class ProbeFeatures(nn.Module):
    """Function from the observations of a probe to its features: [N, intervals, numbers] -> [N, features].

    Args:
        intervals: of the probe.
        numbers: of an interval's observation that count, the first ones.
    """

    def __init__(self, intervals: int, numbers: int) -> None:
        super().__init__()
        self._numbers = numbers
        self._half = intervals // 2
        self._fifth = max(1, intervals // 5)
        self._third = max(1, intervals // 3)
        self._before = slice(max(0, intervals - 2 * self._third), max(1, intervals - self._third))

    @property
    def count(self) -> int:
        """Number of features."""
        return len(STATISTICS) * self._numbers

    def forward(self, history: Tensor) -> Tensor:
        seen = history[:, :, : self._numbers]
        trend = seen[:, -self._third :].mean(1) - seen[:, self._before].mean(1)
        return torch.cat(
            [seen[:, self._half :].mean(1), seen[:, -self._fifth :].mean(1), seen.amin(1), seen.amax(1), trend], dim=1
        )


def number_names(features: Sequence[str], view: View, learners: int) -> list[str]:
    """Return the names of the numbers of an interval's observation, the coordinates of the tunables apart.

    Args:
        features: names of the observation's features.
        view: of the observation.
        learners: largest number of learner flows.
    """
    if view == "pooled":
        return [f"{feature} {pooling}" for pooling in POOLINGS for feature in features] + ["active flows"]
    return [f"{feature} of flow {flow}" for flow in range(learners) for feature in features]


def feature_names(numbers: Sequence[str]) -> list[str]:
    """Return the names of the features of observations with these numbers."""
    return [f"{number}, {statistic}" for statistic in STATISTICS for number in numbers]
