# SPDX-License-Identifier: GPL-2.0-only
"""Features of the identification, made by hand from what the senders of all tuned flows saw.

The observation is that of every flow with the memory features. Rates, RTTs and windows are taken back to logarithms, so
that differences are ratios.

    of each flow     statistics over time of its emptiest, mean and fullest queue against its smallest RTT ever, of
                     its delivery rate, bandwidth estimate and window, and of ratios of these; its losses; its memory at
                     the end; its mean over the flows counts
    of all together  total delivery against its own peak and against the largest rate any flow ever had: what is missing
                     went to others; the emptiest queue that any of them saw in an interval, and how it followed what
                     they had in flight: a queue that stays when they drain is filled by others
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.envs.observation import FEATURES
from bbrgym.envs.scaling import NormalisedAction

OBSERVED = (
    *("active", "app_limited", "startup", "drain", "probe_rtt", "probe_up", "probe_down", "cruise", "delivery_rate"),
    *("bw", "delivery_of_bw", "pacing_of_bw", "cwnd", "in_flight_of_cwnd", "min_rtt", "rtt_mean", "rtt_p95"),
    *("rtt_min", "srtt", "lost", "retransmitted", "rto", "age", "max_delivery", "mean_delivery", "delivery_of_max"),
    *("mean_of_max", "bw_of_max", "bw_of_delivery", "least_rtt", "min_rtt_of_least", "max_queue", "min_queue"),
    *("mean_queue", "total_lost", "total_retransmitted", "total_rto", "total_app_limited", "delivery_trend"),
    *("slow_delivery_trend", "bw_trend", "srtt_trend"),
)
"""Features that must be observed, of each flow; named, so that a new feature leaves trained portfolios as they are."""

_AT_END = (
    *("total_lost", "total_retransmitted", "total_rto", "max_queue", "min_queue", "mean_queue", "bw_of_max"),
    *("mean_of_max", "bw_of_delivery", "delivery_trend", "slow_delivery_trend", "age", "app_limited"),
)
_PHASES = ("startup", "drain", "probe_rtt", "probe_up", "probe_down", "cruise")
_RTTS = ("rtt_min", "rtt_mean", "rtt_p95")
_STATISTICS = ("mean", "middle", "late", "least", "most", "spread")
_SERIES = (
    *(f"queue by {name}" for name in (*_RTTS, "min_rtt")),
    *("delivery", "bw", "cwnd", "delivery of bw", "delivery of its peak", "cwnd of BDP"),
)
_OF_FLOWS = (
    "least RTT",
    *(f"{series}, {statistic}" for series in _SERIES for statistic in _STATISTICS),
    *("lost, mean", "retransmitted, mean", "lost, most"),
    *(f"{name} at the end" for name in _AT_END),
    *(f"{name}{when}" for name in _PHASES for when in (", share", " at the end")),
)
_NEARLY_EMPTY = 0.01  # queueing delay / RTT below which queues count as alike
_UNKNOWN_RTT_MS = 50.0  # stands for the RTT of a flow without one
_LEAST_MBPS = 0.01
_MOST_QUEUE = 6.0  # largest logarithm of RTT / smallest RTT


class IdentificationFeatures(nn.Module):
    """Function from the observations of an identification to features: [N, intervals, numbers] -> [N, features].

    An interval's numbers are those of each flow, of any number of flows, and then the tunables. What is alike is
    computed side by side, since an operation on one flow's numbers takes as long as one on a thousand.
    """

    def __init__(self, intervals: int, tunables: int) -> None:
        super().__init__()
        self._intervals, self._tunables = intervals, tunables
        late = max(1, 2 * intervals // 7)
        begin = 3 * intervals // 7
        self._settled = slice(2 * intervals // 7, None)
        self._late = slice(intervals - late, None)
        self._middle = slice(begin, max(begin + 1, intervals - late))
        with torch.no_grad():
            _, of_all = self._found(torch.zeros(1, intervals, len(OBSERVED) + tunables))
        self.names = (*_OF_FLOWS, *of_all)

    def forward(self, history: Tensor) -> Tensor:
        of_flows, of_all = self._found(history)
        return torch.cat([of_flows, torch.stack(list(of_all.values()), dim=1)], dim=1)

    def _found(self, history: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the means over flows of `_OF_FLOWS`, [N, features], and what is of all together by name, [N] each."""
        flows = (history.shape[2] - self._tunables) // len(OBSERVED)
        each = history[:, :, : flows * len(OBSERVED)].reshape(-1, self._intervals, flows, len(OBSERVED))
        of = {name: each[..., place] for place, name in enumerate(OBSERVED)}
        logs = {name: _log(name, of[name]) for name in _LOGS}
        is_known = (of["active"] > 0) & (of["min_rtt"] > 0) & (of["least_rtt"] > 0)
        least = torch.where(is_known[:, -1], logs["least_rtt"][:, -1], math.log(_UNKNOWN_RTT_MS))
        rtts = [logs["min_rtt"] + logs[name] for name in _RTTS] + [logs["min_rtt"]]
        queues = _queue(torch.stack(rtts, -1) - least[:, None, :, None])
        own = self._of_flows(of, logs, least, queues, is_known)
        count = is_known[:, -1].sum(1)
        means = (own * is_known[:, -1, :, None]).sum(1) / count.clamp(min=1)[:, None]
        return means, {"flows": count.to(history.dtype), **self._of_all(of, logs, queues[..., 0], is_known)}

    # ---- each flow ---------------------------------------------------------------------------------------------

    def _of_flows(
        self, of: dict[str, Tensor], logs: dict[str, Tensor], least: Tensor, queues: Tensor, is_known: Tensor
    ) -> Tensor:
        """Return the features `_OF_FLOWS` of each flow, [N, flows, features]."""
        rate, bw, cwnd = logs["delivery_rate"], logs["bw"], logs["cwnd"]
        rates = [rate, bw, cwnd, rate - bw, rate - logs["max_delivery"], cwnd - rate - least[:, None]]
        counts = is_known[..., None]
        losses = torch.stack([of["lost"], of["retransmitted"]], -1)
        phases = torch.stack([of[name] for name in _PHASES], -1)
        return torch.cat(
            [
                least[..., None],
                self._statistics(torch.cat([queues, torch.stack(rates, -1)], -1), counts),
                _mean(losses[:, self._settled], counts[:, self._settled]),
                (losses[..., :1] * counts).amax(1),
                torch.stack([of[name][:, -1] for name in _AT_END], -1),
                torch.stack([_mean(phases, counts), phases[:, -1]], -1).flatten(-2),
            ],
            dim=-1,
        )

    def _statistics(self, series: Tensor, counts: Tensor) -> Tensor:
        """Return `_STATISTICS` over time: [N, intervals, flows, series] -> [N, flows, series * statistics].

        They are 0 of a flow that is not known.
        """
        x, known = series[:, self._settled], counts[:, self._settled]
        mean = _mean(x, known)
        is_any = known.any(1)
        found = [
            mean,
            _mean(series[:, self._middle], counts[:, self._middle]),
            _mean(series[:, self._late], counts[:, self._late]),
            torch.where(known, x, math.inf).amin(1).where(is_any, 0.0),
            torch.where(known, x, -math.inf).amax(1).where(is_any, 0.0),
            _mean((x - mean[:, None]).square(), known).sqrt(),
        ]
        return torch.stack(found, -1).flatten(-2)

    # ---- all together ------------------------------------------------------------------------------------------

    def _of_all(
        self, of: dict[str, Tensor], logs: dict[str, Tensor], queue: Tensor, is_known: Tensor
    ) -> dict[str, Tensor]:
        """Return features of all flows together by name, [N] each."""
        total = (_LEAST_MBPS + (logs["delivery_rate"].exp() * is_known).sum(2)).log()
        bw = (_LEAST_MBPS + (logs["bw"].exp() * is_known).sum(2)).log()[:, -1]
        in_flight = (1.0 + (logs["cwnd"].exp() * 2.0 * of["in_flight_of_cwnd"] * is_known).sum(2)).log()
        peak = torch.where(is_known[:, -1], logs["max_delivery"][:, -1], math.log(_LEAST_MBPS)).amax(1)
        widest = torch.where(is_known, logs["bw"], math.log(_LEAST_MBPS)).amax((1, 2))
        emptiest = torch.where(is_known, queue, math.inf).amin(2).where(is_known.any(2), 0.0)
        late, middle, most = total[:, self._late].mean(1), total[:, self._middle].mean(1), total.amax(1)
        settled = total[:, self._settled]
        x, y = _centred(in_flight[:, self._settled]), _centred(emptiest[:, self._settled])
        z = _centred(settled)
        ranked = emptiest[:, self._settled].sort(1).values
        return {
            "total delivery, late": late,
            "total delivery, middle": middle,
            "total delivery, most": most,
            "total delivery, least": settled.amin(1),
            "total delivery, spread": z.square().mean(1).sqrt(),
            "total delivery of its peak": late - most,
            "total delivery of the peak of a flow": late - peak,
            "total delivery of the largest bw": late - widest,
            "total delivery of the peak of a flow, middle": middle - peak,
            "total delivery of the peak of a flow, most": most - peak,
            "total bw": bw,
            "total bw of delivery": bw - late,
            "total bw of its peak": bw - most,
            "in flight, late": in_flight[:, self._late].mean(1),
            "in flight, least": in_flight[:, self._settled].amin(1),
            "in flight, most": in_flight[:, self._settled].amax(1),
            "emptiest queue": ranked[:, 0],
            "emptiest queue, low": ranked[:, min(2, ranked.shape[1] - 1)],
            "emptiest queue, median": ranked[:, ranked.shape[1] // 2],
            "emptiest queue, most": ranked[:, -1],
            "queue per flight": (x * y).sum(1) / (0.1 + x.square().sum(1)),
            "queue with flight": (x * y).sum(1) / ((0.01 + x.square().sum(1)) * (0.01 + y.square().sum(1))).sqrt(),
            "queue per delivery": (z * y).sum(1) / (0.01 + z.square().sum(1)),
        }


class ReselectFeatures(nn.Module):
    """Features of a time in which a setting was held: those of an identification, and the tunables, observed last."""

    def __init__(self, identification: IdentificationFeatures, tunables: Sequence[str]) -> None:
        super().__init__()
        self._identification = identification
        self._tunables = len(tunables)
        self.names = (*identification.names, *(f"held {name}" for name in tunables))

    def forward(self, history: Tensor) -> Tensor:
        return torch.cat([self._identification(history), history[:, -1, -self._tunables :]], dim=1)


def settings_held(features: Tensor, library: NormalisedAction) -> NDArray[np.intp]:
    """Return the number of the setting that was held, of `ReselectFeatures`, [N].

    Args:
        features: [N, features].
        library: normalised settings, [settings, tunables].
    """
    held = features[:, None, -library.shape[1] :].numpy() * 2.0 - 1.0
    nearest: NDArray[np.intp] = np.abs(held - library).sum(2).argmin(1)
    return nearest


_RANGES = {feature.name: (feature.low, feature.high) for feature in FEATURES}
_LOGS = (
    *("delivery_rate", "bw", "cwnd", "min_rtt", "least_rtt", "max_delivery"),  # in their units
    *_RTTS,  # of the minimum RTT
)


def _log(name: str, numbers: Tensor) -> Tensor:
    """Return the logarithms of a feature's values, from 0 to 1."""
    low, high = _RANGES[name]
    return math.log(low) + numbers * math.log(high / low)


def _queue(log_rtt: Tensor) -> Tensor:
    """Return the logarithm of a queueing delay / smallest RTT, from that of RTT / smallest RTT."""
    return (_NEARLY_EMPTY + log_rtt.clamp(0.0, _MOST_QUEUE).expm1()).log()


def _mean(series: Tensor, counts: Tensor) -> Tensor:
    """Return the mean over time of the values that count: [N, intervals, ...] -> [N, ...]; 0 without any."""
    mean: Tensor = (series * counts).sum(1) / counts.sum(1).clamp(min=1)
    return mean


def _centred(series: Tensor) -> Tensor:
    return series - series.mean(1, keepdim=True)
