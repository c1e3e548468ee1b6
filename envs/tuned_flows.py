# SPDX-License-Identifier: GPL-2.0-only
"""Tuned flows of many environments as arrays of one shape, whatever the number of flows in each scenario."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bbrgym.envs.episode_spec import EpisodeSpec, Times
from bbrgym.worlds import Flags, Table, VectorWorld


class TunedFlows:
    """Places for L tuned flows in each of N environments.

    A scenario's tuned flows fill the first places; the other places are absent.
    """

    def __init__(self, num_envs: int, count: int, columns: Sequence[int]) -> None:
        self.count = count
        self.is_present: Flags = np.ones((count, num_envs), np.bool_)  # places that hold a flow, [L, N]
        self.is_full = True  # whether all places hold a flow
        # two-way propagation delay of the flows, 1 where absent, [L, N]
        self.base_rtt_ms: Table = np.ones((count, num_envs))
        # start and stop times of the flows, 0 where absent, [L, N]
        self.start_ns: Times = np.zeros((count, num_envs), np.int64)
        self.stop_ns: Times = np.zeros((count, num_envs), np.int64)
        self._columns = np.array(columns, np.intp)
        self._flows = np.zeros((num_envs, count), np.intp)  # index of each flow; an absent one has that of the first
        self._rows = np.zeros((count, num_envs), np.intp)  # of the flows in the flattened flow_stats
        self._cells = np.zeros((num_envs, count, len(columns)), np.intp)  # of their tunables in the flattened tunables

    def assign(self, index: int, spec: EpisodeSpec, worlds: VectorWorld) -> None:
        """Take the tuned flows of another scenario into an environment."""
        tuned = len(spec.tuned)
        self.is_present[:, index] = np.arange(self.count) < tuned
        self.is_full = bool(self.is_present.all())
        for array, values, absent in (
            (self.base_rtt_ms, spec.base_rtt_ms, 1),
            (self.start_ns, spec.start_ns, 0),
            (self.stop_ns, spec.stop_ns, 0),
        ):
            array[:tuned, index] = values
            array[tuned:, index] = absent
        self._flows[index, :tuned] = spec.tuned
        self._flows[index, tuned:] = spec.tuned[0]
        self.locate(worlds, slice(index, index + 1))

    def locate(self, worlds: VectorWorld, envs: slice = slice(None)) -> None:
        """Find the tuned flows of some environments in the worlds' arrays, after these have been laid out."""
        rows = self._flows[envs] + worlds.flow_capacity * np.arange(len(self._flows))[envs, None]
        self._rows[:, envs] = rows.T
        self._cells[envs] = (rows * len(worlds.tunable_names))[:, :, None] + self._columns

    def stats(self, worlds: VectorWorld, indices: Sequence[int] | None = None) -> Table:
        """Return the measurements of the tuned flows, 0 where absent: [fields, L * environments].

        The first flows of all environments come first, then all second flows, and so on.
        """
        rows = self._rows if indices is None else self._rows[:, indices]
        stats = worlds.flow_stats
        by_flow: Table = stats.reshape(-1, stats.shape[-1]).take(rows.ravel(), axis=0)
        is_present = self.presence(indices)
        if is_present is not None:
            by_flow[~is_present.ravel()] = 0.0
        return np.ascontiguousarray(by_flow.T)

    def presence(self, indices: Sequence[int] | None = None) -> Flags | None:
        """Return the places of some environments (default: all) that hold a flow, [L, environments]; None if all do."""
        if self.is_full:
            return None
        return self.is_present if indices is None else self.is_present[:, indices]

    def values(self, worlds: VectorWorld, index: int, spec: EpisodeSpec) -> Table:
        """Return the current values of the tunables of an environment's tuned flows, [tuned flows, tunables]."""
        values: Table = worlds.tunables[index, spec.tuned][:, self._columns]
        return values

    def set_all(self, worlds: VectorWorld, values: Table) -> None:
        """Set the tunables of the tuned flows, the same in all flows of an environment: [N, tunables]."""
        every = np.repeat(values, self.count, axis=0) if self.count > 1 else values
        worlds.tunables.reshape(-1)[self._cells.reshape(-1)] = every.reshape(-1)

    def set_each(self, worlds: VectorWorld, values: Table) -> None:
        """Set the tunables of each tuned flow: [N, L, tunables]; values of absent flows are ignored."""
        if not self.is_full:
            values = np.where(self.is_present.T[:, :, None], values, values[:, :1])  # their cells are the first flow's
        worlds.tunables.reshape(-1)[self._cells.reshape(-1)] = values.reshape(-1)
