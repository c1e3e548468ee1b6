# SPDX-License-Identifier: GPL-2.0-only
"""What only an onlooker knows, for a critic that learns beside the controller: features of the link, then of each flow.

Nothing of it is known to a sender, so what acts must not look at it.
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
    Feature("utilisation", "utilisation", "ratio", "linear", 0, 1, None, "which part of it is used"),
    Feature("queue", "queue_mean_bytes", "bytes", "log", 100, 1e9, None, "its queue"),
    Feature("queue_delay", "queue_delay_mean_ms", "ms", "log", 0.1, 10_000, None, "mean wait in it"),
    Feature("queue_delay_p95", "queue_delay_p95_ms", "ms", "log", 0.1, 10_000, None, "95th percentile of the wait"),
    Feature("queue_dropped", "queue_dropped_pkts", "pkts", "log", 0.5, 50_000, None, "packets that it dropped"),
    Feature("random_lost", "random_lost_pkts", "pkts", "log", 0.5, 50_000, None, "packets lost at random"),
    Feature("active_flows", "active_flows", "count", "log", 0.5, 512, None, "flows that run, learners or not"),
)
"""Of the link; fields of the world's link_stats."""

FLOW_FEATURES = (
    Feature("goodput", "goodput_mbps", "Mbit/s", "log", 0.01, 10_000, None, "what its receiver could read"),
    Feature("fair_share", "fair_share_mbps", "Mbit/s", "log", 0.01, 10_000, None, "capacity / flows that run"),
    Feature("share", "goodput_mbps", "ratio", "log", 1 / 64, 64, "fair_share_mbps", "goodput / fair share"),
    Feature("base_rtt", "base_rtt_ms", "ms", "log", 0.1, 10_000, None, "propagation both ways"),
    Feature("stretch", "rtt_mean_ms", "ratio", "log", 1, 64, "base_rtt_ms", "mean RTT / propagation"),
    Feature("flow_queue_delay", "queue_delay_mean_ms", "ms", "log", 0.1, 10_000, None, "mean wait of its packets"),
    Feature("dropped", "dropped_pkts", "ratio", "linear", 0, 1, "sent_pkts", "its packets really lost / sent"),
)
"""Of each learner flow; fields of the world's flow_stats, and its base RTT."""

BASE_RTT = "base_rtt_ms"
"""What stands behind the measurements of the flows: from the scenario."""


class CriticObservation:
    """The critic's space: the link's features, then the learner flows', of the last interval.

    What is computed here is computed for N environments at once, and for each as if it were alone, bit for bit.

    Args:
        flows: number of slots for learner flows.
        view: `each` or `pooled`, see `FlowFeatures`.

    Attributes:
        space: Box(0, 1, (width,), float32); width = 8 + 7 * flows of each, 8 + 3 * 7 + 1 pooled.
    """

    def __init__(self, flows: int, view: View = "each") -> None:
        self._link = Normaliser(LINK_FEATURES)
        self._of_flows = FlowFeatures(FLOW_FEATURES, flows, view)
        self.space = spaces.Box(0.0, 1.0, (len(LINK_FEATURES) + self._of_flows.width,), np.float32)
        self._fields: Sequence[str] = ()
        self._with_base_rtt: Sequence[str] = ()

    def view(
        self,
        link_fields: Sequence[str],
        link: Table,
        flow_fields: Sequence[str],
        flows: Table,
        base_rtt_ms: Table,
        is_there: NDArray[np.bool_] | None = None,
    ) -> Observation:
        """The numbers of each environment: [N, width].

        Args:
            link_fields: names of the link's measurements.
            link: these, [N, fields].
            flow_fields: names of the flows' measurements.
            flows: these, [fields, flows * N], as `SenderObservation.view` takes them.
            base_rtt_ms: propagation both ways of the flows, [flows, N].
            is_there: which flows are not absent, [flows, N]; none is without.
        """
        if flow_fields is not self._fields:
            self._fields, self._with_base_rtt = flow_fields, (*flow_fields, BASE_RTT)
        view = np.empty((len(link), *self.space.shape), np.float32)
        view[:, : len(LINK_FEATURES)] = self._link.numbers(link_fields, np.ascontiguousarray(link.T)).T
        measured = np.concatenate([flows, base_rtt_ms.reshape(1, -1)])
        self._of_flows.write(view[:, len(LINK_FEATURES) :], self._with_base_rtt, measured, is_there)
        return view
