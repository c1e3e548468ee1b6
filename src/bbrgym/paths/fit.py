# SPDX-License-Identifier: GPL-2.0-only
"""Fits the facts of a path to the samples of connections over it.

The connection that delivered most is taken, with the others to the same peer: what they deliver is added up. For rates,
time is cut into windows of at least eight RTTs, a quarter of a second and a hundred packets (or twenty of the blocks in
which a log counts), in which ACKs that come in bursts weigh little; for losses, into windows of at least an RTT and
twenty packets.

Base RTT: the smallest RTT. Unless it may be the handshake's, whose packets are short, the time that the bottleneck
takes for a packet is not part of it; the interval has both. Without a minimum, the smallest smoothed RTT is an upper
bound.

Capacity, in IP bytes: while a queue stands, what is delivered to a lone flow grows on a straight line, since the link
sends nothing else. Where the link's rate changes the line bends once, and is straight again. Another sender puts its
packets between, so the line bends again and again, as the two windows move. Therefore the busy times, in which each
sample sees a queue, are cut into as few straight parts as meet all samples within a packet and a half and the error of
the log's times. More than 0.7 bends in a second, or in a third of the samples where these are rare, are a
competitor's, and the rate that was left is a trace. So is that of a link in steps, whose parts rest at different rates.
Parts of about the same rate are the capacity. A radio link that never rests looks like a competitor. In busy times of
less than a second or ten RTTs another sender's window may not have moved, so they tell of none.

Where there are no such times, or the rates spread and grow with the queue (those of a sender whose window grows on a
link that is not full), the first of these that the log has:

- The median delivery rate of the windows in which a queue stands and the application does not hold back, and the
  interval that has the median with 95 % (of the binomial distribution), if these rates spread by less than 20 %.
- The rate that a quarter of the windows exceed in which a queue forms, as BBR's probes make it, or of those with the
  longest standing queue if the rate grows with it; if they spread by less than 20 %.
- The highest rate as a lower bound.

Buffer: what the queue holds at the longest delay (but for a hundredth of the windows), if losses are more frequent with
such delays than with others; else a lower bound, as it is where the capacity is not seen or varies, where the base RTT
is but an upper bound, or where samples are more than 20 RTTs apart.

Random loss: retransmissions per packet in windows without a long queue and not right after one, with the interval of a
Poisson number. Fewer than three say little: they are an upper bound, or none if that is below 0.1 %. They are an upper
bound too where they come in bursts, which a full queue may have caused that a smoothed RTT does not show, where samples
are far apart, and where the rate varies, since other traffic may have filled the queue. Retransmissions that were not
needed count too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.paths.samples import DEFAULT_MSS_BYTES, NAN, Connection, PathLog, Sample
from bbrgym.scenario.model import HEADER_BYTES

_WINDOW_RTTS, _WINDOW_S, _WINDOW_PKTS = 8.0, 0.25, 100.0
_LEAST_WINDOWS = 5  # for a median with an interval
_STEADY_SPREAD = 0.2
_FILLING_SPREAD, _FILLING = 0.05, 0.3  # of rates that grow with the queue, and their correlation with it, at least
_RESTLESS_HZ, _LEAST_BENDS = 0.7, 3  # bends of a second of busy time that a competitor makes
_RESTLESS_SHARE = 0.35  # of the samples' bends, where samples are so rare that each may be one
_BENT_PKTS = 1.5  # an ACK for two packets comes a packet late
_LEAST_BUSY_S, _LEAST_BUSY_RTTS = 1.0, 10.0  # in which another sender's window would have moved
_LEAST_BUSY_PKTS = 40.0  # at rest, of which a packet and a half are little
_LEAST_SAMPLES = 3  # of a busy time
_ALIKE, _MOST_ALIKE = 0.05, 0.75  # so much of the busy time has rates within so much of their median
_WINDOW_STEPS = 20.0  # in which a log counts what was delivered
_LOSS_WINDOW_PKTS = 20.0
_HIGH, _LOW = 0.9, 0.1  # quantiles between which rates spread
_QUEUE_S, _QUEUE_PKTS, _QUEUE_RTTS = 0.001, 2.0, 0.05  # a queue stands from the largest of these on
_BUSY_QUEUES = 2.0  # so many times that in a busy time: bursts and late ACKs, which a smoothed RTT has anyhow, are none
_LONG_QUEUE, _SHORT_QUEUE = 0.7, 0.5  # of the longest
_LOSS_CONTRAST = 4.0  # of loss rates, from which on it is the full queue's
_LEAST_LOSSES = 3
_NO_LOSS = 0.001  # a bound below which too few losses for a rate are none: a CUBIC flow keeps more than 38 packets
_LATE_QUANTILE = 0.99
_SETTLING_WINDOWS = 2  # after a long queue, in which its losses are still sent again
_BURSTS = 2.5  # variance of losses by their mean from which on they come in bursts; 1 if they are independent
_SPARSE_RTTS = 20.0  # between samples, from which on their RTTs say little of the losses between them
_LEAST_CLEAR = 0.05  # share of the packets in windows without a long queue, to say something of them
_Z95 = 1.96
_MBPS = 8e-6  # Mbit/s of a byte per second


@dataclass(frozen=True)
class FittedValue:
    """A value with its interval; NaN: not seen. Without a value ``low`` or ``high`` is a bound."""

    value: float = NAN
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_seen(self) -> bool:
        """True if there is a value."""
        return not math.isnan(self.value)

    def times(self, factor: float) -> FittedValue:
        """Return it in another unit."""
        return FittedValue(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class RateTrace:
    """Rates that were left to the connections, [windows] each."""

    times_s: NDArray[np.float64]  # from 0 on
    rates_mbps: NDArray[np.float64]  # of IP bytes


@dataclass(frozen=True)
class PathFit:
    """Facts of a path.

    Attributes:
        format: of the log.
        connections: number of those to the peer.
        cc: congestion control of the largest; empty: the log does not tell.
        mss_bytes: payload of a full packet.
        duration_s: time that was watched.
        base_rtt_s: round trip without a queue.
        rate_mbps: capacity, of IP bytes.
        varies: whether the rate varied while a queue stood. None: not seen.
        competitor: whether other traffic took a part of the link, or it changes all the time. None: not seen.
        trace: the rate that was left to the connections, if it varies.
        buffer_bytes: size of the queue, IP bytes.
        random_loss: probability of each packet's loss but for a full queue.
    """

    format: str
    connections: int
    cc: str
    mss_bytes: int
    duration_s: float
    base_rtt_s: FittedValue
    rate_mbps: FittedValue
    varies: bool | None
    competitor: bool | None
    trace: RateTrace | None
    buffer_bytes: FittedValue
    random_loss: FittedValue


@dataclass(frozen=True)
class PathSeries:
    """Samples of all connections over a path, at the times of the largest, [samples] each."""

    time_s: NDArray[np.float64]
    delivered_bytes: NDArray[np.float64]
    retransmitted_pkts: NDArray[np.float64]
    rtt_s: NDArray[np.float64]
    limited: NDArray[np.bool_]
    min_rtt_s: float
    late_s: float  # error of the times
    step_bytes: float  # in which delivery is counted, 0: in packets

    @property
    def floor_s(self) -> float:
        """The smallest RTT of any kind; NaN without one."""
        return _nan_min(np.array([self.min_rtt_s, _nan_min(self.rtt_s)]))


@dataclass(frozen=True)
class _Windows:
    """Windows of time, [windows] each."""

    begin_s: NDArray[np.float64]
    length_s: NDArray[np.float64]
    rate: NDArray[np.float64]  # IP bytes per second
    sent_pkts: NDArray[np.float64]
    lost_pkts: NDArray[np.float64]
    longest_rtt_s: NDArray[np.float64]
    shortest_rtt_s: NDArray[np.float64]
    limited: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begin_s)


@dataclass(frozen=True)
class _Share:
    """Part of the capacity that was left; None: not seen. See `PathFit`."""

    varies: bool | None
    competitor: bool | None


@dataclass(frozen=True)
class _Busy:
    """Straight parts of the times in which a queue stood, [parts] each.

    Attributes:
        seconds: length of each.
        rates: of each, in IP bytes per second.
        rests: whether more than two samples are on it, and something was delivered; others may be a change or a pause.
        bends: number of those between them.
        samples: number of those that might have been a bend.
    """

    seconds: NDArray[np.float64]
    rates: NDArray[np.float64]
    rests: NDArray[np.bool_]
    bends: int
    samples: int

    def is_long_enough(self, packet_bytes: int) -> bool:
        """Return whether the parts at rest tell a rate."""
        return bool((self.seconds * self.rates)[self.rests].sum() >= _LEAST_BUSY_PKTS * packet_bytes)

    @property
    def is_restless(self) -> bool:
        """Return whether the rate moves as beside another sender."""
        most = min(_RESTLESS_HZ * self.seconds.sum(), _RESTLESS_SHARE * self.samples)
        return self.bends >= _LEAST_BENDS and self.bends > most

    def rate(self) -> tuple[FittedValue, bool]:
        """Return the rate of the middle of the time at rest, and whether most of it has about the same."""
        order = np.argsort(self.rates[self.rests])
        rates, seconds = self.rates[self.rests][order], self.seconds[self.rests][order]
        share = np.cumsum(seconds) / seconds.sum()
        low, middle, high = (float(rates[np.searchsorted(share, at)]) for at in (_LOW, 0.5, _HIGH))
        is_near = np.abs(rates - middle) <= _ALIKE * middle
        return FittedValue(middle, low, high), bool(seconds[is_near].sum() >= _MOST_ALIKE * seconds.sum())


def fit_path(log: PathLog) -> PathFit:
    """Return the facts of the path that a log's largest connection took."""
    largest, group = _path_of(log)
    mss_bytes = DEFAULT_MSS_BYTES if math.isnan(largest.mss_bytes) else round(largest.mss_bytes)
    series = _series(largest, group)
    steps_pkts = _WINDOW_STEPS * series.step_bytes / mss_bytes
    windows = _windows(series, mss_bytes, _WINDOW_RTTS, _WINDOW_S, max(_WINDOW_PKTS, steps_pkts))
    packet_bytes = mss_bytes + HEADER_BYTES
    rate_Bps, share = _capacity(windows, series, packet_bytes)
    reference_Bps = rate_Bps.value if rate_Bps.is_seen else rate_Bps.low
    base_rtt_s = _base_rtt(series, packet_bytes / reference_Bps, has_handshake=largest.has_handshake)
    losses = _windows(series, mss_bytes, 1.0, 0.0, _LOSS_WINDOW_PKTS)
    is_told = not share.varies and bool(np.median(np.diff(series.time_s)) < _SPARSE_RTTS * base_rtt_s.value)
    is_sized = is_told and rate_Bps.is_seen and math.isfinite(base_rtt_s.low)
    delay_s = np.nan_to_num(losses.longest_rtt_s - base_rtt_s.value - packet_bytes / reference_Bps)
    return PathFit(
        format=log.format,
        connections=len(group),
        cc=largest.cc,
        mss_bytes=mss_bytes,
        duration_s=float(series.time_s[-1] - series.time_s[0]),
        base_rtt_s=base_rtt_s,
        rate_mbps=rate_Bps.times(_MBPS),
        varies=share.varies,
        competitor=share.competitor,
        trace=_trace(windows) if share.varies else None,
        buffer_bytes=_buffer(losses, delay_s, reference_Bps, packet_bytes, is_sized=is_sized),
        random_loss=_random_loss(losses, delay_s, is_told=is_told),
    )


