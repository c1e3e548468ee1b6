# SPDX-License-Identifier: GPL-2.0-only
"""Compares a fitted path with the log: the scenario runs in the fast world with the log's congestion control.

A fit whose runs have another goodput, mean RTT or loss than the log, by more than runs of one path differ, does not
explain the log: then capacity, buffer and random loss are told as bounds alone. Values that the log does not tell are
tried from a range, since any of them may be the true one. A capture and qlog name no control: one of those in wide use
has to explain them. A log that names a control that the fast world lacks is not checked, and tells bounds alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bbrgym.paths.fit import FittedValue, PathFit, fit_path
from bbrgym.paths.fitted_scenario import scenario_fields
from bbrgym.paths.samples import PathLog
from bbrgym.paths.series import PathSeries, series_of
from bbrgym.scenario.files import parse_scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import FAST_WORLD, make_world

NOT_CHECKED = "not checked against a simulation"
NOT_EXPLAINED = "does not explain this log"

_USUAL = ("cubic", "bbr", "bbr3", "reno")  # of a log that names none
_KERNEL_NAMES = {"bbr1": "bbr", "newreno": "reno"}
_LONGEST_S, _MOST_PACKETS, _RUNS = 20.0, 4_000_000, 36  # some 2 s of CPU in all
_BEGINS_RTTS, _BEGINS_S = 10.0, 1.0  # of a run and a log, in which windows still grow
_BUFFERS_BDP = (1.0, 0.3, 4.0)  # tried where the log does not tell it
_RATE_ERROR, _RTT_ERROR, _RTT_ERROR_S = 0.15, 0.25, 0.003  # between runs of one path
_LOSS_TIMES, _LOSS_ERROR = 3.0, 0.006
_LIMITED = 0.3  # share of samples without data to send from which on the run has the log's mean rate to send


@dataclass(frozen=True)
class _Seen:
    """Means over a log or a run: goodput in Mbit/s, RTT in s, retransmissions per packet; NaN: not known."""

    goodput_mbps: float
    rtt_s: float
    loss: float

    def explains(self, log: _Seen) -> bool:
        """Return whether a run with these means may have given a log's."""
        rate = abs(self.goodput_mbps - log.goodput_mbps) <= _RATE_ERROR * log.goodput_mbps
        rtt = not abs(self.rtt_s - log.rtt_s) > _RTT_ERROR * log.rtt_s + _RTT_ERROR_S
        most, least = max(self.loss, log.loss), min(self.loss, log.loss)
        return rate and rtt and not most > _LOSS_TIMES * least + _LOSS_ERROR


def checked_fit(log: PathLog) -> PathFit:
    """Return the facts of the path of a log's largest connection, as far as runs with these facts explain the log."""
    return held_against(fit_path(log), series_of(log))


def held_against(fit: PathFit, series: PathSeries) -> PathFit:
    """Return a fit as far as runs of it explain its log, with a note that says so."""
    if not any(one.is_seen for one in (fit.rate_mbps, fit.buffer_bytes, fit.random_loss)):
        return fit
    named = _KERNEL_NAMES.get(fit.cc, fit.cc)
    controls = (named,) if named in VARIANTS else () if named else _USUAL
    if not controls or not fit.rate_mbps.is_seen or not fit.base_rtt_s.is_seen:
        return _bounded(fit, NOT_CHECKED)
    logged = _of_log(series)
    nearest: _Seen | None = None
    for control, fields in itertools.islice(_runs(fit, series, controls, logged), _RUNS):
        seen = _run(fields, control, fit, series)
        if seen.explains(logged):
            return replace(fit, explained_by=control, notes=(*fit.notes, f"a run of {control} on it agrees"))
        if nearest is None or abs(seen.goodput_mbps - logged.goodput_mbps) < abs(
            nearest.goodput_mbps - logged.goodput_mbps
        ):
            nearest = seen
    had = f"{logged.goodput_mbps:.3g} Mbit/s" + (f" at {logged.rtt_s * 1e3:.3g} ms" if logged.rtt_s > 0 else "")
    ran = "" if nearest is None else f", a run {nearest.goodput_mbps:.3g} Mbit/s at {nearest.rtt_s * 1e3:.3g} ms"
    return _bounded(fit, f"the fit {NOT_EXPLAINED} (it has {had}{ran}), so bounds alone are told")


