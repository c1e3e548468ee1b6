# SPDX-License-Identifier: GPL-2.0-only
"""Observation of the controller: features that a sender knows (`bbrgym.envs.features`).

Some are of the last interval alone, some have a memory of the episode so far (`bbrgym.envs.memory`). A list of features
may be given by its name:

    instant   the features of the last interval
    memory    these, and running statistics of the episode
    path      what tells a shared queue, its competitors and its losses, whatever the scale of rates and times
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.features import Feature, FlowFeatures, Observation, View
from bbrgym.envs.memory import Remembered
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import shown
from bbrgym.worlds import Table

FeatureList: TypeAlias = Literal["instant", "memory", "path"]

_SEE = "help(bbrgym.envs.tune_env.TuneEnv)"
_DELIVERY, _BW, _SRTT, _MIN_RTT = "delivery_rate_mbps", "bw_mbps", "srtt_ms", "min_rtt_ms"
_MAX, _MAX_BW = Remembered("max", _DELIVERY), Remembered("max", _BW)
_MEAN, _EWMA = Remembered("mean", _DELIVERY), Remembered("ewma", _DELIVERY)
_EWMA_BW, _EWMA_SRTT = Remembered("ewma", _BW), Remembered("ewma", _SRTT)
_LEAST_RTT = Remembered("min", _MIN_RTT)
_MAX_QUEUE, _MIN_QUEUE, _MEAN_QUEUE = (Remembered(kind, _SRTT, _MIN_RTT) for kind in ("max", "min", "mean"))
_SENT, _LOST, _RESENT, _RTOS = (
    Remembered("total", name) for name in ("sent_pkts", "lost_pkts", "retransmitted_pkts", "rto_count")
)
_STANDING, _PEAK = Remembered("low", _SRTT, _MIN_RTT, over_s=4.0), Remembered("high", _SRTT, _MIN_RTT, over_s=10.0)
_PEAK_DELIVERY = Remembered("high", _DELIVERY, over_s=10.0)
_RECENTLY_LOST, _RECENTLY_SENT = (Remembered("ewma", name, over_s=4.0) for name in ("lost_pkts", "sent_pkts"))
_AGE, _LIMITED = Remembered("seconds", "active"), Remembered("seconds", "app_limited")

# Rates and windows have the ranges of the networks that the controllers are made for, not of one scenario: an
# observation means the same everywhere.
FEATURES = (
    Feature("active", "active", "bool", "linear", 0, 1, None, "the flow runs"),
    Feature("app_limited", "app_limited", "bool", "linear", 0, 1, None, "limited by the application"),
    Feature("startup", "phase", "code", "within", 0, 0, None, "in STARTUP"),
    Feature("drain", "phase", "code", "within", 1, 1, None, "in DRAIN"),
    Feature("probe_rtt", "phase", "code", "within", 2, 2, None, "in PROBE_RTT"),
    Feature("probe_up", "phase", "code", "within", 8, 8, None, "in PROBE_BW, sending faster"),
    Feature("probe_down", "phase", "code", "within", 9, 9, None, "in PROBE_BW, sending slower"),
    Feature("cruise", "phase", "code", "within", 10, 15, None, "in PROBE_BW's other phases"),
    Feature("delivery_rate", "delivery_rate_mbps", "Mbit/s", "log", 0.01, 10_000, None, "delivery rate"),
    Feature("bw", "bw_mbps", "Mbit/s", "log", 0.01, 10_000, None, "bandwidth estimate of the model"),
    Feature("delivery_of_bw", "delivery_rate_mbps", "ratio", "linear", 0, 2, "bw_mbps", "delivery rate / bandwidth"),
    Feature("pacing_of_bw", "pacing_mbps", "ratio", "linear", 0, 4, "bw_mbps", "pacing rate / bandwidth"),
    Feature("cwnd", "cwnd_pkts", "pkts", "log", 1, 100_000, None, "congestion window"),
    Feature("in_flight_of_cwnd", "in_flight_pkts", "ratio", "linear", 0, 2, "cwnd_pkts", "in flight / window"),
    Feature("min_rtt", "min_rtt_ms", "ms", "log", 0.1, 10_000, None, "minimum RTT of the model"),
    Feature("rtt_mean", "rtt_mean_ms", "ratio", "log", 1, 64, "min_rtt_ms", "mean RTT / minimum RTT"),
    Feature("rtt_p95", "rtt_p95_ms", "ratio", "log", 1, 64, "min_rtt_ms", "95th percentile of RTT / minimum RTT"),
    Feature("rtt_min", "rtt_min_ms", "ratio", "log", 1, 64, "min_rtt_ms", "smallest RTT of the interval / minimum RTT"),
    Feature("srtt", "srtt_ms", "ratio", "log", 1, 64, "min_rtt_ms", "smoothed RTT / minimum RTT"),
    Feature("lost", "lost_pkts", "ratio", "linear", 0, 1, "sent_pkts", "packets marked lost / sent"),
    Feature("retransmitted", "retransmitted_pkts", "ratio", "linear", 0, 1, "sent_pkts", "retransmitted / sent"),
    Feature("rto", "rto_count", "count", "linear", 0, 1, None, "a retransmission timeout happened"),
    Feature("age", _AGE, "s", "log", 0.1, 1000, None, "time for which the flow has run"),
    Feature("max_delivery", _MAX, "Mbit/s", "log", 0.01, 10_000, None, "largest delivery rate so far"),
    Feature("mean_delivery", _MEAN, "Mbit/s", "log", 0.01, 10_000, None, "mean delivery rate so far"),
    Feature("delivery_of_max", _DELIVERY, "ratio", "linear", 0, 1, _MAX, "delivery rate / its largest"),
    Feature("mean_of_max", _MEAN, "ratio", "linear", 0, 1, _MAX, "mean delivery rate / its largest"),
    Feature("bw_of_max", _BW, "ratio", "linear", 0, 1, _MAX_BW, "bandwidth estimate / its largest"),
    Feature("bw_of_delivery", _BW, "ratio", "log", 1 / 8, 8, _EWMA, "bandwidth estimate / recent delivery"),
    Feature("least_rtt", _LEAST_RTT, "ms", "log", 0.1, 10_000, None, "smallest minimum RTT of the model"),
    Feature("min_rtt_of_least", _MIN_RTT, "ratio", "log", 1, 64, _LEAST_RTT, "minimum RTT / the smallest"),
    Feature("max_queue", _MAX_QUEUE, "ratio", "log", 0.01, 64, _LEAST_RTT, "largest queueing delay / smallest RTT"),
    Feature("min_queue", _MIN_QUEUE, "ratio", "log", 0.01, 64, _LEAST_RTT, "smallest queueing delay / smallest RTT"),
    Feature("mean_queue", _MEAN_QUEUE, "ratio", "log", 0.01, 64, _LEAST_RTT, "mean queueing delay / smallest RTT"),
    Feature("total_lost", _LOST, "ratio", "log", 1e-4, 1, _SENT, "all packets marked lost / all sent"),
    Feature("total_retransmitted", _RESENT, "ratio", "log", 1e-4, 1, _SENT, "all retransmitted / all sent"),
    Feature("total_rto", _RTOS, "count", "log", 0.5, 64, None, "all retransmission timeouts"),
    Feature("total_app_limited", _LIMITED, "ratio", "linear", 0, 1, _AGE, "time limited by the application / age"),
    Feature("delivery_trend", _DELIVERY, "ratio", "log", 1 / 4, 4, _EWMA, "delivery rate / its recent mean"),
    Feature("slow_delivery_trend", _EWMA, "ratio", "log", 1 / 4, 4, _MEAN, "recent / mean delivery rate"),
    Feature("bw_trend", _BW, "ratio", "log", 1 / 4, 4, _EWMA_BW, "bandwidth estimate / its recent mean"),
    Feature("srtt_trend", _SRTT, "ratio", "log", 1 / 4, 4, _EWMA_SRTT, "smoothed RTT / its recent mean"),
    Feature("standing_queue", _STANDING, "ratio", "log", 0.01, 64, _LEAST_RTT, "least recent queueing delay / RTT"),
    Feature("peak_queue", _PEAK, "ratio", "log", 0.01, 64, _LEAST_RTT, "recent peak of the queueing delay / RTT"),
    Feature("standing_of_peak", _STANDING, "ratio", "linear", 0, 1, _PEAK, "least / peak recent queueing delay"),
    Feature("delivery_of_peak", _DELIVERY, "ratio", "linear", 0, 1, _PEAK_DELIVERY, "delivery rate / recent peak"),
    Feature("recently_lost", _RECENTLY_LOST, "ratio", "log", 1e-4, 1, _RECENTLY_SENT, "recent packets lost / sent"),
)
"""All features, in the order of the observation. The queueing delay is the sender's estimate, srtt - min RTT."""