def series_of(log: PathLog) -> PathSeries:
    """Return the samples of the connections whose path `fit_path` fits."""
    return _series(*_path_of(log))


# ---- samples and windows -----------------------------------------------------------------------------------


def _path_of(log: PathLog) -> tuple[Connection, Sequence[Connection]]:
    """Return the connection that delivered most, and all to its peer."""
    largest = max(log.connections, key=lambda one: one.delivered_bytes)
    return largest, [one for one in log.connections if (one.peer, one.at_sender) == (largest.peer, largest.at_sender)]


def _series(largest: Connection, group: Sequence[Connection]) -> PathSeries:
    columns = dict(zip(Sample._fields, largest.table().T, strict=True))
    delivered, retransmitted = columns["delivered_bytes"].copy(), columns["retransmitted_pkts"].copy()
    min_rtts = []
    for connection in group:
        table = dict(zip(Sample._fields, connection.table().T, strict=True))
        if connection is not largest:
            for total, name in ((delivered, "delivered_bytes"), (retransmitted, "retransmitted_pkts")):
                total += np.interp(columns["time_s"], table["time_s"], table[name])
        min_rtts.append(_nan_min(np.concatenate((table["min_rtt_s"], [NAN]))))
    return PathSeries(
        columns["time_s"],
        delivered,
        retransmitted,
        columns["rtt_s"],
        columns["app_limited"] > 0,
        _nan_min(np.array(min_rtts)),
        largest.late_s,
        sum(one.step_bytes for one in group if one.step_bytes > 0),
    )