def _bounded(fit: PathFit, note: str) -> PathFit:
    """Return a fit that tells bounds alone, but for the base RTT, which is measured."""
    rate = fit.rate_mbps
    return replace(
        fit,
        rate_mbps=FittedValue(low=fit.arrived_mbps) if rate.is_seen else rate,
        varies=fit.varies or None,
        competitor=fit.competitor or None,
        buffer_bytes=FittedValue() if fit.buffer_bytes.is_seen else fit.buffer_bytes,
        random_loss=FittedValue(high=fit.random_loss.high),
        notes=(*fit.notes, note),
    )


def _runs(fit: PathFit, series: PathSeries, controls: tuple[str, ...], logged: _Seen) -> Iterator[tuple[str, Any]]:
    """Yield a control and the fields of a scenario for each run, the likeliest first."""
    bdp_bytes = fit.rate_mbps.value * 125e3 * fit.base_rtt_s.value
    buffers = (
        [fit.buffer_bytes]
        if fit.buffer_bytes.is_seen
        else [FittedValue(max(part * bdp_bytes, fit.buffer_bytes.low)) for part in _BUFFERS_BDP]
    )
    losses = (
        [fit.random_loss]
        if fit.random_loss.is_seen
        else [
            FittedValue(0.0, 0.0, 0.0),
            *(FittedValue(one, one, one) for one in (logged.loss, logged.loss / 3) if one > 0),
        ]
    )
    app = {"app": {"kind": "cbr", "rate_mbps": _sent_mbps(series)}} if _is_limited(series) else {}
    for loss, buffer, control in itertools.product(losses, buffers, controls):
        fields = scenario_fields(replace(fit, buffer_bytes=buffer, random_loss=loss), "mirror", None)
        fields["flows"][0] |= app
        yield control, fields


def _run(fields: dict[str, Any], control: str, fit: PathFit, series: PathSeries) -> _Seen:
    packets_s = fit.rate_mbps.value * 125e3 / series.packet_bytes
    duration_s = min(fit.duration_s, _LONGEST_S, max(_MOST_PACKETS / _RUNS / packets_s, 2 * _BEGINS_S))
    begins_s = min(max(_BEGINS_S, _BEGINS_RTTS * fit.base_rtt_s.value), duration_s / 3)
    flows = [{**flow, "cc": control} for flow in fields["flows"]]
    scenario = parse_scenario({**fields, "duration_s": duration_s, "flows": flows})
    with closing(make_world(FAST_WORLD, scenario, 1, isolation="none")) as world:
        names = ("goodput_mbps", "rtt_mean_ms", "rtt_samples", "sent_pkts", "retransmitted_pkts")
        columns = [world.flow_fields.index(name) for name in names]
        world.advance(begins_s)
        world.advance(duration_s - begins_s)
        goodputs, rtts_ms, samples, sent, again = world.flow_stats()[:, columns].T
    rtt_s = float((rtts_ms * samples).sum() / max(samples.sum(), 1.0)) / 1e3
    return _Seen(float(goodputs.sum()), rtt_s, float(again.sum() / max(sent.sum(), 1.0)))


def _of_log(series: PathSeries) -> _Seen:
    """Return the means of a log without the beginning."""
    begins_s = min(max(_BEGINS_S, _BEGINS_RTTS * np.nan_to_num(series.floor_s)), series.duration_s / 3)
    first = int(np.searchsorted(series.time_s, series.time_s[0] + begins_s))
    first = min(first, len(series.time_s) - 2)
    delivered = series.delivered_bytes[-1] - series.delivered_bytes[first]
    again = series.retransmitted_pkts[-1] - series.retransmitted_pkts[first]
    rtts_s = series.rtt_s[first:]
    known = rtts_s[~np.isnan(rtts_s)]
    goodput_mbps = delivered * 8e-6 / (series.time_s[-1] - series.time_s[first])
    loss = again / max(delivered / series.mss_bytes + np.nan_to_num(again), 1.0)
    return _Seen(float(goodput_mbps), float(known.mean()) if len(known) else math.nan, float(loss))


def _is_limited(series: PathSeries) -> bool:
    return series.largest.is_limited or bool(series.limited.mean() > _LIMITED)


def _sent_mbps(series: PathSeries) -> float:
    sent_bytes = series.delivered_bytes[-1] - series.delivered_bytes[0]
    return float(sent_bytes * 8e-6 / series.duration_s / series.connections)