FEATURE_LISTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "instant": tuple(feature.name for feature in FEATURES if not feature.memory_terms),
        "memory": tuple(feature.name for feature in FEATURES if not any(each.over_s for each in feature.memory_terms)),
        "path": (
            *("delivery_of_bw", "in_flight_of_cwnd", "rtt_p95", "rtt_min", "srtt", "mean_of_max", "bw_of_max"),
            *("bw_of_delivery", "min_rtt_of_least", "max_queue", "min_queue", "mean_queue", "total_lost", "srtt_trend"),
            *("standing_queue", "peak_queue", "standing_of_peak", "delivery_of_peak", "recently_lost"),
        ),
    }
)
"""Lists of features by name."""

SOURCES = {
    "active": "the application",
    "app_limited": "`tcpi_delivery_rate_app_limited`",
    "phase": "BBR: `mode`, `cycle_idx`",
    "delivery_rate_mbps": "increase of `tcpi_delivered`",
    "bw_mbps": "BBR: `bbr_bw_lo`, `bbr_bw_hi`",
    "pacing_mbps": "`tcpi_pacing_rate`",
    "cwnd_pkts": "`tcpi_snd_cwnd`",
    "in_flight_pkts": "pipe of RFC 6675: `tcpi_unacked` - `tcpi_sacked` - `tcpi_lost` + `tcpi_retrans`",
    "rtt_mean_ms": "the RTT samples of its ACKs (RFC 6298)",
    "rtt_p95_ms": "the RTT samples of its ACKs (RFC 6298)",
    "rtt_min_ms": "the RTT samples of its ACKs (RFC 6298)",
    "srtt_ms": "`tcpi_rtt` (RFC 6298)",
    "min_rtt_ms": "BBR: `bbr_min_rtt`",
    "sent_pkts": "increase of `tcpi_data_segs_out`",
    "retransmitted_pkts": "increase of `tcpi_total_retrans`",
    "lost_pkts": "the `losses` of its rate samples",
    "rto_count": "increase of `tcpi_total_rto` (RFC 6298)",
}
"""Source of each field in a real sender.

`tcpi_` are fields of Linux's `tcp_info`, `bbr_` of its `tcp_bbr_info`; the rest is state of the congestion control.
"""