def _windows(series: PathSeries, mss_bytes: int, least_rtts: float, least_s: float, least_pkts: float) -> _Windows:
    """Cut the time at samples, into windows that are as long as the largest of three minima."""
    span_s = series.time_s[-1] - series.time_s[0]
    mean_Bps = (series.delivered_bytes[-1] - series.delivered_bytes[0]) / span_s
    rtts_s = 0.0 if math.isnan(series.floor_s) else least_rtts * series.floor_s
    least_s = min(max(rtts_s, least_s, least_pkts * mss_bytes / mean_Bps), span_s)
    edges = [0]
    for index, time_s in enumerate(series.time_s):
        if time_s - series.time_s[edges[-1]] >= least_s * (1 - 1e-9):
            edges.append(index)
    at = np.array(edges)
    length_s = np.diff(series.time_s[at])
    delivered = np.diff(series.delivered_bytes[at])
    lost = np.diff(series.retransmitted_pkts[at])
    parts = [slice(begin, end + 1) for begin, end in itertools.pairwise(edges)]
    return _Windows(
        begin_s=series.time_s[at[:-1]],
        length_s=length_s,
        rate=delivered / length_s * (mss_bytes + HEADER_BYTES) / mss_bytes,
        sent_pkts=delivered / mss_bytes + np.nan_to_num(lost),
        lost_pkts=lost,
        longest_rtt_s=np.array([_nan_max(series.rtt_s[part]) for part in parts]),
        shortest_rtt_s=np.array([_nan_min(series.rtt_s[part]) for part in parts]),
        limited=np.array([bool(series.limited[part].mean() > 0.5) for part in parts]),
    )


