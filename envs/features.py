# SPDX-License-Identifier: GPL-2.0-only
"""Features of observations: measured fields, each scaled to [0, 1].

A field x, or what is remembered of fields (`bbrgym.envs.memory`), divided by another one where the feature has one, is
clipped to its range and mapped to [0, 1]:

    linear   (x - low) / (high - low)
    log      log(x / low) / log(high / low)
    within   1 where low <= x <= high, else 0

A value that is not known yet (a divisor of 0, or 0 on the log scale) gives 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.memory import Remembered
from bbrgym.envs.row_sums import sum_rows
from bbrgym.errors import ConfigError
from bbrgym.worlds import Table

Observation = NDArray[np.float32]
View: TypeAlias = Literal["each", "pooled"]

ObsType: TypeAlias = Observation | dict[str, Observation]
"""Observation; or the observations of the actor and of the critic, by the names `actor` and `critic`."""


def observation_at(observations: ObsType, index: int) -> ObsType:
    """Return the observation of one of many environments."""
    if isinstance(observations, dict):
        return {name: each[index] for name, each in observations.items()}
    one: Observation = observations[index]
    return one


@dataclass(frozen=True)
class Feature:
    """Number of an observation."""

    name: str  # unique name
    field: str | Remembered  # field of the world's measurements, or what is remembered of fields
    unit: str  # unit before normalisation
    scale: Literal["linear", "log", "within"]  # normaliser, see above
    low: float  # value that gives 0, in the unit (`within`: the smallest value that gives 1)
    high: float  # value that gives 1, in the unit (`within`: the largest value that gives 1)
    per: str | Remembered | None  # field, or what is remembered of fields, to divide by; None without one
    meaning: str  # description in one line

    def __post_init__(self) -> None:
        expected = {"linear": "low < high", "log": "0 < low < high", "within": "low <= high"}[self.scale]
        is_range = self.low <= self.high if self.scale == "within" else self.low < self.high
        if not is_range or (self.scale == "log" and self.low <= 0):
            raise ValueError(f"feature {self.name}: low {self.low:g}, high {self.high:g}, expected {expected}")

    @property
    def memory_terms(self) -> tuple[Remembered, ...]:
        """Running statistics that the feature needs."""
        return tuple(each for each in (self.field, self.per) if isinstance(each, Remembered))

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the fields of the world's measurements that the feature is computed from."""
        operands = [each for each in (self.field, self.per) if each is not None]
        return tuple(name for each in operands for name in (each.fields if isinstance(each, Remembered) else (each,)))


