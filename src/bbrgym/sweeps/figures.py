# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a sweep: on paper (Matplotlib) and on the page (Plotly)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.figure import Figure as Paper

from bbrgym.report.interactive import GRID, LEGEND_ON_TOP, PALETTE
from bbrgym.report.page import Figure
from bbrgym.report.plots import NEUTRAL
from bbrgym.sweeps.figure_data import Curve, Panel, curves, panels
from bbrgym.sweeps.results import Results

_COLUMNS = 3
_OPACITY = 0.15


def on_paper(results: Results) -> Iterator[tuple[str, Paper]]:
    """Names, without ending, and figures."""
    shown = panels(results)
    if shown:
        yield "scores", _scores_on_paper(shown, results.metric)
    lines = list(curves(results))
    if lines:
        yield "curves", _curves_on_paper(lines)


def on_page(results: Results) -> Iterator[Figure]:
    """The same, interactive."""
    shown = panels(results)
    if shown:
        yield _scores_on_page(shown, results.metric)
    lines = list(curves(results))
    if lines:
        yield _curves_on_page(lines)


# ---- the metric over each parameter -------------------------------------------------------------------


def _scores_on_paper(shown: Sequence[Panel], metric: str) -> Paper:
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Paper(figsize=(4.5 * columns, 3.2 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for axes, panel in zip(grid.flat, shown, strict=False):
        axes.plot(panel.values, panel.scores, "o", color=NEUTRAL, markersize=4, alpha=0.6)
        axes.plot(*panel.means(), "D-" if panel.is_numeric else "D", color=PALETTE[0], markersize=5, linewidth=1)
        axes.set_xlabel(panel.parameter)
        axes.set_xscale("log" if panel.is_log else "linear") if panel.is_numeric else None
        axes.grid(alpha=0.3)
    for axes in grid.flat[len(shown) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel(metric)
    return figure


def _scores_on_page(shown: Sequence[Panel], metric: str) -> Figure:
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "grid": {"rows": rows, "columns": columns, "pattern": "independent"},
        "showlegend": False,
        "margin": {"l": 60, "r": 20, "t": 20, "b": 55},
    }
    for number, panel in enumerate(shown, start=1):
        at = "" if number == 1 else str(number)
        values, means = panel.means()
        points = {"marker": {"color": NEUTRAL, "opacity": 0.6}, "text": panel.jobs, "mode": "markers"}
        middle = {"marker": {"color": PALETTE[0], "symbol": "diamond", "size": 9}, "line": {"width": 1}}
        axis = {"type": "scatter", "xaxis": f"x{at}", "yaxis": f"y{at}"}
        traces.append({**axis, **points, "x": panel.values, "y": panel.scores, "name": "job"})
        mode = "lines+markers" if panel.is_numeric else "markers"
        traces.append({**axis, **middle, "x": values, "y": means, "mode": mode, "name": "mean"})
        kind = "category" if not panel.is_numeric else "log" if panel.is_log else "linear"
        layout[f"xaxis{at}"] = {**GRID, "title": {"text": panel.parameter}, "type": kind}
        layout[f"yaxis{at}"] = {**GRID, "title": {"text": metric if (number - 1) % columns == 0 else ""}}
        if number > 1:
            layout[f"yaxis{at}"]["matches"] = "y"
    note = "A point is a job, a diamond the mean of a value. The pointer on a point shows the job's name."
    return Figure(f"{metric} by parameter", traces, layout, height_px=110 + 260 * rows, note=note)


# ---- the validation score over steps ------------------------------------------------------------------


def _curves_on_paper(lines: Sequence[Curve]) -> Paper:
    figure = Paper(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for curve, colour in zip(lines, PALETTE, strict=False):
        axes.fill_between(curve.steps, curve.lows, curve.highs, color=colour, alpha=_OPACITY, linewidth=0)
        axes.plot(curve.steps, curve.means, color=colour, marker=".", label=curve.label)
    axes.set_xlabel("steps")
    axes.set_ylabel("validation score")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def _curves_on_page(lines: Sequence[Curve]) -> Figure:
    traces: list[dict[str, Any]] = []
    for curve, colour in zip(lines, PALETTE, strict=False):
        outline = {"x": [*curve.steps, *reversed(curve.steps)], "y": [*curve.highs, *reversed(curve.lows)]}
        common = {"type": "scatter", "legendgroup": curve.label, "name": curve.label}
        band = {"fill": "toself", "fillcolor": colour, "opacity": _OPACITY, "hoverinfo": "skip"}
        traces.append({**common, **outline, **band, "mode": "none", "showlegend": False})
        line = {"mode": "lines+markers", "line": {"color": colour}, "x": curve.steps, "y": curve.means}
        traces.append({**common, **line})
    layout = {
        "xaxis": {**GRID, "title": {"text": "steps"}},
        "yaxis": {**GRID, "title": {"text": "validation score"}},
        "legend": LEGEND_ON_TOP,
        "margin": {"l": 60, "r": 20, "t": 30 + 18 * len(lines), "b": 55},
    }
    note = "The mean over the seeds of a setting; the band goes from the lowest to the highest."
    return Figure("Validation score over training", traces, layout, height_px=420 + 18 * len(lines), note=note)