# ---- facts -------------------------------------------------------------------------------------------------


def _capacity(windows: _Windows, series: PathSeries, packet_bytes: int) -> tuple[FittedValue, _Share]:
    """Return the capacity, and what becomes of it."""
    floor_s = series.floor_s
    free = ~windows.limited & (windows.rate > 0)
    if not free.any():
        return FittedValue(low=max(float(windows.rate.max()), 1.0)), _Share(None, None)
    highest_Bps = float(np.quantile(windows.rate[free], _HIGH))
    least_s = max(_QUEUE_S, _QUEUE_PKTS * packet_bytes / highest_Bps, _QUEUE_RTTS * floor_s)
    queue_s = windows.shortest_rtt_s - floor_s
    stands = free & (queue_s > least_s)
    rates = np.sort(windows.rate[stands])
    spread = _spread(rates) if len(rates) >= _LEAST_WINDOWS else NAN
    is_filling = spread > _FILLING_SPREAD and _correlation(queue_s[stands], windows.rate[stands]) >= _FILLING
    # Without a minimum RTT, a queue that never ends is not seen.
    steady = _Share(varies=False, competitor=None if math.isnan(series.min_rtt_s) else False)
    busy = _busy(series, least_s if math.isnan(series.min_rtt_s) else _BUSY_QUEUES * least_s, packet_bytes)
    if not (is_filling and spread > _STEADY_SPREAD) and busy.is_long_enough(packet_bytes):
        rate_Bps, is_alike = busy.rate()
        if busy.seconds.sum() < max(_LEAST_BUSY_S, _LEAST_BUSY_RTTS * floor_s):
            if is_alike:
                return rate_Bps, _Share(varies=False, competitor=None)
        elif busy.is_restless:
            return rate_Bps, _Share(varies=True, competitor=True)
        else:
            return rate_Bps, steady if is_alike else _Share(varies=True, competitor=False)
    if spread <= _STEADY_SPREAD:
        return _median(rates), steady
    if is_filling:
        stands &= queue_s > np.quantile(queue_s[stands], _HIGH) / 2
    else:
        stands = free & (windows.longest_rtt_s - floor_s > least_s)
    rates = np.sort(windows.rate[stands])
    if len(rates) >= _LEAST_WINDOWS and _spread(rates) <= _STEADY_SPREAD:
        return FittedValue(float(np.quantile(rates, 0.75)), float(np.median(rates)), float(rates[-1])), steady
    return FittedValue(low=highest_Bps), _Share(None, None)


