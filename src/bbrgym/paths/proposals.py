# SPDX-License-Identifier: GPL-2.0-only
"""Proposals of a path's capacity, buffer and random loss by rules; `bbrgym.paths.gate` decides which to trust.

For rates, time is cut into windows of at least eight RTTs, a quarter of a second and a hundred packets (or twenty of
the blocks in which a log counts), in which ACKs that come in bursts weigh little; for losses, into windows of at least
an RTT and twenty packets.

Capacity, in IP bytes: while a queue stands, what is delivered to a lone flow grows on a straight line, since the link
sends nothing else. Where the link's rate changes the line bends once, and is straight again. Another sender puts its
packets between, so the line bends again and again, as the two windows move. Therefore the busy times, in which each
sample sees a queue, are cut into as few straight parts as meet all samples within a packet and a half and the error of
the log's times. More than 0.7 bends in a second, or in a third of the samples where these are rare, are a
competitor's. Parts that rest at different rates are those of a link in steps; of about the same rate, the capacity.

Where there are no such times, or the rates spread and grow with the queue (those of a sender whose window grows on a
link that is not full), the first of these that the log has:

- The median delivery rate of the windows in which a queue stands and the application does not hold back, if these
  rates spread by less than 20 %.
- The rate that a quarter of the windows exceed in which a queue forms, as BBR's probes make it, or of those with the
  longest standing queue if the rate grows with it; if they spread by less than 20 %.

Buffer: what the queue holds at the longest delay (but for a hundredth of the windows), if losses are more frequent with
such delays than with others; else a lower bound.

Random loss: retransmissions per packet in windows without a long queue and not right after one, with the interval of a
Poisson number. Fewer than three say little: they are an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bbrgym.paths.samples import NAN
from bbrgym.paths.series import PathSeries, Windows, windows_of
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
_RATE_ERRORS = (0.985, 1.03)  # of the value, that the interval has at least
_BUFFER_ERRORS = (0.9, 1.35)
_LOSS_ERRORS = (0.75, 1.35)
_LEAST_CLEAR = 0.05  # share of the packets in windows without a long queue, to say something of them
_Z95 = 1.96


@dataclass(frozen=True)
class FittedValue:
    """A value with an interval; NaN: not seen. Without a value ``low`` or ``high`` is a bound."""

    value: float = NAN
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_seen(self) -> bool:
        """True if there is a value."""
        return not math.isnan(self.value)

    def widened(self, less: float, more: float) -> FittedValue:
        """Return the value with an interval that reaches at least from so many times the value to so many."""
        if not self.is_seen:
            return self
        return FittedValue(self.value, min(self.low, less * self.value), max(self.high, more * self.value))

    def times(self, factor: float) -> FittedValue:
        """Return the value and interval in another unit."""
        return FittedValue(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Proposal:
    """Facts of a path as rules have them."""

    windows: Windows  # in which rates are looked at
    losses: Windows  # in which losses are
    rate: FittedValue  # capacity; without a value a lower bound; IP bytes per second
    busy: Busy  # straight parts of the busy times
    varies: bool | None  # whether the rate varied while a queue stood. None: not seen.
    # whether other traffic took a part of the link, or it changes all the time. None: not seen.
    competitor: bool | None
    base_rtt_s: FittedValue  # round trip without a queue
    buffer_bytes: FittedValue  # size of the queue; without a value a lower bound
    random_loss: FittedValue  # probability of each packet's loss but for a full queue; without a value an upper bound
    loss_bursts: float  # variance by mean of the losses in a window: 1 if they are independent


@dataclass(frozen=True)
class Busy:
    """Straight parts of the times in which a queue stood, [parts] each."""

    seconds: NDArray[np.float64]  # length of each
    rates: NDArray[np.float64]  # of each, in IP bytes per second
    # whether more than two samples are on it, and something was delivered; others may be a change or a pause
    rests: NDArray[np.bool_]
    bends: int  # number of those between them
    samples: int  # number of those that might have been a bend

    def is_long_enough(self, packet_bytes: int) -> bool:
        """Return whether the parts at rest tell a rate."""
        return bool((self.seconds * self.rates)[self.rests].sum() >= _LEAST_BUSY_PKTS * packet_bytes)

    @property
    def is_restless(self) -> bool:
        """Return whether the rate moves as beside another sender."""
        most = min(_RESTLESS_HZ * self.seconds.sum(), _RESTLESS_SHARE * self.samples)
        return self.bends >= _LEAST_BENDS and self.bends > most

    def rate(self) -> tuple[FittedValue, bool]:
        """Return the median rate over the time at rest, and whether most of that time has about this rate."""
        order = np.argsort(self.rates[self.rests])
        rates, seconds = self.rates[self.rests][order], self.seconds[self.rests][order]
        share = np.cumsum(seconds) / seconds.sum()
        low, middle, high = (float(rates[np.searchsorted(share, at)]) for at in (_LOW, 0.5, _HIGH))
        is_near = np.abs(rates - middle) <= _ALIKE * middle
        return FittedValue(middle, low, high), bool(seconds[is_near].sum() >= _MOST_ALIKE * seconds.sum())


_Capacity = tuple[FittedValue, Busy, bool | None, bool | None]


def propose(series: PathSeries) -> Proposal:
    """Return the facts of a path by rules."""
    steps_pkts = _WINDOW_STEPS * series.step_bytes / series.mss_bytes
    windows = windows_of(series, _WINDOW_RTTS, _WINDOW_S, max(_WINDOW_PKTS, steps_pkts))
    losses = windows_of(series, 1.0, 0.0, max(_LOSS_WINDOW_PKTS, steps_pkts / 4))
    rate_Bps, busy, varies, competitor = _capacity(windows, series, series.packet_bytes)
    reference_Bps = rate_Bps.value if rate_Bps.is_seen else rate_Bps.low
    packet_s = series.packet_bytes / reference_Bps
    base_rtt_s = _base_rtt(series, packet_s)
    delay_s = np.nan_to_num(losses.longest_rtt_s - base_rtt_s.value - packet_s)
    random_loss, loss_bursts = _random_loss(losses, delay_s)
    rate_Bps, random_loss = rate_Bps.widened(*_RATE_ERRORS), random_loss.widened(*_LOSS_ERRORS)
    buffer_bytes = _buffer(losses, delay_s, reference_Bps, series.packet_bytes).widened(*_BUFFER_ERRORS)
    shared = (busy, varies, competitor)
    return Proposal(windows, losses, rate_Bps, *shared, base_rtt_s, buffer_bytes, random_loss, loss_bursts)


def _capacity(windows: Windows, series: PathSeries, packet_bytes: int) -> _Capacity:
    """Return the capacity, the busy times, and whether the rate varies or is shared."""
    floor_s = series.floor_s
    nothing = Busy(np.zeros(0), np.zeros(0), np.zeros(0, np.bool_), 0, 0)
    free = ~windows.limited & (windows.rate > 0)
    if not free.any():
        return FittedValue(low=max(float(windows.rate.max()), 1.0)), nothing, None, None
    highest_Bps = float(np.quantile(windows.rate[free], _HIGH))
    least_s = max(_QUEUE_S, _QUEUE_PKTS * packet_bytes / highest_Bps, _QUEUE_RTTS * floor_s)
    queue_s = windows.shortest_rtt_s - floor_s
    stands = free & (queue_s > least_s)
    rates = np.sort(windows.rate[stands])
    spread = _spread(rates) if len(rates) >= _LEAST_WINDOWS else NAN
    is_filling = spread > _FILLING_SPREAD and _correlation(queue_s[stands], windows.rate[stands]) >= _FILLING
    # Without a minimum RTT, a queue that never ends is not seen.
    steady = (False, None if math.isnan(series.min_rtt_s) else False)
    busy = _busy(series, least_s if math.isnan(series.min_rtt_s) else _BUSY_QUEUES * least_s, packet_bytes)
    if not (is_filling and spread > _STEADY_SPREAD) and busy.is_long_enough(packet_bytes):
        rate_Bps, is_alike = busy.rate()
        if busy.seconds.sum() < max(_LEAST_BUSY_S, _LEAST_BUSY_RTTS * floor_s):
            if is_alike:
                return rate_Bps, busy, False, None
        elif busy.is_restless:
            return rate_Bps, busy, True, True
        else:
            return rate_Bps, busy, *(steady if is_alike else (True, False))
    if spread <= _STEADY_SPREAD:
        return _median(rates), busy, *steady
    if is_filling:
        stands &= queue_s > np.quantile(queue_s[stands], _HIGH) / 2
    else:
        stands = free & (windows.longest_rtt_s - floor_s > least_s)
    rates = np.sort(windows.rate[stands])
    if len(rates) >= _LEAST_WINDOWS and _spread(rates) <= _STEADY_SPREAD:
        return FittedValue(float(np.quantile(rates, 0.75)), float(np.median(rates)), float(rates[-1])), busy, *steady
    return FittedValue(low=highest_Bps), busy, None, None


def _busy(series: PathSeries, least_s: float, packet_bytes: int) -> Busy:
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
        cuts = _straight_parts(time_s, delivered, bent_bytes, series.largest.late_s)
        parts += zip(np.diff(time_s[cuts]), np.diff(delivered[cuts]) / mss_bytes * packet_bytes, strict=True)
        is_long = np.diff(cuts) > 1
        # A step between two samples bends twice.
        bends += len(cuts) - 2 - int((is_long[:-2] & ~is_long[1:-1] & is_long[2:]).sum())
        samples += end - begin - 1
        rests += (is_long & (np.diff(delivered[cuts]) > 0)).tolist()
    seconds, sent_bytes = np.array(parts).reshape(-1, 2).T
    return Busy(seconds, sent_bytes / seconds, np.array(rests, np.bool_), bends, samples)


def _straight_parts(
    time_s: NDArray[np.float64], delivered: NDArray[np.float64], bent_bytes: float, late_s: float
) -> list[int]:
    """Return the samples at which straight parts begin and end, each as long as one line meets all samples."""
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
    with np.errstate(invalid="ignore", divide="ignore"):  # of values that differ by rounding alone
        return float(np.corrcoef(first, second)[0, 1])


def _spread(rates: NDArray[np.float64]) -> float:
    low, middle, high = np.quantile(rates, (_LOW, 0.5, _HIGH))
    return float((high - low) / middle)


def _base_rtt(series: PathSeries, packet_s: float) -> FittedValue:
    """Return the smallest RTT; unless a handshake's, whose packets are short, less the time that the link takes."""
    lowest_s = series.floor_s
    if math.isnan(lowest_s):
        return FittedValue()
    low_s = max(lowest_s - packet_s, lowest_s / 2)
    if math.isnan(series.min_rtt_s) or series.largest.min_rtt_is_bound:
        return FittedValue(low_s, -math.inf, lowest_s)
    return FittedValue(lowest_s if series.largest.has_handshake else low_s, low_s, lowest_s)


