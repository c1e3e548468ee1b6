# SPDX-License-Identifier: GPL-2.0-only
"""Flows that count in the network's score, tuned or not, of many environments as arrays of one shape."""

from __future__ import annotations

import numpy as np

from bbrgym.envs.episode_spec import EpisodeSpec
from bbrgym.worlds import Flags, Table, VectorWorld
from bbrgym.worlds.score import max_min_shares


class CountedFlows:
    """Rows for F flows in each of N environments, in the order of the world's; some are absent or do not count."""

    def __init__(self, num_envs: int) -> None:
        self._is_counted: Flags = np.zeros((0, num_envs), np.bool_)  # [F, N]
        # two-way propagation delay of the flows, 1 where absent, [F, N]
        self.base_rtt_ms: Table = np.ones((0, num_envs))
        # payload that their applications ask for, infinite without a limit, 0 where absent, [F, N]
        self._demand_mbps: Table = np.zeros((0, num_envs))

    def reserve(self, count: int) -> None:
        """Make room for more flows, which are absent."""
        if count <= len(self._is_counted):
            return
        more = ((0, count - len(self._is_counted)), (0, 0))
        self._is_counted = np.pad(self._is_counted, more)
        self._demand_mbps = np.pad(self._demand_mbps, more)
        self.base_rtt_ms = np.pad(self.base_rtt_ms, more, constant_values=1.0)

    def assign(self, index: int, spec: EpisodeSpec) -> None:
        """Take the flows of another scenario into an environment."""
        for array, values, absent in (
            (self._is_counted, spec.is_counted, False),
            (self.base_rtt_ms, spec.rtt_ms, 1.0),
            (self._demand_mbps, spec.demand_mbps, 0.0),
        ):
            array[: spec.flows, index] = values
            array[spec.flows :, index] = absent

    @property
    def most_share(self) -> Table | None:
        """Largest goodput / fair share that counts, 1 of a limited flow: [F, N]; None without limited flows."""
        is_limited = self._is_limited()
        return np.where(is_limited, 1.0, np.inf) if is_limited.any() else None

    def stats(self, worlds: VectorWorld) -> Table:
        """Return the flows' measurements, 0 of those that do not count, with max-min fair shares: [fields, F, N]."""
        rows = worlds.flow_stats.T
        stats = np.where(self._is_counted, rows, 0.0)
        if self._is_limited().any():
            fair_share = worlds.flow_fields.index("fair_share_mbps")
            is_active = rows[worlds.flow_fields.index("active")] > 0.0
            capacity_mbps = np.nan_to_num(rows[fair_share]).max(axis=0) * is_active.sum(axis=0)
            shares = max_min_shares(capacity_mbps, np.where(is_active, self._demand_mbps, 0.0))
            stats[fair_share] = np.where(self._is_counted, shares, 0.0)
        return stats

    def _is_limited(self) -> Flags:
        return (self._demand_mbps > 0.0) & np.isfinite(self._demand_mbps)
