# SPDX-License-Identifier: GPL-2.0-only
"""What the controller sees: fields that a sender knows, each brought to [0, 1].

A field x, divided by another one where the feature says so, is clipped to its range and mapped to [0, 1]:

    linear   (x - low) / (high - low)
    log      log(x / low) / log(high / low)
    within   1 where low <= x <= high, else 0

What is not known yet (a divisor of 0, or 0 under log) gives 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.action import Action
from bbrgym.envs.sums import add_rows
from bbrgym.errors import ConfigError, nearest
from bbrgym.worlds import Table

Observation = NDArray[np.float32]
View: TypeAlias = Literal["each", "pooled"]


@dataclass(frozen=True)
class Feature:
    """One number of the observation.

    Attributes:
        name: unique.
        field: of the world's flow_stats; visible to a sender.
        unit: before normalisation.
        scale: normaliser, see above.
        low: what gives 0 (`within`: the first value that gives 1), in the unit.
        high: what gives 1 (`within`: the last value that gives 1).
        per: the field to divide by, if any; visible to a sender too.
        meaning: one line.
    """

    name: str
    field: str
    unit: str
    scale: Literal["linear", "log", "within"]
    low: float
    high: float
    per: str | None
    meaning: str


# The ranges of rates and windows are those of the networks that the controllers are made for, not of one scenario:
# an observation means the same everywhere.
FEATURES = (
    Feature("active", "active", "bool", "linear", 0, 1, None, "the flow runs"),
    Feature("app_limited", "app_limited", "bool", "linear", 0, 1, None, "the application holds it back"),
    Feature("startup", "phase", "code", "within", 0, 0, None, "in STARTUP"),
    Feature("drain", "phase", "code", "within", 1, 1, None, "in DRAIN"),
    Feature("probe_rtt", "phase", "code", "within", 2, 2, None, "in PROBE_RTT"),
    Feature("probe_up", "phase", "code", "within", 8, 8, None, "in PROBE_BW, sending faster"),
    Feature("probe_down", "phase", "code", "within", 9, 9, None, "in PROBE_BW, sending slower"),
    Feature("cruise", "phase", "code", "within", 10, 15, None, "in PROBE_BW's other phases"),
    Feature("delivery_rate", "delivery_rate_mbps", "Mbit/s", "log", 0.01, 10_000, None, "what arrived"),
    Feature("bw", "bw_mbps", "Mbit/s", "log", 0.01, 10_000, None, "the model's bandwidth"),
    Feature("delivery_of_bw", "delivery_rate_mbps", "ratio", "linear", 0, 2, "bw_mbps", "what arrived of it"),
    Feature("pacing_of_bw", "pacing_mbps", "ratio", "linear", 0, 4, "bw_mbps", "pacing rate / the model's bandwidth"),
    Feature("cwnd", "cwnd_pkts", "pkts", "log", 1, 100_000, None, "congestion window"),
    Feature("in_flight_of_cwnd", "in_flight_pkts", "ratio", "linear", 0, 2, "cwnd_pkts", "how full it is"),
    Feature("min_rtt", "min_rtt_ms", "ms", "log", 0.1, 10_000, None, "the model's minimum RTT"),
    Feature("rtt_mean", "rtt_mean_ms", "ratio", "log", 1, 64, "min_rtt_ms", "mean RTT / minimum RTT"),
    Feature("rtt_p95", "rtt_p95_ms", "ratio", "log", 1, 64, "min_rtt_ms", "95th percentile of RTT / minimum RTT"),
    Feature("rtt_min", "rtt_min_ms", "ratio", "log", 1, 64, "min_rtt_ms", "the interval's smallest RTT / minimum RTT"),
    Feature("srtt", "srtt_ms", "ratio", "log", 1, 64, "min_rtt_ms", "smoothed RTT / minimum RTT"),
    Feature("lost", "lost_pkts", "ratio", "linear", 0, 1, "sent_pkts", "packets marked lost / sent"),
    Feature("retransmitted", "retransmitted_pkts", "ratio", "linear", 0, 1, "sent_pkts", "packets sent again / sent"),
    Feature("rto", "rto_count", "count", "linear", 0, 1, None, "a retransmission timeout happened"),
)
"""Every feature, in the order of the observation."""


class SenderObservation:
    """The observation space: the learner flows' features, then the setting; the last `stack` intervals.

    ::

        oldest interval ... newest interval
        interval:    features, the tunables that the action sets, from [-1, 1] to [0, 1]
          each:      features = flow 0's features, flow 1's features, ...; those of an absent flow are 0
          pooled:    features = means, smallest, largest of each feature over the active learner flows (0 without one),
                                the part of the slots that they are

    What is pooled depends neither on the flows' order nor, but for the last number, on how many the space was made for.

    Before the first intervals the reset's own view stands in their place. What is computed here is computed for N
    environments at once, and for each as if it were alone, bit for bit.

    Args:
        flows: number of slots for learner flows.
        settings: number of tunables that the action sets.
        features: names from `FEATURES`, in the order wanted; all without.
        stack: how many intervals.
        view: `each` or `pooled`.

    Attributes:
        features: the chosen ones.
        stack: how many intervals.
        width: numbers of one interval.
        space: Box(0, 1, (stack * width,), float32); width = flows * features + settings of each, 3 * features + 1 +
            settings pooled.
    """

    def __init__(
        self, flows: int, settings: int, features: Sequence[str] | None = None, stack: int = 1, view: View = "each"
    ) -> None:
        if not isinstance(stack, int) or stack < 1:
            raise ConfigError(f"stack: {stack!r}, allowed is a whole number of intervals from 1")
        if view not in get_args(View):
            raise ConfigError(f"view: {view!r}, allowed are {' and '.join(get_args(View))}")
        known = {feature.name: feature for feature in FEATURES}
        names = tuple(known) if features is None else tuple(features)
        for name in names:
            if name not in known:
                raise ConfigError(f"features: {name!r}: {nearest(name, known)}")
        if len(set(names)) < len(names):
            raise ConfigError(f"features: {list(names)}, allowed is a list without repetition")
        self.features = tuple(known[name] for name in names)
        self.stack = stack
        self._is_pooled = view == "pooled"
        self._numbers = 3 * len(names) + 1 if self._is_pooled else flows * len(names)
        self.width = self._numbers + settings
        self.space = spaces.Box(0.0, 1.0, (stack * self.width,), np.float32)
        self._flows = flows
        self._fields: Sequence[str] = ()
        self._sort()

    def view(
        self, fields: Sequence[str], flows: Table, settings: Action, is_there: NDArray[np.bool_] | None = None
    ) -> Observation:
        """One interval's numbers of each environment: [N, width].

        Args:
            fields: names of the measurements.
            flows: measurements, [fields, flows * N]: those of all first learner flows, of all second ones, and so on;
                0 of absent ones.
            settings: in force, as actions: [N, tunables].
            is_there: which flows are not absent, [flows, N]; none is without.
        """
        n = len(settings)
        view = np.empty((n, self.width), np.float32)
        by_flow = self._by_flow(fields, flows).reshape(len(self.features), self._flows, n)
        if self._is_pooled:
            is_active = flows[fields.index("active")].reshape(self._flows, n) > 0.0
            view[:, : self._numbers] = _pooled(by_flow, is_active).T
        else:
            if is_there is not None:
                by_flow *= is_there
            in_view = view[:, : self._numbers].reshape(n, self._flows, len(self.features))
            in_view[:] = by_flow.transpose(2, 1, 0)
        view[:, self._numbers :] = (settings + 1.0) / 2.0
        return view

    def _by_flow(self, fields: Sequence[str], flows: Table) -> Observation:
        """Each feature of each flow: [features, flows * N]."""
        if fields is not self._fields:
            self._find(fields)
        x, divisor = flows.take(self._rows, axis=0), flows.take(self._divisors, axis=0)
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
        by_flow: Observation = part.take(self._as_asked, axis=0)
        return by_flow

    def _find(self, fields: Sequence[str]) -> None:
        self._fields = fields
        self._rows = np.array([fields.index(feature.field) for feature in self._sorted], np.intp)
        divisors = [fields.index(feature.per) for feature in self._sorted if feature.per is not None]
        self._divisors = np.array(divisors, np.intp)

    def _sort(self) -> None:
        """Puts together what is computed alike: log, log of ratios, linear ratios, linear, within."""
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


def _pooled(by_flow: Observation, is_active: NDArray[np.bool_]) -> Table:
    """Mean, smallest and largest of each feature over active flows, 0 without one; the part of flows that are active.

    Args:
        by_flow: [features, flows, N], each from 0 to 1.
        is_active: [flows, N].
    """
    count = add_rows(is_active)
    is_any = count > 0.0
    mean = add_rows((by_flow * is_active).transpose(1, 0, 2)) / np.maximum(count, 1.0)
    smallest = np.where(is_active, by_flow, 1.0).min(axis=1) * is_any
    largest = np.where(is_active, by_flow, 0.0).max(axis=1)
    return np.concatenate([mean, smallest, largest, count[None] / len(is_active)])


class Stack:
    """The last intervals of N environments, from which their observations are made.

    Args:
        num_envs: N.
        observation: whose views they are.
    """

    def __init__(self, num_envs: int, observation: SenderObservation) -> None:
        self._views = np.zeros((num_envs, observation.stack, observation.width), np.float32)

    def begin(self, indices: Sequence[int], view: Observation) -> None:
        """Environments begin anew: the view, [indices, width], stands for all intervals before it."""
        self._views[indices] = view[:, None]

    def add(self, view: Observation) -> None:
        """An interval has passed in all environments: [N, width]."""
        self._views[:, :-1] = self._views[:, 1:]
        self._views[:, -1] = view

    def observations(self) -> Observation:
        """Of all environments: [N, stack * width], the caller's own."""
        observations: Observation = self._views.reshape(len(self._views), -1).copy()
        return observations