def _buffer(windows: Windows, delay_s: NDArray[np.float64], rate_Bps: float, packet_bytes: int) -> FittedValue:
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
    if not is_filled:
        return FittedValue(low=longest_s * rate_Bps)
    shortest_s = float(np.median(delay_s[is_long & (lost > 0)]))
    return FittedValue(longest_s * rate_Bps, min(shortest_s, longest_s) * rate_Bps, longest_s * rate_Bps + packet_bytes)


def _random_loss(windows: Windows, delay_s: NDArray[np.float64]) -> tuple[FittedValue, float]:
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
        return FittedValue(), NAN
    middle, half = losses + _Z95**2 / 2, _Z95 * math.sqrt(losses + _Z95**2 / 4)
    low, high = max(middle - half, 0.0) / packets, min((middle + half) / packets, 1.0)
    share = losses / packets
    if high > _NO_LOSS and losses < _LEAST_LOSSES:
        return FittedValue(high=high), NAN
    bursts = float(((lost - share * sent) ** 2).sum() / losses) if losses > 0 else 1.0
    return FittedValue(share, low, high), bursts


def _longest(delay_s: NDArray[np.float64]) -> float:
    """Return the longest delay but for a hundredth of the windows, in which a host may have been late."""
    return float(np.quantile(delay_s, _LATE_QUANTILE))


def _recent(delay_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the longest delay of each window and the previous one, whose losses may be repaired only now."""
    return np.maximum(delay_s, np.concatenate(([0.0], delay_s[:-1])))


def _ratio(lost: NDArray[np.float64], sent: NDArray[np.float64]) -> float:
    return float(lost.sum() / max(sent.sum(), 1.0))
