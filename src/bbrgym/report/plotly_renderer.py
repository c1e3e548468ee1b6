# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a page: specifications as traces and a layout for Plotly's JavaScript."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bbrgym.evaluate.statistics import Estimate
from bbrgym.report.figure_spec import TICK_HEIGHT, Axis, Bands, Bars, FigureSpec, HeatMap, Line, Panel, Points, Ticks

Trace: TypeAlias = dict[str, Any]

_PX_PER_INCH = 110
_PX_PER_POINT = 1.35  # of a line's width
_DIGITS = 4  # of a value of a line: more than there are pixels
_MAX_POINTS = 400  # of a line, whose others are left out: more than there are pixels are of no use
_LEGEND_WIDTH_PX = 1000
_GRID = {"gridcolor": "#e6eaf0", "zerolinecolor": "#c3cad5", "linecolor": "#c3cad5", "automargin": True}
_LAYOUT = {
    "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, Arial, sans-serif", "size": 13},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "barmode": "overlay",
    "hoverlabel": {"namelength": -1},
    "modebar": {"orientation": "v", "bgcolor": "rgba(0,0,0,0)", "color": "#9aa3b0", "activecolor": "#0072b2"},
    "legend": {"orientation": "h", "yref": "container", "yanchor": "top", "y": 1, "x": 0},
}
_NO_NAME = "<extra></extra>"  # beside the text under the pointer
_DIVERGING = [[0, "#D55E00"], [0.5, "#FFFFFF"], [1, "#0072B2"]]


@dataclass(frozen=True)
class PlotlyFigure:
    """A figure for Plotly."""

    data: list[Trace]  # the traces
    layout: dict[str, Any]  # axes, margins, legend and texts
    height_px: int  # height of the figure


def render_figure(spec: FigureSpec) -> PlotlyFigure:
    """Return a specification as a figure for Plotly."""
    height_px = round(_PX_PER_INCH * spec.height_in) + 40
    margins = _margins(spec)
    domains = _domains(spec, height_px - margins["t"] - margins["b"])
    layout: dict[str, Any] = {**_LAYOUT, "margin": margins, "showlegend": spec.has_legend}
    layout |= {"annotations": [], "shapes": []}
    data, labels = [], set[str]()
    for index, panel in enumerate(spec.panels):
        across, up = domains[index]
        layout[_name("xaxis", index)] = {**_axis(spec, index, "x"), "domain": across, "anchor": _name("y", index)}
        layout[_name("yaxis", index)] = {**_axis(spec, index, "y"), "domain": up, "anchor": _name("x", index)}
        if panel.title:
            above = {"xref": f"{_name('x', index)} domain", "yref": f"{_name('y', index)} domain", "x": 0, "y": 1}
            title = {"text": f"<b>{panel.title}</b>", "xanchor": "left", "yanchor": "bottom", "showarrow": False}
            layout["annotations"].append(above | title)
        for series in panel.series:
            if isinstance(series, Bands | Ticks):
                is_new = series.label is not None and series.label not in labels
                layout["shapes"].append({**_shape(series, index), "showlegend": is_new})
                labels |= {series.label} if series.label else set()
                continue
            for trace in _traces(series, panel, across[1], up):
                name = trace.get("name")
                trace["showlegend"] = trace.get("showlegend", name is not None and name not in labels)
                data.append({**trace, "xaxis": _name("x", index), "yaxis": _name("y", index)})
                labels |= {name} if name else set()
    return PlotlyFigure(data, layout, height_px)


# ---- layout -------------------------------------------------------------------------------------------


def _margins(spec: FigureSpec) -> dict[str, int]:
    """Return the margins in pixels; the legend is above the panels, in as many lines as the names take."""
    names_px = sum(60 + 7 * len(label) for label in spec.labels) if spec.has_legend else 0
    lines = math.ceil(names_px / _LEGEND_WIDTH_PX)
    has_panel_title = any(panel.title for panel in spec.panels)
    return {"l": 60, "r": 40, "t": max(30, 15 + 22 * lines) + 25 * has_panel_title, "b": 55}


def _domains(spec: FigureSpec, height_px: int) -> list[tuple[list[float], list[float]]]:
    """Return the places of the panels, from left to right and from bottom to top, as parts of the plot's size."""
    has_heat_map = any(isinstance(series, HeatMap) for panel in spec.panels for series in panel.series)
    right = 0.08 if has_heat_map else 0.0  # room for the colours
    across_gap = (0.05 if spec.shares_y else 0.08) + right
    up_gap = (35 + 45 * (not spec.shares_x)) / height_px
    widths = spec.column_widths or [1.0] * spec.columns
    unit = (1 - right - across_gap * (spec.columns - 1)) / sum(widths)
    height = (1 - up_gap * (spec.rows - 1)) / spec.rows
    places = []
    for index in range(len(spec.panels)):
        row, column = divmod(index, spec.columns)
        left = unit * sum(widths[:column]) + across_gap * column
        bottom = (spec.rows - 1 - row) * (height + up_gap)
        places.append(([left, left + unit * widths[column]], [max(0.0, bottom), min(1.0, bottom + height)]))
    return places


