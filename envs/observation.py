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
from typing import Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.action import Action
from bbrgym.errors import ConfigError, nearest
from bbrgym.worlds import Table

Observation = NDArray[np.float32]


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
    """The observation space: of each learner flow its features, then the setting; the last `stack` intervals.

    ::

        oldest interval ... newest interval
        each: flow 0's features, flow 1's features, ..., the tunables that the action sets, from [-1, 1] to [0, 1]

    Before the first intervals the reset's own view stands in their place.

    Args:
        flows: number of learner flows.
        settings: number of tunables that the action sets.
        features: names from `FEATURES`, in the order wanted; all without.
        stack: how many intervals.

    Attributes:
        features: the chosen ones.
        space: Box(0, 1, (stack * (flows * features + settings),), float32).
    """

    def __init__(self, flows: int, settings: int, features: Sequence[str] | None = None, stack: int = 1) -> None:
        if not isinstance(stack, int) or stack < 1:
            raise ConfigError(f"stack: {stack!r}, allowed is a whole number of intervals from 1")
        known = {feature.name: feature for feature in FEATURES}
        names = tuple(known) if features is None else tuple(features)
        for name in names:
            if name not in known:
                raise ConfigError(f"features: {name!r}: {nearest(name, known)}")
        if len(set(names)) < len(names):
            raise ConfigError(f"features: {list(names)}, allowed is a list without repetition")
        self.features = tuple(known[name] for name in names)
        self._flow_numbers = flows * len(names)
        self._stacked = np.zeros((stack, self._flow_numbers + settings), np.float32)
        self.space = spaces.Box(0.0, 1.0, (self._stacked.size,), np.float32)
        self._low = np.array([feature.low for feature in self.features])
        self._high = np.array([feature.high for feature in self.features])
        self._is_log = np.array([feature.scale == "log" for feature in self.features])
        self._is_within = np.array([feature.scale == "within" for feature in self.features])

    def reset(self, flow_fields: Sequence[str], stats: Table, action: Action) -> Observation:
        """The first observation of a run.

        Args:
            flow_fields: the columns of stats.
            stats: of the learner flows, [flows, flow_fields].
            action: the setting in force.
        """
        self._columns = [flow_fields.index(feature.field) for feature in self.features]
        self._divided = [i for i, feature in enumerate(self.features) if feature.per is not None]
        self._divisors = [flow_fields.index(feature.per) for feature in self.features if feature.per is not None]
        self._stacked[:] = self._view(stats, action)
        return self._stacked.flatten()

    def step(self, stats: Table, action: Action) -> Observation:
        """The observation after an interval; arguments as in reset()."""
        self._stacked[:-1] = self._stacked[1:]
        self._stacked[-1] = self._view(stats, action)
        return self._stacked.flatten()

    def _view(self, stats: Table, action: Action) -> NDArray[np.float64]:
        x = stats[:, self._columns]
        divisor = stats[:, self._divisors]
        x[:, self._divided] = np.divide(x[:, self._divided], divisor, out=np.zeros_like(divisor), where=divisor > 0)
        return np.concatenate((self._normalised(x).ravel(), (action + 1.0) / 2.0))

    def _normalised(self, x: Table) -> Table:
        part = np.empty_like(x)
        log, within, linear = self._is_log, self._is_within, ~(self._is_log | self._is_within)
        part[:, linear] = (x[:, linear] - self._low[linear]) / (self._high - self._low)[linear]
        part[:, log] = np.log(np.maximum(x[:, log] / self._low[log], 1.0)) / np.log(self._high[log] / self._low[log])
        part[:, within] = (self._low[within] <= x[:, within]) & (x[:, within] <= self._high[within])
        return np.clip(part, 0.0, 1.0, out=part)
