# SPDX-License-Identifier: GPL-2.0-only
"""The figure of a fitted path: a run of the fitted scenario in the fast world, laid over the log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.paths.fit import PathFit
from bbrgym.paths.samples import PathLog
from bbrgym.paths.series import PathSeries, series_of
from bbrgym.report.figure_spec import NEUTRAL, Axis, FigureSpec, Line, Panel, colour
from bbrgym.scenario.files import parse_scenario, with_variant
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import FAST_WORLD, make_world

_POINTS = 200  # of a line, at most
_LEAST_STEP_S = 0.1
_LEAST_SAMPLES = 2.0  # of the log in a step, in most
_LONGEST_S = 60.0  # of what is shown
_DEFAULT_CC = "bbr"  # of a log that does not tell


def fit_figures(
    logs: Mapping[str, PathLog], fits: Mapping[str, PathFit], scenarios: Sequence[Mapping[str, Any]], name: str
) -> list[FigureSpec]:
    """Return `fit_figure` of each log, with its number in the name if there are several."""
    names = [name] if len(fits) == 1 else [f"{name}-{index}" for index in range(len(fits))]
    return [
        fit_figure(fit, series_of(logs[log]), fields, own)
        for (log, fit), fields, own in zip(fits.items(), scenarios, names, strict=True)
    ]


def fit_figure(fit: PathFit, series: PathSeries, fields: Mapping[str, Any], name: str) -> FigureSpec:
    """Specify goodput and RTT over time: of a log, and of a run by the control that it names or that explains it."""
    duration_s = min(fit.duration_s, _LONGEST_S)
    step_s = max(_LEAST_STEP_S, duration_s / _POINTS, _LEAST_SAMPLES * float(np.median(np.diff(series.time_s))))
    duration_s = step_s * max(math.floor(duration_s / step_s), 1)
    cc = fit.explained_by or (fit.cc if fit.cc in VARIANTS else _DEFAULT_CC)
    logged, run = _logged(series, duration_s, step_s), _run(fields, cc, duration_s, step_s)
    shown = ((logged, f"log{f', {fit.cc}' if fit.cc else ''}", NEUTRAL), (run, f"fitted scenario, {cc}", colour(0)))
    goodputs, rtts = ([Line(one[0], one[row], label, drawn) for one, label, drawn in shown] for row in (1, 2))
    time = Axis("time (s)", starts_at_zero=True)
    return FigureSpec(
        name=f"fit-{name}",
        title=f"The log and a run of the scenario fitted to it: {name}",
        panels=[
            Panel(time, Axis("goodput (Mbit/s)", starts_at_zero=True), goodputs),
            Panel(time, Axis("RTT (ms)", starts_at_zero=True), rtts),
        ],
        shares_x=True,
        note=f"Means of {step_s:.3g} s. The run has the log's congestion control, or one that explains the log, else "
        f"{_DEFAULT_CC}; it begins with the connection, which a log may not.",
    )


def _logged(series: PathSeries, duration_s: float, step_s: float) -> NDArray[np.float64]:
    """Return times in s, goodputs in Mbit/s and RTTs in ms of a log: [3, steps]."""
    times_s = series.time_s - series.time_s[0]
    edges_s = np.arange(0.0, duration_s + step_s / 2, step_s)
    delivered = np.interp(edges_s, times_s, series.delivered_bytes)
    at = np.searchsorted(edges_s, times_s)
    rtts_ms = np.full(len(edges_s) - 1, math.nan)
    for index in range(1, len(edges_s)):
        known = series.rtt_s[(at == index) & ~np.isnan(series.rtt_s)]
        if len(known):
            rtts_ms[index - 1] = known.mean() * 1e3
    return np.array([edges_s[1:], np.diff(delivered) * 8e-6 / step_s, rtts_ms])


def _run(fields: Mapping[str, Any], cc: str, duration_s: float, step_s: float) -> NDArray[np.float64]:
    """Return the same of a run in the fast world."""
    scenario = with_variant(parse_scenario({**fields, "duration_s": max(duration_s, step_s)}), cc)
    rows = []
    with closing(make_world(FAST_WORLD, scenario, 1, isolation="none")) as world:
        columns = [world.flow_fields.index(name) for name in ("goodput_mbps", "rtt_mean_ms")]
        for _ in range(max(round(duration_s / step_s), 1)):
            world.advance(step_s)
            goodputs, rtts_ms = world.flow_stats()[:, columns].T
            known = rtts_ms[rtts_ms > 0]
            rows.append((world.now_s, goodputs.sum(), known.mean() if len(known) else math.nan))
    return np.array(rows).T
