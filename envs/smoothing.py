# SPDX-License-Identifier: GPL-2.0-only
"""Smoothing of the measurements that rewards are computed from, over more than one interval.

The score of an episode is the logarithm of a mean, a sum of rewards the mean of a logarithm: an interval in which a
flow waits (after a lost packet, in PROBE_RTT) costs far more in the reward than in the score. With means over some
seconds the two agree better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bbrgym.worlds import Table


class ExponentialMeans:
    """Exponential means of the goodput, fair share and RTT of each flow since its episode began.

    An interval t seconds ago has the weight exp(-t / horizon), and 0 if the flow was not active in it; the weight of an
    RTT is multiplied by its number of samples.
    """

    def __init__(self, fields: Sequence[str], horizon_s: float, interval_s: float, shape: tuple[int, int]) -> None:
        self._keep: float | Table = math.exp(-interval_s / horizon_s)
        self._horizon_s = horizon_s
        rates, rtt = ("goodput_mbps", "fair_share_mbps"), "rtt_mean_ms"
        self._averaged = [fields.index(name) for name in (*rates, rtt)]
        self._weights = [fields.index(name) for name in ("active", "active", "rtt_samples")]
        self._active = fields.index("active")
        self._sums = np.zeros((len(self._averaged), *shape))
        self._totals = np.zeros_like(self._sums)

    def set_interval(self, interval_s: Table) -> None:
        """Set the length of the next interval, [N]."""
        self._keep = np.exp(-interval_s / self._horizon_s)

    def reserve(self, count: int) -> None:
        """Make room for more flows, of which nothing has been measured."""
        if count > self._sums.shape[1]:
            more = ((0, 0), (0, count - self._sums.shape[1]), (0, 0))
            self._sums, self._totals = np.pad(self._sums, more), np.pad(self._totals, more)

    def reset(self, indices: Sequence[int]) -> None:
        """Forget the former intervals of environments whose episode begins."""
        self._sums[:, :, indices] = self._totals[:, :, indices] = 0.0

    def update(self, flows: Table) -> Table:
        """Add an interval and return its measurements with the means in place: [fields, L, N] both."""
        weights = flows[self._weights] * (flows[self._active] > 0.0)
        self._sums *= self._keep
        self._sums += flows[self._averaged] * weights
        self._totals *= self._keep
        self._totals += weights
        averaged = flows.copy()
        averaged[self._averaged] = np.divide(
            self._sums, self._totals, out=flows[self._averaged], where=self._totals > 0.0
        )
        return averaged

    def arrays(self) -> list[Table]:
        """Return the sums themselves, the environments first: [N, ...] each."""
        return [np.moveaxis(array, -1, 0) for array in (self._sums, self._totals)]
