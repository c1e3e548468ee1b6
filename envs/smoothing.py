# SPDX-License-Identifier: GPL-2.0-only
"""What rewards are paid for when they look further back than an interval.

A run's score takes the logarithm of a mean, a reward the mean of a logarithm: an interval in which a flow waits (a lost
packet, PROBE_RTT) costs far more there than it does in the score. Means over some seconds bring the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bbrgym.worlds import Table


class ExponentialMeans:
    """Exponential means of learner flows' goodput, fair share and RTT since each began.

    An interval t seconds ago weighs exp(-t / horizon), and not at all if the flow was not active in it; an RTT also by
    its number of samples.

    Args:
        fields: rows of the measurements.
        horizon_s: over which the means forget.
        interval_s: between two of them.
        shape: of a measurement, [L, N].
    """

    def __init__(self, fields: Sequence[str], horizon_s: float, interval_s: float, shape: tuple[int, int]) -> None:
        self._keep = math.exp(-interval_s / horizon_s)
        rates, rtt = ("goodput_mbps", "fair_share_mbps"), "rtt_mean_ms"
        self._averaged = [fields.index(name) for name in (*rates, rtt)]
        self._weights = [fields.index(name) for name in ("active", "active", "rtt_samples")]
        self._active = fields.index("active")
        self._sums = np.zeros((len(self._averaged), *shape))
        self._totals = np.zeros_like(self._sums)

    def forget(self, indices: Sequence[int]) -> None:
        """Runs begin anew."""
        self._sums[:, :, indices] = self._totals[:, :, indices] = 0.0

    def add(self, learners: Table) -> Table:
        """Measurements of an interval with means in place of what is averaged: [fields, L, N] both."""
        weights = learners[self._weights] * (learners[self._active] > 0.0)
        self._sums *= self._keep
        self._sums += learners[self._averaged] * weights
        self._totals *= self._keep
        self._totals += weights
        averaged = learners.copy()
        averaged[self._averaged] = np.divide(
            self._sums, self._totals, out=learners[self._averaged], where=self._totals > 0.0
        )
        return averaged