def _axis(spec: FigureSpec, index: int, letter: str) -> dict[str, Any]:
    """Return an axis of the panel numbered ``index``: scale, ticks and, at the figure's edge, title."""
    axis: Axis = getattr(spec.panels[index], letter)
    is_shared = spec.shares_x if letter == "x" else spec.shares_y
    is_at_edge = index + spec.columns >= len(spec.panels) if letter == "x" else index % spec.columns == 0
    layout: dict[str, Any] = {**_GRID, "type": axis.scale}
    if is_shared and index > 0:
        layout["matches"] = letter
    if is_shared and not is_at_edge:
        layout["showticklabels"] = False
    elif axis.title:
        layout["title"] = {"text": axis.title.replace("\n", "<br>"), "standoff": 5, "font": {"size": 12}}
    if axis.names:
        ends = [-0.5, len(axis.names) - 0.5]
        texts = [name.replace("\n", "<br>") for name in axis.names]
        layout |= {"tickmode": "array", "tickvals": list(range(len(texts))), "ticktext": texts}
        layout |= {"range": ends[::-1] if axis.is_reversed else ends, "zeroline": False}
    elif axis.limits is not None:
        layout["range"] = list(axis.limits)
    elif axis.starts_at_zero:
        layout["rangemode"] = "tozero"
    if axis.is_reversed and not axis.names:
        layout["autorange"] = "reversed"
    return layout


def _name(letter: str, index: int) -> str:
    """Return the name of an axis: ``x``, ``x2``, ``x3``, ..., in the layout ``xaxis``, ``xaxis2``, ..."""
    return letter if index == 0 else f"{letter}{index + 1}"


# ---- series -------------------------------------------------------------------------------------------


def _shape(series: Bands | Ticks, index: int) -> dict[str, Any]:
    """Return bands or ticks of the panel numbered ``index`` as one path, whose heights are parts of the panel's."""
    if isinstance(series, Bands):
        path = "".join(f"M{begin:.7g},0V1H{end:.7g}V0Z" for begin, end in series.spans)
        style: dict[str, Any] = {"fillcolor": series.colour, "opacity": series.opacity, "layer": "below"}
        style["line"] = {"width": 0}
    else:
        path = "".join(f"M{at:.7g},{1 - TICK_HEIGHT:g}V1" for at in series.at)
        style = {"line": {"width": 1.2, "color": series.colour}}
    place = {"type": "path", "xref": _name("x", index), "yref": f"{_name('y', index)} domain", "path": path or "M0,0"}
    return {**place, **style, **_named(series.label)} if series.label else {**place, **style}


def _traces(series: Line | Points | Bars | HeatMap, panel: Panel, right: float, up: Sequence[float]) -> list[Trace]:
    """Return the traces of a series; ``right`` and ``up`` are the ends of the panel's place."""
    if isinstance(series, Line):
        return _line(series)
    if isinstance(series, HeatMap):
        return [_heat_map(series, panel, right, up)]
    return [_points(series, panel) if isinstance(series, Points) else _bars(series, panel)]


def _line(line: Line) -> list[Trace]:
    kept = _kept(line)
    x, y = np.asarray(line.x)[kept], _shortened(np.asarray(line.y)[kept])
    mode = "+".join(part for part, is_shown in (("lines", line.width), ("markers", line.symbol)) if is_shown)
    shape = "vh" if line.is_stepped else "linear"
    trace: Trace = {**_named(line.label), "type": "scatter", "mode": mode, "x": x, "y": y, "opacity": line.opacity}
    trace["line"] = {"color": line.colour, "width": _PX_PER_POINT * line.width, "dash": line.dash, "shape": shape}
    size = _PX_PER_POINT * line.symbol_size
    trace["marker"] = {"color": line.colour, "symbol": line.symbol or "circle", "size": size}
    if line.fill:
        trace |= {"fill": "toself", "fillcolor": _translucent(line.colour, line.fill), "hoverinfo": "skip"}
    if line.notes:
        trace |= {"text": [line.notes[number] for number in kept], "hoverinfo": "text+name"}
    if line.band is None:
        return [trace]
    low, high = (_shortened(np.asarray(end)[kept]) for end in line.band)
    around = {"x": np.concatenate([x, x[::-1]]), "y": np.concatenate([high, low[::-1]])}
    band: Trace = {**_named(line.label), "type": "scatter", "mode": "none", **around, "fill": "toself"}
    band |= {"fillcolor": line.colour, "opacity": 0.15, "hoverinfo": "skip", "showlegend": False}
    return [trace, band]