class Normaliser:
    """Mapping from measurements to features, of many columns at once as of each alone, bit for bit."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)
        self._fields: Sequence[str] = ()
        self._sort()

    def numbers(self, fields: Sequence[str], table: Table) -> Observation:
        """Return the features of measurements: [features, columns].

        Args:
            fields: names of the measurements, and of what is remembered of them.
            table: measurements, [fields, columns].
        """
        if fields is not self._fields:
            self._find(fields)
        x, divisor = table.take(self._rows, axis=0), table.take(self._divisors, axis=0)
        x[self._divided] /= np.where(divisor > 0.0, divisor, np.inf)
        part = np.empty(x.shape, np.float32)
        log, linear, within = x[self._log], x[self._linear], x[self._within]
        log /= self._low[self._log]
        np.log(np.maximum(log, 1.0, out=log), out=log)
        log *= self._per_log
        np.minimum(log, 1.0, out=part[self._log], casting="same_kind")
        linear -= self._low[self._linear]
        linear *= self._per_linear
        np.minimum(np.maximum(linear, 0.0, out=linear), 1.0, out=part[self._linear], casting="same_kind")
        part[self._within] = (self._low[self._within] <= within) & (within <= self._high[self._within])
        numbers: Observation = part.take(self._as_asked, axis=0)
        return numbers

    def _find(self, fields: Sequence[str]) -> None:
        self._fields = fields
        self._rows = np.array([fields.index(str(feature.field)) for feature in self._sorted], np.intp)
        divisors = [fields.index(str(feature.per)) for feature in self._sorted if feature.per is not None]
        self._divisors = np.array(divisors, np.intp)

    def _sort(self) -> None:
        """Group the features by computation: log, log of ratios, linear ratios, linear, within."""
        kinds = [("log", False), ("log", True), ("linear", True), ("linear", False), ("within", False)]
        of_kind = [
            [feature for feature in self.features if (feature.scale, feature.per is not None) == kind] for kind in kinds
        ]
        self._sorted = [feature for features in of_kind for feature in features]
        self._as_asked = np.array([self._sorted.index(feature) for feature in self.features], np.intp)
        ends = np.cumsum([len(features) for features in of_kind]).tolist()
        self._log, self._divided = slice(0, ends[1]), slice(ends[0], ends[2])
        self._linear, self._within = slice(ends[1], ends[3]), slice(ends[3], ends[4])
        self._low = np.array([[feature.low] for feature in self._sorted]).reshape(-1, 1)
        self._high = np.array([[feature.high] for feature in self._sorted]).reshape(-1, 1)
        self._per_log = 1.0 / np.log(self._high[self._log] / self._low[self._log])
        self._per_linear = 1.0 / (self._high[self._linear] - self._low[self._linear])


class FlowFeatures:
    """Features of the tuned flows of N environments, side by side or pooled.

    ::

        each:      features of flow 0, features of flow 1, ...; 0 for absent flows
        pooled:    mean, minimum and maximum of each feature over the active tuned flows (0 without one),
                   fraction of `flows` that is active

    Pooled features depend neither on the order of the flows nor, but for the last number, on `flows`.

    Raises:
        ConfigError: there is no such view.
    """

    def __init__(self, features: Sequence[Feature], flows: int, view: str = "each") -> None:
        if view not in get_args(View):
            raise ConfigError(f"view: {view!r}, allowed are {' and '.join(get_args(View))}")
        self._normaliser = Normaliser(features)
        self._features = len(features)
        self._flows = flows
        self._is_pooled = view == "pooled"
        own = [feature.name for feature in features]
        # of the numbers of an environment: ``FEATURE`` of one flow, ``FEATURE[FLOW]`` of several; ``mean FEATURE``,
        # ``min FEATURE``, ``max FEATURE`` and ``active share`` if pooled
        self.names = (
            (*_pooled_names(own), "active share")
            if self._is_pooled
            else tuple(f"{name}[{flow}]" if flows > 1 else name for flow in range(flows) for name in own)
        )
        self.width = len(self.names)  # number of numbers of an environment

    def write(
        self, view: Observation, fields: Sequence[str], flows: Table, is_present: NDArray[np.bool_] | None = None
    ) -> None:
        """Write the numbers of N environments into an array.

        Args:
            view: array to write to, [N, width].
            fields: names of the measurements.
            flows: measurements, [fields, flows * N]: those of the first tuned flow of all environments, then of the
                second one, and so on; 0 for absent flows.
            is_present: flows that are not absent, [flows, N]. Default: all.
        """
        n = len(view)
        by_flow = self._normaliser.numbers(fields, flows).reshape(self._features, self._flows, n)
        if self._is_pooled:
            is_active = flows[fields.index("active")].reshape(self._flows, n) > 0.0
            view[:] = _pooled(by_flow, is_active).T
            return
        if is_present is not None:
            by_flow *= is_present
        view.reshape(n, self._flows, self._features)[:] = by_flow.transpose(2, 1, 0)


def _pooled_names(own: Sequence[str]) -> list[str]:
    return [f"{how} {name}" for how in ("mean", "min", "max") for name in own]


def _pooled(by_flow: Observation, is_active: NDArray[np.bool_]) -> Table:
    """Return mean, minimum and maximum of each feature over active flows, 0 without one, and the active fraction.

    Args:
        by_flow: [features, flows, N], each from 0 to 1.
        is_active: [flows, N].
    """
    count = sum_rows(is_active)
    is_any = count > 0.0
    mean = sum_rows((by_flow * is_active).transpose(1, 0, 2)) / np.maximum(count, 1.0)
    smallest = np.where(is_active, by_flow, 1.0).min(axis=1) * is_any
    largest = np.where(is_active, by_flow, 0.0).max(axis=1)
    return np.concatenate([mean, smallest, largest, count[None] / len(is_active)])
