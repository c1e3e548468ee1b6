# SPDX-License-Identifier: GPL-2.0-only
"""Fits the facts of a path to the samples of connections.

The connection that delivered most is taken, with those to the same peer at the same time: what they deliver is added.
`bbrgym.paths.proposals` says how each fact is proposed, `bbrgym.paths.gate` which proposals are told as seen. What is
left is told as a bound. Nothing is told that the log's own numbers refute:

- The capacity is at least what arrived, by the receiver's total where the log has it, and a capacity that is told as
  seen is not below that.
- Random loss is what a flow of CUBIC or Reno could have carried its rate with (RFC 9438, 5.1; RFC 3649, 1): more is no
  more than an upper bound.
- Without a minimum RTT, or with one that a queue may have been in, the base RTT has an upper bound alone.

Where the delay jumps (`bbrgym.paths.jumps`), the rest is fitted to RTTs without these steps. Where the rate varies, as
beside another sender, the rates that were left are a trace. `bbrgym.paths.mirror` holds the
result against the log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bbrgym.paths.features import path_features
from bbrgym.paths.gate import trusted
from bbrgym.paths.jumps import DelaySteps, delay_steps
from bbrgym.paths.proposals import FittedValue, Proposal, propose
from bbrgym.paths.samples import PathLog
from bbrgym.paths.series import PathSeries, Windows, nan_max, series_of, windows_of

__all__ = ["FittedValue", "PathFit", "RateTrace", "fit_path"]

_MBPS = 8e-6  # Mbit/s of a byte per second
_ARRIVED_RTTS, _ARRIVED_S, _ARRIVED_PKTS, _ARRIVED_STEPS = 4.0, 1.0, 200.0, 20.0  # least window of what arrived
_BURST_PKTS = 4.0  # that ACKs may put into a window too many
_ARRIVED_ERROR, _RECEIVED_ERROR = 0.02, 0.001  # of clocks, and of a delay that falls meanwhile
LOSS_BURSTS = 2.0  # variance by mean of losses from which on a full queue may have made them
_LEAST_TRACE = 2  # windows of a rate that varies, as a scenario's trace needs them
_RESPONSE_TIMES = 2.0  # the rate by a response function that a run may have


@dataclass(frozen=True)
class RateTrace:
    """Rates that were left to the connections, [windows] each."""

    times_s: NDArray[np.float64]  # from 0 on
    rates_mbps: NDArray[np.float64]  # of IP bytes


@dataclass(frozen=True)
class PathFit:
    """Facts of a path."""

    format: str  # of the log
    connections: int  # number of those to the peer at the same time
    cc: str  # congestion control of the largest; empty: the log does not tell
    mss_bytes: int  # payload of a full packet
    duration_s: float  # time that was watched
    goodput_mbps: float  # mean rate of payload that was delivered
    base_rtt_s: FittedValue  # round trip without a queue
    rate_mbps: FittedValue  # capacity, of IP bytes
    arrived_mbps: float  # a rate that arrived, of IP bytes: a lower bound of the capacity
    varies: bool | None  # whether the rate varied while a queue stood. None: not seen.
    # whether other traffic took a part of the link, or it changes all the time. None: not seen.
    competitor: bool | None
    trace: RateTrace | None  # the rate that was left to the connections, if it varies
    buffer_bytes: FittedValue  # size of the queue, IP bytes
    random_loss: FittedValue  # probability of each packet's loss but for a full queue
    notes: tuple[str, ...] = ()  # clauses on the log and its path, for people
    delays: DelaySteps | None = None  # by which the delay jumps
    explained_by: str = ""  # congestion control whose run gives what the log has. Empty: none


def fit_path(log: PathLog) -> PathFit:
    """Return the facts of the path that a log's largest connection took."""
    series = series_of(log)
    delays = delay_steps(series)
    if delays is not None:
        rest_s = series.rtt_s - delays.at(series.time_s - series.time_s[0])
        series = replace(series, rtt_s=np.maximum(rest_s, series.floor_s))
    proposal = propose(series)
    is_trusted = trusted(path_features(series, proposal))
    arrived = _arrived(series)
    competitor, varies = _share(proposal, is_trusted)
    trace = _trace(proposal.windows) if varies else None
    if trace is not None and len(trace.times_s) < _LEAST_TRACE:
        trace = varies = competitor = None
    rate = _rate(proposal, arrived, is_told=is_trusted["rate"] and not varies)
    if not rate.is_seen and varies is False:
        varies = None
    return PathFit(
        format=log.format,
        connections=series.connections,
        cc=series.largest.cc,
        mss_bytes=series.mss_bytes,
        duration_s=series.duration_s,
        goodput_mbps=float(series.delivered_bytes[-1] - series.delivered_bytes[0]) / series.duration_s * _MBPS,
        base_rtt_s=_base_rtt(proposal, series),
        rate_mbps=rate.times(_MBPS),
        arrived_mbps=arrived * _MBPS,
        varies=varies,
        competitor=competitor,
        trace=trace,
        buffer_bytes=_buffer(proposal, is_trusted, is_sized=rate.is_seen),
        random_loss=_loss(proposal, series, is_trusted),
        notes=(*series.largest.notes, *_delay_notes(delays, is_changing=is_trusted["longer"])),
        delays=delays,
    )