def _shortened(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return values with few digits, which make a page smaller."""
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values.tolist()])


def _kept(line: Line) -> npt.NDArray[np.intp]:
    """Return the indices of the points to draw: of too many, the lowest and highest of each part, and the gaps."""
    y = np.asarray(line.y, np.float64)
    numbers = np.arange(len(y))
    if not line.width:
        return numbers
    if line.band is None and not line.symbol and not line.notes:
        is_same = (y[1:] == y[:-1]) | (np.isnan(y[1:]) & np.isnan(y[:-1]))
        numbers = numbers[~np.concatenate([[False], is_same[:-1] & is_same[1:], [False]])] if len(y) > 2 else numbers
    if len(numbers) <= _MAX_POINTS:
        return numbers
    kept = {0, len(y) - 1}
    for part in np.array_split(numbers, _MAX_POINTS // 2):
        is_known = np.isfinite(y[part])
        if is_known.any():
            kept |= {int(part[np.nanargmin(y[part])]), int(part[np.nanargmax(y[part])])}
        if not is_known.all():
            kept.add(int(part[np.argmin(is_known)]))
    return np.array(sorted(kept), np.intp)


def _points(points: Points, panel: Panel) -> Trace:
    values = [estimate.value for estimate in points.estimates]
    is_along_x = points.along == "x"
    x, y = (values, list(points.positions)) if is_along_x else (list(points.positions), values)
    return {
        **_named(points.label),
        **_notes(points, (panel.y if is_along_x else panel.x).names),
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": y,
        **_errors(points.along, points.estimates),
        "marker": {"size": 8, "color": points.colour, "symbol": points.symbol},
    }


def _bars(bars: Bars, panel: Panel) -> Trace:
    return {
        **_named(bars.label),
        **_notes(bars, panel.y.names),
        "type": "bar",
        "textposition": "none",
        "orientation": "h",
        "width": bars.thickness,
        "x": [estimate.value for estimate in bars.estimates],
        "y": list(bars.positions),
        **_errors("x", bars.estimates),
        "marker": {"color": _translucent(bars.colour, bars.opacity)},  # the legend does not show an opacity
    }


def _translucent(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _heat_map(heat_map: HeatMap, panel: Panel, right: float, up: Sequence[float]) -> Trace:
    values = np.asarray(heat_map.values, np.float64)
    colour_bar: dict[str, Any] = {"x": right, "xanchor": "left", "xpad": 4, "thickness": 12}
    colour_bar |= {"y": up[0], "yanchor": "bottom", "ypad": 0, "len": up[1] - up[0]}
    colour_bar["title"] = {"text": heat_map.title, "side": "right"}
    trace: Trace = {
        "type": "heatmap",
        "z": values,
        "text": [[f"{value:.4g}" for value in row] for row in values.tolist()],
        "hovertemplate": f"{panel.x.title} %{{x}}<br>{panel.y.title} %{{y}}<br>%{{text}} {heat_map.title}" + _NO_NAME,
        "colorscale": "Viridis" if heat_map.colours == "sequential" else _DIVERGING,
        "colorbar": colour_bar,
    }
    if heat_map.limits is not None:
        trace["zmin"], trace["zmax"] = heat_map.limits
    if heat_map.shows_values:
        trace["texttemplate"] = "%{z:.0f}"
    return trace


def _named(label: str | None) -> Trace:
    """Return the name of a trace, by which a click in the legend hides all of that name."""
    return {"hoverinfo": "x+y"} if label is None else {"name": label, "legendgroup": label}


def _notes(series: Points | Bars, names: Sequence[str]) -> Trace:
    """Return the texts under the pointer: the name at each position, and the estimate."""
    texts = [
        f"{names[round(position)]}: {estimate.text(3)}".replace("\n", ", ")
        for position, estimate in zip(series.positions, series.estimates, strict=True)
    ]
    return {"text": texts, "hoverinfo": "text+name"}


def _errors(letter: str, estimates: Sequence[Estimate]) -> Trace:
    """Return error bars along an axis; none where no interval is known."""
    if all(math.isnan(estimate.low) for estimate in estimates):
        return {}
    above = [estimate.high - estimate.value for estimate in estimates]
    below = [estimate.value - estimate.low for estimate in estimates]
    style = {"type": "data", "symmetric": False, "thickness": 1.3, "width": 3}
    return {f"error_{letter}": {**style, "array": above, "arrayminus": below}}