def _busy(series: PathSeries, least_s: float, packet_bytes: int) -> _Busy:
    """Cut the times in which each sample sees a queue into straight parts."""
    has_queue = (series.rtt_s - series.floor_s > least_s) & ~series.limited
    ends = np.flatnonzero(np.diff(np.concatenate(([False], has_queue, [False]))))
    mss_bytes = packet_bytes - HEADER_BYTES
    bent_bytes = _BENT_PKTS * max(mss_bytes, series.step_bytes)
    parts: list[tuple[float, float]] = []
    rests: list[bool] = []
    bends, samples = 0, 0
    for begin, end in zip(ends[::2], ends[1::2], strict=True):
        if end - begin < _LEAST_SAMPLES:
            continue
        time_s, delivered = series.time_s[begin:end], series.delivered_bytes[begin:end]
        cuts = _straight_parts(time_s, delivered, bent_bytes, series.late_s)
        parts += zip(np.diff(time_s[cuts]), np.diff(delivered[cuts]) / mss_bytes * packet_bytes, strict=True)
        is_long = np.diff(cuts) > 1
        # A step between two samples bends twice.
        bends += len(cuts) - 2 - int((is_long[:-2] & ~is_long[1:-1] & is_long[2:]).sum())
        samples += end - begin - 1
        rests += (is_long & (np.diff(delivered[cuts]) > 0)).tolist()
    seconds, sent_bytes = np.array(parts).reshape(-1, 2).T
    return _Busy(seconds, sent_bytes / seconds, np.array(rests, np.bool_), bends, samples)


def _straight_parts(
    time_s: NDArray[np.float64], delivered: NDArray[np.float64], bent_bytes: float, late_s: float
) -> list[int]:
    """Return the samples at which straight parts begin and end: each is as long as one line meets all its samples."""
    cuts, low, high = [0], -math.inf, math.inf
    for index in range(1, len(time_s)):
        for _ in range(2):  # again if a new part begins
            seconds = time_s[index] - time_s[cuts[-1]]
            rate = (delivered[index] - delivered[cuts[-1]]) / seconds
            error = (bent_bytes + late_s * rate) / seconds
            low, high = max(low, rate - error), min(high, rate + error)
            if low <= high:
                break
            cuts.append(index - 1)
            low, high = -math.inf, math.inf
    return [*cuts, len(time_s) - 1]


def _median(rates: NDArray[np.float64]) -> FittedValue:
    half = _Z95 * math.sqrt(len(rates)) / 2
    ends = (int(np.clip(len(rates) / 2 + by, 0, len(rates) - 1)) for by in (-half - 1, half))
    low, high = (float(rates[end]) for end in ends)
    return FittedValue(float(np.median(rates)), low, high)


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(np.corrcoef(first, second)[0, 1])


def _spread(rates: NDArray[np.float64]) -> float:
    low, middle, high = np.quantile(rates, (_LOW, 0.5, _HIGH))
    return float((high - low) / middle)


