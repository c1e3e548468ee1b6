# SPDX-License-Identifier: GPL-2.0-only
"""Features of the samples of a path, by which `bbrgym.paths.gate` trusts what rules propose.

They are free of scale: rates by the rate that a tenth of the windows exceed, delays in packets of that rate or in base
RTTs, so that a path of 1 Mbit/s and one of 1 Gbit/s look alike.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.paths.proposals import Busy, Proposal
from bbrgym.paths.samples import NAN
from bbrgym.paths.series import PathSeries, Windows, nan_max
from bbrgym.scenario.model import HEADER_BYTES

_QUEUE_S, _QUEUE_PKTS, _QUEUE_RTTS = 0.001, 2.0, 0.05  # a queue stands from the largest of these on
_LEAST_SAMPLES = 3  # of a correlation
_SEGMENTS = 8  # of the time, in which the smallest RTT is looked at
_QUANTILES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
_MOST = 12.0  # of a feature, a logarithm in most

_BBR1 = ("bbr", "bbr1")


def path_features(series: PathSeries, proposal: Proposal) -> NDArray[np.float64]:
    """Return the features of a path's samples and of what rules propose, [features], each within `_MOST` of 0."""
    windows, losses, floor_s = proposal.windows, proposal.losses, series.floor_s
    rate_Bps = max(float(np.quantile(windows.rate, 0.9)), 1.0)
    packet_s = series.packet_bytes / rate_Bps
    delay_s = losses.longest_rtt_s - floor_s
    known = delay_s[~np.isnan(delay_s)]
    longest_s = float(np.quantile(known, 0.99)) if len(known) else NAN
    with np.errstate(all="ignore"):  # what a log lacks is 0
        values = [
            *_proposed(proposal, series, rate_Bps, longest_s),
            *_rates(windows, series, rate_Bps),
            *_parts(proposal.busy, series, rate_Bps),
            *_delays(series, floor_s, packet_s),
            *_losses(losses, delay_s, longest_s),
            *_circumstances(series, windows, floor_s, packet_s),
        ]
    return np.clip(np.nan_to_num(np.array(values, np.float64), posinf=_MOST, neginf=-_MOST), -_MOST, _MOST)


def _proposed(proposal: Proposal, series: PathSeries, rate_Bps: float, longest_s: float) -> list[float]:
    """Values that rules propose, by source, and the intervals."""
    rate, buffer, loss = proposal.rate, proposal.buffer_bytes, proposal.random_loss
    values = [_log(rate.value / rate_Bps), _log(rate.high) - _log(rate.low), _log(rate.low / rate_Bps)]
    values += [_log(buffer.value) - _log(longest_s * rate_Bps), _log(buffer.high) - _log(buffer.low)]
    values += [_log(max(buffer.value, buffer.low) / series.packet_bytes) if buffer.low > 0 else 0.0]
    values += [_log(loss.value + 1e-5), _log(loss.high + 1e-5), _log(loss.high / max(loss.low, 1e-6))]
    said = (proposal.varies, proposal.competitor)
    return values + [float(one is kind) for one in said for kind in (None, True, False)]


