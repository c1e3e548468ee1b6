# SPDX-License-Identifier: GPL-2.0-only
"""Privileged observation, for a critic that is trained beside the controller: features of the link and of each flow.

No sender knows these features, so no policy may use them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.features import Feature, FlowFeatures, Normaliser, Observation, View
from bbrgym.worlds import Table

LINK_FEATURES = (
    Feature("rate", "rate_mbps", "Mbit/s", "log", 0.01, 10_000, None, "capacity of the bottleneck"),
    Feature("utilisation", "utilisation", "ratio", "linear", 0, 1, None, "IP bytes that left / capacity"),
    Feature("queue", "queue_mean_bytes", "bytes", "log", 100, 1e9, None, "mean length of the queue"),
    Feature("queue_delay", "queue_delay_mean_ms", "ms", "log", 0.1, 10_000, None, "mean delay in the queue"),
    Feature("queue_delay_p95", "queue_delay_p95_ms", "ms", "log", 0.1, 10_000, None, "95th percentile of that delay"),
    Feature("queue_dropped", "queue_dropped_pkts", "pkts", "log", 0.5, 50_000, None, "packets dropped by the queue"),
    Feature("random_lost", "random_lost_pkts", "pkts", "log", 0.5, 50_000, None, "packets lost at random"),
    Feature("active_flows", "active_flows", "count", "log", 0.5, 512, None, "active flows, tuned flows or not"),
)
"""Features of the link; fields of the world's link_stats."""

FLOW_FEATURES = (
    Feature("goodput", "goodput_mbps", "Mbit/s", "log", 0.01, 10_000, None, "payload readable at its receiver"),
    Feature("fair_share", "fair_share_mbps", "Mbit/s", "log", 0.01, 10_000, None, "capacity / active flows"),
    Feature("share", "goodput_mbps", "ratio", "log", 1 / 64, 64, "fair_share_mbps", "goodput / fair share"),
    Feature("base_rtt", "base_rtt_ms", "ms", "log", 0.1, 10_000, None, "two-way propagation delay"),
    Feature("stretch", "rtt_mean_ms", "ratio", "log", 1, 64, "base_rtt_ms", "mean RTT / base RTT"),
    Feature("flow_queue_delay", "queue_delay_mean_ms", "ms", "log", 0.1, 10_000, None, "mean delay in the queue"),
    Feature("dropped", "dropped_pkts", "ratio", "linear", 0, 1, "sent_pkts", "dropped / sent packets"),
)
"""Features of each tuned flow; fields of the world's flow_stats, and its base RTT."""

BASE_RTT = "base_rtt_ms"
"""Name of the field that follows the measurements of a flow: its `rtt_ms` in the scenario."""


class CriticObservation:
    """Privileged observation space: features of the link, then of the tuned flows, of the last interval.

    Many environments are observed at once; each gets what it would get alone, bit for bit.

    Attributes:
        space: Box(0, 1, (width,), float32); width = 8 + 7 * flows (`each`), or 8 + 3 * 7 + 1 (`pooled`).
    """

    def __init__(self, flows: int, view: View = "each") -> None:
        self._link = Normaliser(LINK_FEATURES)
        self._flow_features = FlowFeatures(FLOW_FEATURES, flows, view)
        self.space = spaces.Box(0.0, 1.0, (len(LINK_FEATURES) + self._flow_features.width,), np.float32)
        self._fields: Sequence[str] = ()
        self._with_base_rtt: Sequence[str] = ()

    def view(
        self,
        link_fields: Sequence[str],
        link: Table,
        flow_fields: Sequence[str],
        flows: Table,
        base_rtt_ms: Table,
        is_present: NDArray[np.bool_] | None = None,
    ) -> Observation:
        """Return the numbers of each environment: [N, width].

        Measurements of the link are [N, fields], the others as `FlowFeatures.write` takes them, base RTTs [flows, N].
        """
        if flow_fields is not self._fields:
            self._fields, self._with_base_rtt = flow_fields, (*flow_fields, BASE_RTT)
        view = np.empty((len(link), *self.space.shape), np.float32)
        view[:, : len(LINK_FEATURES)] = self._link.numbers(link_fields, np.ascontiguousarray(link.T)).T
        measured = np.concatenate([flows, base_rtt_ms.reshape(1, -1)])
        self._flow_features.write(view[:, len(LINK_FEATURES) :], self._with_base_rtt, measured, is_present)
        return view
