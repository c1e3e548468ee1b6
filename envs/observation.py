# SPDX-License-Identifier: GPL-2.0-only
"""What the controller sees: features that a sender knows (`bbrgym.envs.features`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.features import Feature, FlowFeatures, Observation, View
from bbrgym.envs.scaling import Coordinates
from bbrgym.errors import ConfigError, nearest
from bbrgym.worlds import Table

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

SOURCES = {
    "active": "the application",
    "app_limited": "`tcpi_delivery_rate_app_limited`",
    "phase": "BBR: `mode`, `cycle_idx`",
    "delivery_rate_mbps": "`tcpi_delivered`, what it grew by",
    "bw_mbps": "BBR: `bbr_bw_lo`, `bbr_bw_hi`",
    "pacing_mbps": "`tcpi_pacing_rate`",
    "cwnd_pkts": "`tcpi_snd_cwnd`",
    "in_flight_pkts": "RFC 6675's pipe: `tcpi_unacked` - `tcpi_sacked` - `tcpi_lost` + `tcpi_retrans`",
    "rtt_mean_ms": "the RTT samples of its ACKs (RFC 6298)",
    "rtt_p95_ms": "the RTT samples of its ACKs (RFC 6298)",
    "rtt_min_ms": "the RTT samples of its ACKs (RFC 6298)",
    "srtt_ms": "`tcpi_rtt` (RFC 6298)",
    "min_rtt_ms": "BBR: `bbr_min_rtt`",
    "sent_pkts": "`tcpi_data_segs_out`, what it grew by",
    "retransmitted_pkts": "`tcpi_total_retrans`, what it grew by",
    "lost_pkts": "the `losses` of its rate samples",
    "rto_count": "`tcpi_total_rto` (RFC 6298), what it grew by",
}
"""Where a sender reads the fields that features are made of: `tcpi_` are fields of Linux's `tcp_info`, `bbr_` of its
`tcp_bbr_info`, the rest is in the congestion control's own state."""


class SenderObservation:
    """The observation space: the learner flows' features, then the setting; the last `stack` intervals.

    ::

        oldest interval ... newest interval
        interval:  the features as `FlowFeatures` has them, the tunables that the action sets, from [-1, 1] to [0, 1]

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
        known = {feature.name: feature for feature in FEATURES}
        names = tuple(known) if features is None else tuple(features)
        for name in names:
            if name not in known:
                raise ConfigError(f"features: {name!r}: {nearest(name, known)}")
        if len(set(names)) < len(names):
            raise ConfigError(f"features: {list(names)}, allowed is a list without repetition")
        self.features = tuple(known[name] for name in names)
        self.stack = stack
        self._of_flows = FlowFeatures(self.features, flows, view)
        self.width = self._of_flows.width + settings
        self.space = spaces.Box(0.0, 1.0, (stack * self.width,), np.float32)

    def view(
        self, fields: Sequence[str], flows: Table, settings: Coordinates, is_there: NDArray[np.bool_] | None = None
    ) -> Observation:
        """One interval's numbers of each environment: [N, width].

        Args:
            fields: names of the measurements.
            flows: measurements, [fields, flows * N]: those of all first learner flows, of all second ones, and so on;
                0 of absent ones.
            settings: in force, as actions: [N, tunables].
            is_there: which flows are not absent, [flows, N]; none is without.
        """
        view = np.empty((len(settings), self.width), np.float32)
        self._of_flows.write(view[:, : self._of_flows.width], fields, flows, is_there)
        view[:, self._of_flows.width :] = (settings + 1.0) / 2.0
        return view


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