def _rates(windows: Windows, series: PathSeries, rate_Bps: float) -> list[float]:
    """Rates of windows, over time and with the queue."""
    rates = windows.rate / rate_Bps
    queue_s = windows.shortest_rtt_s - series.floor_s
    least_s = _least_queue_s(series, rate_Bps)
    stands, forms = queue_s > least_s, windows.longest_rtt_s - series.floor_s > least_s
    mean_Bps = float((rates * windows.length_s).sum() / windows.length_s.sum())
    values = [_log(mean_Bps), _log(float(rates.max())), float(np.std(np.minimum(rates, 2.0)))]
    values += [_log(float(one)) for one in np.quantile(rates, _QUANTILES)]
    for chosen in (stands, forms):
        own = rates[chosen]
        values += [float(chosen.mean()), _log(float(np.median(own))) if len(own) else 0.0]
        values += [float(np.subtract(*np.quantile(own, (0.9, 0.1)))) if len(own) else 0.0]
    values += [_correlation(queue_s, rates), _correlation(rates[1:], rates[:-1])]
    thirds = np.array_split(rates, 3)
    values += [_log(float(thirds[-1].mean() / max(thirds[0].mean(), 1e-9))) if len(rates) >= len(thirds) else 0.0]
    halves = [rates[: len(rates) // 2], rates[len(rates) // 2 :]]
    values += [_log(float(np.median(halves[1]) / max(np.median(halves[0]), 1e-9))) if len(rates) > 1 else 0.0]
    received = series.received_rate / rate_Bps
    return [*values, _log(received), float(not math.isnan(received))]


def _parts(busy: Busy, series: PathSeries, rate_Bps: float) -> list[float]:
    """Straight parts of the times in which each sample sees a queue."""
    if not busy.rests.any():
        return [0.0] * 12
    order = np.argsort(busy.rates[busy.rests])
    own, weight = busy.rates[busy.rests][order] / rate_Bps, busy.seconds[busy.rests][order]
    share = np.cumsum(weight) / weight.sum()
    at = [float(own[np.searchsorted(share, one)]) for one in (0.1, 0.25, 0.5, 0.75, 0.9)]
    near = [float(weight[np.abs(own - at[2]) <= part * at[2]].sum() / weight.sum()) for part in (0.02, 0.05)]
    packets = float((weight * own).sum() * rate_Bps / series.packet_bytes)
    seconds = float(busy.seconds.sum())
    bent = [busy.bends / seconds, busy.bends / max(busy.samples, 1)]
    return [1.0, *map(_log, at), *near, *bent, seconds / series.duration_s, math.log10(packets + 1)]


def _delays(series: PathSeries, floor_s: float, packet_s: float) -> list[float]:
    """RTTs above the smallest, in packets and in base RTTs, and how the smallest moves."""
    delay_s = (series.rtt_s - floor_s)[~np.isnan(series.rtt_s)]
    if not len(delay_s):
        return [0.0] * (2 * len(_QUANTILES) + 6)
    at = np.quantile(delay_s, _QUANTILES)
    values = [*np.log1p(at / packet_s).tolist(), *np.log1p(at / floor_s).tolist()]
    lowest = np.array([nan_max(-part) for part in np.array_split(series.rtt_s, _SEGMENTS)]) * -1.0
    lowest = lowest[~np.isnan(lowest)] - floor_s
    halves = np.array_split(lowest, 2)
    values += [float(np.log1p(max(lowest.max(), 0) / packet_s)), float(np.log1p(max(lowest.max(), 0) / floor_s))]
    values += [float(np.log1p(max(halves[0].min(), 0) / packet_s)) if len(halves[0]) else 0.0]
    values += [float(np.log1p(max(halves[1].min(), 0) / packet_s)) if len(halves[1]) else 0.0]
    values += [float(np.median(np.abs(np.diff(delay_s))) / packet_s) if len(delay_s) > 1 else 0.0]
    in_flight = np.log(series.cwnd_pkts * packet_s / series.rtt_s)
    known = in_flight[np.isfinite(in_flight)]
    return [*values, float(np.median(known)) if len(known) else 0.0]


def _losses(losses: Windows, delay_s: NDArray[np.float64], longest_s: float) -> list[float]:
    """Retransmissions per packet, by the queue, and clustering."""
    lost, sent = np.nan_to_num(losses.lost_pkts), losses.sent_pkts
    total = float(lost.sum())
    share = total / max(float(sent.sum()), 1.0)
    recent = np.nan_to_num(np.maximum(delay_s, np.append([0.0], delay_s[:-1])))
    values = [math.log10(share + 1e-5), math.log10(total + 1), math.log10(sent.sum() + 1)]
    for low, high in ((-1.0, 0.3), (0.3, 0.7), (0.7, 2.0)):
        chosen = (recent > low * longest_s) & (recent <= high * longest_s)
        own = float(lost[chosen].sum()), float(sent[chosen].sum())
        values += [math.log10(own[0] / max(own[1], 1.0) + 1e-5), math.log10(own[1] + 1), math.log10(own[0] + 1)]
    at = recent[lost > 0]
    values += [float(at.mean() / longest_s) if len(at) and longest_s > 0 else 0.0]
    spread = [((part - share * own) ** 2).sum() / max(part.sum(), 1.0) for part, own in ((lost, sent),)]
    values += [math.log10(float(one) + 0.1) for one in spread]
    values += [float((lost > 0).mean()), math.log10(float(lost.max()) + 1)]
    return [*values, float(not np.isnan(losses.lost_pkts).all())]


def _circumstances(series: PathSeries, windows: Windows, floor_s: float, packet_s: float) -> list[float]:
    """Circumstances under which the log was taken."""
    largest = series.largest
    step_s = float(np.median(np.diff(series.time_s)))
    cc, vantage = largest.cc, largest.vantage
    values: list[Any] = [not np.isnan(series.rtt_s).all(), not math.isnan(series.min_rtt_s), largest.min_rtt_is_bound]
    values += [vantage == "receiver", vantage == "tap", largest.options_cut, largest.counts_socket, largest.is_limited]
    values += [series.limited.mean(), windows.limited.mean(), np.isnan(series.cwnd_pkts).all(), cc in _BBR1]
    values += [cc.startswith("bbr") and cc not in _BBR1, cc == "cubic", cc in ("reno", "newreno")]
    values += [math.log(series.connections), _log(floor_s), _log(floor_s / packet_s), _log(series.duration_s / floor_s)]
    values += [math.log(len(windows)), math.log(len(series.time_s)), _log(step_s / floor_s), _log(step_s)]
    values += [_log(packet_s / step_s), math.log1p(series.step_bytes / (series.mss_bytes + HEADER_BYTES))]
    return [*map(float, values), _log(largest.late_s / packet_s), _log(series.min_rtt_s / floor_s)]


def _least_queue_s(series: PathSeries, rate_Bps: float) -> float:
    """Return the delay from which on a queue stands."""
    return float(np.nanmax([_QUEUE_S, _QUEUE_PKTS * series.packet_bytes / rate_Bps, _QUEUE_RTTS * series.floor_s]))


def _log(value: float) -> float:
    return math.log(value) if value > 0 and math.isfinite(value) else (NAN if math.isnan(value) else -_MOST)


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    known = ~(np.isnan(first) | np.isnan(second))
    if known.sum() < _LEAST_SAMPLES or np.ptp(first[known]) == 0 or np.ptp(second[known]) == 0:
        return 0.0
    return float(np.nan_to_num(np.corrcoef(first[known], second[known])[0, 1]))
