# SPDX-License-Identifier: GPL-2.0-only
"""Learner flows as arrays of a fixed shape for scenarios that have more or fewer of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.scaling import Coordinates
from bbrgym.errors import ConfigError
from bbrgym.scenario.files import Source, load_scenario, with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Table, VectorWorld

Flags = NDArray[np.bool_]
Times = NDArray[np.int64]


def to_ns(seconds: Sequence[float] | Table) -> Times:
    """As the worlds round it."""
    return np.floor(np.asarray(seconds, np.float64) * 1e9 + 0.5).astype(np.int64)


@dataclass
class EpisodeSpec:
    """A scenario as an environment runs it.

    Attributes:
        scenario: with the variant in its learner flows.
        learners: their indices among the flows.
        names: theirs.
        base_rtt_ms: propagation both ways, of each.
        start_ns, stop_ns: when each starts and stops.
        flows: how many there are in all.
        start: values and actions that each learner flow starts with, [learners, tunables], once it has been started.
    """

    scenario: Scenario
    learners: NDArray[np.intp]
    names: tuple[str, ...]
    base_rtt_ms: Table
    start_ns: Times
    stop_ns: Times
    flows: int
    start: tuple[Table, Coordinates] | None = None

    @classmethod
    def of(cls, source: Source, variant: str) -> EpisodeSpec:
        """A scenario with a variant in its learner flows.

        Raises:
            ScenarioError, ConfigError: it cannot be read, or has no learner flow.
        """
        scenario = with_variant(load_scenario(source), variant)
        flows = scenario.resolved().flows
        of_learners = {index: flow for index, flow in enumerate(flows) if flow.role == "learner"}
        if not of_learners:
            raise ConfigError(f"scenario {scenario.name!r} has no flow with role learner: nothing would be controlled")
        stops_s = [scenario.duration_s if flow.stop_s is None else flow.stop_s for flow in of_learners.values()]
        return cls(
            scenario,
            learners=np.array(list(of_learners), np.intp),
            names=tuple(flow.name for flow in of_learners.values()),
            base_rtt_ms=np.array([flow.rtt_ms for flow in of_learners.values()]),
            start_ns=to_ns([flow.start_s for flow in of_learners.values()]),
            stop_ns=to_ns(stops_s),
            flows=len(flows),
        )


class Learners:
    """L learners in each of N environments; a scenario's learner flows fill the first ones, the others are absent.

    Args:
        num_envs: N.
        count: L.
        columns: of the tunables that are set, in the worlds' tables of tunables.

    Attributes:
        count: L.
        is_there: which slots have a flow, [L, N].
        is_full: whether all have.
        base_rtt_ms: propagation both ways of the flows, 1 of absent ones: [L, N].
        start_ns, stop_ns: when the flows start and stop, 0 of absent ones: [L, N].
    """

    def __init__(self, num_envs: int, count: int, columns: Sequence[int]) -> None:
        self.count = count
        self.is_there: Flags = np.ones((count, num_envs), np.bool_)
        self.is_full = True
        self.base_rtt_ms: Table = np.ones((count, num_envs))
        self.start_ns: Times = np.zeros((count, num_envs), np.int64)
        self.stop_ns: Times = np.zeros((count, num_envs), np.int64)
        self._columns = np.array(columns, np.intp)
        self._flows = np.zeros((num_envs, count), np.intp)  # an absent slot has the first one's
        self._rows = np.zeros((count, num_envs), np.intp)  # of the flows, in flow_stats
        self._cells = np.zeros((num_envs, count, len(columns)), np.intp)  # of their tunables, in all tunables

    def take(self, index: int, course: EpisodeSpec, worlds: VectorWorld) -> None:
        """An environment has another scenario."""
        learners = len(course.learners)
        self.is_there[:, index] = np.arange(self.count) < learners
        self.is_full = bool(self.is_there.all())
        for ours, its, absent in (
            (self.base_rtt_ms, course.base_rtt_ms, 1),
            (self.start_ns, course.start_ns, 0),
            (self.stop_ns, course.stop_ns, 0),
        ):
            ours[:learners, index] = its
            ours[learners:, index] = absent
        self._flows[index, :learners] = course.learners
        self._flows[index, learners:] = course.learners[0]
        self.find(worlds, slice(index, index + 1))

    def find(self, worlds: VectorWorld, envs: slice = slice(None)) -> None:
        """Where some environments' learner flows are in the worlds' arrays."""
        rows = self._flows[envs] + worlds.flow_capacity * np.arange(len(self._flows))[envs, None]
        self._rows[:, envs] = rows.T
        self._cells[envs] = (rows * len(worlds.tunable_names))[:, :, None] + self._columns

    def stats(self, worlds: VectorWorld, indices: Sequence[int] | None = None) -> Table:
        """Measurements of (some of) the environments' slots, 0 of absent ones: [fields, L * environments].

        All first slots come first, then all second ones, and so on.
        """
        rows = self._rows if indices is None else self._rows[:, indices]
        stats = worlds.flow_stats
        by_flow: Table = stats.reshape(-1, stats.shape[-1]).take(rows.ravel(), axis=0)
        if not self.is_full:
            is_there = self.is_there if indices is None else self.is_there[:, indices]
            by_flow[~is_there.ravel()] = 0.0
        return np.ascontiguousarray(by_flow.T)

    def there(self, indices: Sequence[int] | None = None) -> Flags | None:
        """Which slots of (some of) the environments have a flow, [L, environments]; None if all have."""
        if self.is_full:
            return None
        return self.is_there if indices is None else self.is_there[:, indices]

    def values(self, worlds: VectorWorld, index: int, course: EpisodeSpec) -> Table:
        """The tunables of an environment's learner flows as they are: [learners, tunables]."""
        values: Table = worlds.tunables[index, course.learners][:, self._columns]
        return values

    def write(self, worlds: VectorWorld, values: Table) -> None:
        """Sets the tunables of all learner flows, of each environment's to the same: [N, tunables]."""
        every = np.repeat(values, self.count, axis=0) if self.count > 1 else values
        worlds.tunables.reshape(-1)[self._cells.reshape(-1)] = every.reshape(-1)

    def write_each(self, worlds: VectorWorld, values: Table) -> None:
        """Sets the tunables of each learner flow: [N, L, tunables]; those of absent ones are left aside."""
        if not self.is_full:
            values = np.where(self.is_there.T[:, :, None], values, values[:, :1])  # where their cells are
        worlds.tunables.reshape(-1)[self._cells.reshape(-1)] = values.reshape(-1)