def feature_names(features: Any) -> tuple[str, ...]:
    """Return the names of features: those of a list, or those given.

    Raises:
        ConfigError: there is no such list or feature, or a feature is given twice.
    """
    if isinstance(features, str):
        if features not in FEATURE_LISTS:
            names = (
                f"a list of names{f': write [{features!r}]' if features in {each.name for each in FEATURES} else ''}"
            )
            raise ConfigError(f"features: {features!r}: {nearest(features, FEATURE_LISTS)}, or {names}")
        return FEATURE_LISTS[features]
    if not isinstance(features, Sequence):
        raise ConfigError(f"features: {shown(features)}, allowed are {', '.join(FEATURE_LISTS)}, or a list of names")
    known = [feature.name for feature in FEATURES]
    for name in features:
        if name not in known:
            raise ConfigError(f"features: {name!r}: {nearest(str(name), known, _SEE)}")
    if len(set(features)) < len(features):
        raise ConfigError(f"features: {list(features)}, allowed is a list without repetition")
    return tuple(features)


class SenderObservation:
    """Observation space: features of the tuned flows, then the current tunables, of the last `frame_stack` intervals.

    ::

        oldest interval ... newest interval
        interval:  numbers of `FlowFeatures`, normalised controlled tunables, mapped from [-1, 1] to [0, 1]

    The state at the reset stands for the intervals before it. Many environments are observed at once; each gets what
    it would get alone, bit for bit.

    Raises:
        ConfigError: an argument is not allowed.
    """

    def __init__(
        self,
        flows: int,
        tunables: int,
        features: Sequence[str] | FeatureList = "instant",
        frame_stack: int = 1,
        view: View = "each",
    ) -> None:
        if not isinstance(frame_stack, int) or isinstance(frame_stack, bool) or frame_stack < 1:
            raise ConfigError(f"frame_stack: {frame_stack!r}, allowed is a whole number of intervals from 1")
        known = {feature.name: feature for feature in FEATURES}
        self.features = tuple(known[name] for name in feature_names(features))  # the chosen features
        # what they remember of the episode; a `FlowMemory` computes it
        self.memory_terms = tuple(dict.fromkeys(each for feature in self.features for each in feature.memory_terms))
        self.frame_stack = frame_stack  # number of intervals
        self._flow_features = FlowFeatures(self.features, flows, view)
        # number of numbers of an interval: flows * features + tunables (`each`), or 3 * features + 1 + tunables
        # (`pooled`)
        self.width = self._flow_features.width + tunables
        # Box(0, 1, (frame_stack * width,), float32)
        self.space = spaces.Box(0.0, 1.0, (frame_stack * self.width,), np.float32)

    def names(self, tunables: Sequence[str]) -> tuple[str, ...]:
        """Return the names of an observation's numbers; those of the k-th interval before the last end in ``@-k``."""
        of_interval = (*self._flow_features.names, *tunables)
        back = range(self.frame_stack - 1, -1, -1)
        return tuple(f"{name}@-{number}" if number else name for number in back for name in of_interval)

    def view(
        self,
        fields: Sequence[str],
        flows: Table,
        normalised: NormalisedAction,
        is_present: NDArray[np.bool_] | None = None,
    ) -> Observation:
        """Return one interval's numbers of each environment: [N, width].

        Measurements are as `FlowFeatures.write` takes them.
        """
        view = np.empty((len(normalised), self.width), np.float32)
        self._flow_features.write(view[:, : self._flow_features.width], fields, flows, is_present)
        view[:, self._flow_features.width :] = (normalised + 1.0) / 2.0
        return view


class FrameStack:
    """Last intervals of N environments, stacked into the observations."""

    def __init__(self, num_envs: int, observation: SenderObservation) -> None:
        self._views = np.zeros((num_envs, observation.frame_stack, observation.width), np.float32)

    def begin(self, indices: Sequence[int], view: Observation) -> None:
        """Begin episodes in some environments: the view, [indices, width], stands for all earlier intervals."""
        self._views[indices] = view[:, None]

    def add(self, view: Observation) -> None:
        """Add an interval of all environments: [N, width]."""
        self._views[:, :-1] = self._views[:, 1:]
        self._views[:, -1] = view

    def observations(self) -> Observation:
        """Return the observations of all environments, [N, frame_stack * width], the caller's own."""
        observations: Observation = self._views.reshape(len(self._views), -1).copy()
        return observations

    def array(self) -> Observation:
        """Return the intervals themselves, [N, frame_stack, width]."""
        return self._views