def _trace(windows: _Windows) -> RateTrace:
    free = ~windows.limited & (windows.rate > 0)
    return RateTrace(windows.begin_s[free] - windows.begin_s[free][0], windows.rate[free] * _MBPS)


def _base_rtt(series: PathSeries, packet_s: float, *, has_handshake: bool) -> FittedValue:
    lowest_s = _nan_min(series.rtt_s)
    if not math.isnan(series.min_rtt_s):
        low_s = max(series.min_rtt_s - packet_s, series.min_rtt_s / 2)
        return FittedValue(series.min_rtt_s if has_handshake else low_s, low_s, series.min_rtt_s)
    if math.isnan(lowest_s):
        return FittedValue()
    return FittedValue(max(lowest_s - packet_s, lowest_s / 2), -math.inf, lowest_s)


def _buffer(
    windows: _Windows, delay_s: NDArray[np.float64], rate_Bps: float, packet_bytes: int, *, is_sized: bool
) -> FittedValue:
    longest_s = _longest(delay_s)
    if longest_s <= 0:
        return FittedValue()
    is_long = _recent(delay_s) >= _LONG_QUEUE * longest_s
    lost, sent = np.nan_to_num(windows.lost_pkts), windows.sent_pkts
    is_filled = (
        longest_s > max(_QUEUE_S, _QUEUE_PKTS * packet_bytes / rate_Bps)
        and lost[is_long].sum() >= _LEAST_LOSSES
        and _ratio(lost[is_long], sent[is_long]) >= _LOSS_CONTRAST * _ratio(lost[~is_long], sent[~is_long])
    )
    if not is_sized or not is_filled:
        return FittedValue(low=longest_s * rate_Bps)
    shortest_s = float(np.median(delay_s[is_long & (lost > 0)]))
    return FittedValue(longest_s * rate_Bps, min(shortest_s, longest_s) * rate_Bps, longest_s * rate_Bps + packet_bytes)


def _random_loss(windows: _Windows, delay_s: NDArray[np.float64], *, is_told: bool) -> FittedValue:
    longest_s = _longest(delay_s)
    is_clear = np.ones(len(windows), np.bool_)
    if longest_s > 0:
        settling = _recent(delay_s) >= _SHORT_QUEUE * longest_s
        for _ in range(_SETTLING_WINDOWS):
            settling = settling | np.concatenate(([False], settling[:-1]))
        is_clear = ~settling
    sent, lost = windows.sent_pkts[is_clear], windows.lost_pkts[is_clear]
    packets, losses = float(sent.sum()), float(lost.sum())
    if packets < max(_WINDOW_PKTS, _LEAST_CLEAR * windows.sent_pkts.sum()) or math.isnan(losses):
        return FittedValue()
    middle, half = losses + _Z95**2 / 2, _Z95 * math.sqrt(losses + _Z95**2 / 4)
    low, high = max(middle - half, 0.0) / packets, min((middle + half) / packets, 1.0)
    share = losses / packets
    if high > _NO_LOSS and losses < _LEAST_LOSSES:
        return FittedValue(high=high)
    if not is_told or (losses > 0 and ((lost - share * sent) ** 2).sum() / losses >= _BURSTS):
        return FittedValue(high=high)
    return FittedValue(share, low, high)


def _longest(delay_s: NDArray[np.float64]) -> float:
    """Return the longest delay but for a hundredth of the windows, in which a host may have been late."""
    return float(np.quantile(delay_s, _LATE_QUANTILE))


def _recent(delay_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the longest delay of each window and the one before it, whose losses may be repaired only now."""
    return np.maximum(delay_s, np.concatenate(([0.0], delay_s[:-1])))


def _ratio(lost: NDArray[np.float64], sent: NDArray[np.float64]) -> float:
    return float(lost.sum() / max(sent.sum(), 1.0))


def _nan_min(values: NDArray[Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known.min()) if len(known) else NAN


def _nan_max(values: NDArray[Any]) -> float:
    return -_nan_min(-values)