def _delay_notes(delays: DelaySteps | None, *, is_changing: bool) -> list[str]:
    if delays is None:
        return ["its delay changes"] if is_changing else []
    jumps = len(delays.times_s) - 1
    most_ms = delays.delays_s.max() * 1e3
    return [f"its delay changes: {jumps} jump{'s' if jumps > 1 else ''}, to {most_ms:.3g} ms above its least"]


def _share(proposal: Proposal, is_trusted: dict[str, bool]) -> tuple[bool | None, bool | None]:
    """Return whether there is a competitor and whether the rate varies, as far as known."""
    if proposal.competitor and is_trusted["shared"]:
        return True, True
    if proposal.varies and is_trusted["steps"]:
        return False, True
    if proposal.varies or not is_trusted["rate"]:
        return None, None
    return proposal.competitor, proposal.varies


def _rate(proposal: Proposal, arrived: float, *, is_told: bool) -> FittedValue:
    """Return the capacity in IP bytes per second: what is proposed, above what arrived, or a bound."""
    rate = proposal.rate
    if not is_told or not rate.is_seen or rate.value < arrived:
        return FittedValue(low=arrived)
    return FittedValue(rate.value, max(rate.low, arrived), rate.high)


def _arrived(series: PathSeries) -> float:
    """Return the rate that arrived at least, in IP bytes per second."""
    if not math.isnan(series.received_rate):
        return series.received_rate * (1 - _RECEIVED_ERROR)
    spare_bytes = series.step_bytes + _BURST_PKTS * series.mss_bytes
    if series.largest.counts_socket:  # all that was ever in the socket's buffer, as tcp_sndbuf_expand sizes it
        spare_bytes += 2 * np.nan_to_num(nan_max(series.cwnd_pkts)) * series.mss_bytes * series.connections
    if series.largest.counts_socket or series.largest.options_cut:  # without SACK blocks, delivery leaps at a gap's end
        windows = windows_of(series, 0.0, math.inf, 0.0)
    else:
        least_pkts = max(_ARRIVED_PKTS, _ARRIVED_STEPS * series.step_bytes / series.mss_bytes)
        windows = windows_of(series, _ARRIVED_RTTS, _ARRIVED_S, least_pkts)
    spare = spare_bytes * series.packet_bytes / series.mss_bytes / windows.length_s
    late = 1 + series.largest.late_s / windows.length_s
    return max(float(((windows.rate - spare) / late).max()) * (1 - _ARRIVED_ERROR), 1.0)


def _base_rtt(proposal: Proposal, series: PathSeries) -> FittedValue:
    """Return the base RTT; a tap at an unknown place sees an unknown part."""
    is_part = series.largest.vantage == "tap" and math.isnan(series.largest.ahead_s)
    return FittedValue() if is_part else proposal.base_rtt_s


def _buffer(proposal: Proposal, is_trusted: dict[str, bool], *, is_sized: bool) -> FittedValue:
    buffer = proposal.buffer_bytes
    if buffer.is_seen and is_sized and is_trusted["buffer"] and math.isfinite(proposal.base_rtt_s.low):
        return buffer
    return FittedValue(low=buffer.low) if is_trusted["buffer_low"] else FittedValue()


def _loss(proposal: Proposal, series: PathSeries, is_trusted: dict[str, bool]) -> FittedValue:
    loss = proposal.random_loss
    is_even = proposal.loss_bursts < LOSS_BURSTS
    if loss.is_seen and is_trusted["loss"] and is_even and not _is_refuted(loss.low, series):
        return loss
    return FittedValue(high=loss.high) if is_trusted["loss_high"] else FittedValue()


def _is_refuted(loss: float, series: PathSeries) -> bool:
    """Return whether the log's control could not have reached the measured rate with this random loss."""
    if loss <= 0 or series.largest.cc not in ("cubic", "reno", "newreno"):
        return False
    rtt_s = float(np.nanmedian(np.append(series.rtt_s, series.floor_s)))
    reno_pkts = math.sqrt(1.5 / loss)
    cubic_pkts = 1.054 * (rtt_s / loss) ** 0.75 if series.largest.cc == "cubic" else 0.0
    most_pkts = max(reno_pkts, cubic_pkts) * _RESPONSE_TIMES * series.connections
    had_pkts = (series.delivered_bytes[-1] - series.delivered_bytes[0]) / series.duration_s * rtt_s / series.mss_bytes
    return bool(had_pkts > most_pkts)


def _trace(windows: Windows) -> RateTrace:
    free = ~windows.limited & (windows.rate > 0)
    return RateTrace(windows.begin_s[free] - windows.begin_s[free][0], windows.rate[free] * _MBPS)
