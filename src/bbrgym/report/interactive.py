# SPDX-License-Identifier: GPL-2.0-only
"""The interactive figures of an evaluation's page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from bbrgym.evaluate.ranking import Ranking, RankingRow
from bbrgym.evaluate.records import flow_groups, per_run, with_entrants, worlds_of
from bbrgym.evaluate.statistics import Estimate, student_mean
from bbrgym.report.figure_data import FROM_ZERO, DrawOverTime, bin_of, binned, mapped_tunables, tunable_title
from bbrgym.report.page import Figure
from bbrgym.report.plots import COLOURS, MAX_LINES, NEUTRAL
from bbrgym.report.tables import draws_with_intervals, goodput_columns

Trace = dict[str, Any]
Layout = dict[str, Any]

PALETTE = (*COLOURS[:6], "#882255", "#000000", "#999933", "#44AA99", "#AA4499", "#661100", "#6699CC", "#888888")
LEGEND_ON_TOP = {"orientation": "h", "yref": "container", "yanchor": "top", "y": 1, "x": 0}
SYMBOLS = ("circle", "diamond-open", "x-thin-open")
WIDE, THIN = 5.0, 1.6  # lines; of several worlds the first one is wide and pale, so that others are seen on it
GRID = {"gridcolor": "#e6eaf0", "zerolinecolor": "#c3cad5", "linecolor": "#c3cad5", "automargin": True}


# ---- a plain scenario ---------------------------------------------------------------------------------


def summary_figure(summary: pl.DataFrame) -> Figure:
    """Score, goodput and queueing delay of each entrant and world, with 95 % intervals over seeds."""
    runs = per_run(summary)
    columns = {"score": "score", **goodput_columns(runs)}
    panels = [
        ("score (0: fair share, no queue)", {"score": ""}),
        ("goodput (Mbit/s)", {name: label for name, label in columns.items() if name != "score"}),
        ("queueing delay (ms)", {"queue_delay_ms": ""}),
    ]
    entrants = runs["entrant"].unique(maintain_order=True).to_list()
    data = [
        trace
        for index, (_, of_panel) in enumerate(panels)
        for trace in _interval_traces(runs, entrants, of_panel, index)
    ]
    layout = _columns_layout([title for title, _ in panels])
    rows = len(entrants) * max(2, len(worlds_of(summary)) * max(len(of_panel) for _, of_panel in panels))
    return Figure("Score, goodput and queueing delay", data, layout, height_px=170 + 15 * rows)


def _interval_traces(
    runs: pl.DataFrame, entrants: Sequence[str], columns: Mapping[str, str], panel: int
) -> list[Trace]:
    """Points with their intervals: a trace per column and world."""
    worlds = worlds_of(runs)
    traces = []
    for at, (column, label) in enumerate(columns.items()):
        for nth, world in enumerate(worlds):
            of_world = runs.filter(pl.col("world") == world)
            means = [_mean_of(of_world, entrant, column) for entrant in entrants]
            colour = NEUTRAL if panel != 1 else PALETTE[at % len(PALETTE)]
            name = ", ".join(part for part in (label, world if len(worlds) > 1 else "") if part)
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "orientation": "h",
                    "x": [mean.value for mean in means],
                    "y": entrants,
                    "error_x": _error(means),
                    "name": name or column,
                    "showlegend": bool(name) and (len(columns) > 1 or panel == 0),
                    "marker": {"size": 8, "color": colour, "symbol": SYMBOLS[nth % len(SYMBOLS)]},
                    "offsetgroup": f"{at}/{nth}",
                    "xaxis": _axis("x", panel),
                    "yaxis": "y",
                }
            )
    return traces


def _mean_of(runs: pl.DataFrame, entrant: str, column: str) -> Estimate:
    values = runs.filter(pl.col("entrant") == entrant)[column].cast(pl.Float64).fill_null(math.nan).to_numpy()
    return student_mean(values)


def _columns_layout(titles: Sequence[str]) -> Layout:
    """Panels side by side on one axis of entrants, the first one on top."""
    gap = 0.06
    width = (1 - gap * (len(titles) - 1)) / len(titles)
    axes = {
        _axis_name("x", index): {
            **GRID,
            "title": {"text": title},
            "domain": [index * (width + gap), index * (width + gap) + width],
        }
        for index, title in enumerate(titles)
    }
    return {
        **axes,
        "yaxis": {**GRID, "autorange": "reversed", "type": "category"},
        "scattermode": "group",
        "margin": {"l": 20, "r": 20, "t": 40, "b": 55},
    }


def goodput_figure(timeseries: pl.DataFrame) -> Figure:
    """A panel per entrant, a line per flow and world."""
    groups = flow_groups(timeseries["flow"].unique(maintain_order=True).to_list())
    if sum(map(len, groups.values())) <= MAX_LINES:
        groups = {name: [name] for names in groups.values() for name in names}
    lines = {
        label + (f" (mean of {len(names)})" if len(names) > 1 else ""): (pl.col("flow").is_in(names), "goodput_mbps")
        for label, names in groups.items()
    }
    return _over_time("Goodput over time", "Mbit/s", timeseries, lines)


def queue_figure(timeseries: pl.DataFrame) -> Figure:
    """A panel per entrant, a line per world."""
    lines = {"queueing delay": (pl.lit(value=True), "link_queue_delay_mean_ms")}
    return _over_time("Queueing delay over time", "ms", timeseries, lines)


def _over_time(title: str, unit: str, timeseries: pl.DataFrame, lines: Mapping[str, tuple[pl.Expr, str]]) -> Figure:
    """Panels in two columns, of the first seed."""
    rows = with_entrants(timeseries.filter(pl.col("seed") == timeseries["seed"][0]))
    entrants = rows["entrant"].unique(maintain_order=True).to_list()
    worlds, bin_s = worlds_of(rows), bin_of(rows)
    traces = []
    for panel, entrant in enumerate(entrants):
        for nth, world in enumerate(worlds):
            own = rows.filter((pl.col("entrant") == entrant) & (pl.col("world") == world))
            for at, (label, (which, column)) in enumerate(lines.items()):
                time_s, values = binned(own.filter(which & (pl.col("active") > 0)), column, bin_s)
                name = label if len(worlds) == 1 else f"{label}, {world}"
                is_wide = nth == 0 and len(worlds) > 1
                colour = PALETTE[(at if len(lines) > 1 else nth) % len(PALETTE)]
                traces.append(
                    {
                        **_line(time_s, values, name, colour, WIDE if is_wide else THIN),
                        "opacity": 0.35 if is_wide else 1.0,
                        "legendgroup": name,
                        "showlegend": panel == 0 and (len(lines) > 1 or len(worlds) > 1),
                        "xaxis": _axis("x", panel),
                        "yaxis": _axis("y", panel),
                    }
                )
    layout = _panels_layout(entrants, min(2, len(entrants)), unit)
    note = f"Means of {bin_s:.2g} s; seed {rows['seed'][0]}. A click on a name of the legend hides its lines."
    return Figure(title, traces, layout, height_px=110 + 180 * math.ceil(len(entrants) / 2), note=note)


def _panels_layout(titles: Sequence[str], columns: int, unit: str) -> Layout:
    """Panels in rows, with one scale."""
    rows = math.ceil(len(titles) / columns)
    layout: Layout = {"grid": {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.08, "ygap": 0.35}}
    notes = []
    for index, title in enumerate(titles):
        layout[_axis_name("x", index)] = {**GRID, **({} if index == 0 else {"matches": "x"})}
        layout[_axis_name("y", index)] = {**GRID, **({"rangemode": "tozero"} if index == 0 else {"matches": "y"})}
        if index >= len(titles) - columns:
            layout[_axis_name("x", index)]["title"] = {"text": "time (s)", "standoff": 5}
        if index % columns == 0:
            layout[_axis_name("y", index)]["title"] = {"text": unit}
        notes.append(_panel_title(title, index))
    return {**layout, "annotations": notes, "legend": LEGEND_ON_TOP, "margin": {"l": 60, "r": 20, "t": 70, "b": 50}}


def _panel_title(title: str, index: int) -> dict[str, Any]:
    return {
        "text": f"<b>{title}</b>",
        "xref": f"{_axis('x', index)} domain",
        "yref": f"{_axis('y', index)} domain",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }


# ---- draws of a distribution --------------------------------------------------------------------------


def ranking_figure(ranking: Ranking) -> Figure:
    """Mean and interquartile mean of each entrant's score, with intervals."""
    names = [row.entrant for row in ranking.rows]
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "orientation": "h",
            "x": [estimate.value for estimate in estimates],
            "y": names,
            "error_x": _error(estimates),
            "name": label,
            "offsetgroup": label,
            "marker": {"size": 9, "color": colour, "symbol": symbol},
        }
        for label, symbol, colour, estimates in (
            ("mean", "circle", PALETTE[0], [row.mean for row in ranking.rows]),
            ("interquartile mean", "diamond-open", PALETTE[1], [row.iqm for row in ranking.rows]),
        )
    ]
    layout = _columns_layout(["score (0: fair share, no queue)"])
    note = (
        f"Over {draws_with_intervals(ranking.scores.draws)}; where an agent was trained several times, over runs too."
    )
    return Figure(f"Scores on {ranking.world}", data, layout, height_px=130 + 34 * len(names), note=note)


def families_figure(ranking: Ranking) -> Figure:
    """Mean score by family of scenarios."""
    families = list(ranking.by_family)
    labels = [f"{family}<br>{rows[0].draws} draws" for family, rows in ranking.by_family.items()]
    data = []
    for index, name in enumerate(ranking.scores.names):
        means = [_of(ranking.by_family[family], name).mean for family in families]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": labels,
                "y": [mean.value for mean in means],
                "error_y": _error(means, width=0),
                "name": name,
                "offsetgroup": name,
                "marker": {"size": 8, "color": PALETTE[index % len(PALETTE)]},
            }
        )
    layout = {
        "xaxis": {**GRID, "type": "category"},
        "yaxis": {**GRID, "title": {"text": "mean score"}},
        "scattermode": "group",
        "scattergap": 0.3,
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
    }
    return Figure(f"Score by family of scenarios on {ranking.world}", data, layout, height_px=480)


def profiles_figure(ranking: Ranking) -> Figure:
    """On what part of the draws each entrant's score is above a value."""
    data = []
    for index, name in enumerate(ranking.scores.names):
        scores = np.sort(ranking.scores[name].ravel())
        part = 1 - np.arange(len(scores)) / len(scores)
        data.append({**_line(scores, part, name, PALETTE[index % len(PALETTE)]), "line": _step(index)})
    layout = {
        "xaxis": {**GRID, "title": {"text": "score"}},
        "yaxis": {**GRID, "title": {"text": "part of the draws with at least this score"}, "range": [0, 1.01]},
    }
    return Figure(f"Profiles of the scores on {ranking.world}", data, layout, height_px=440)


def _step(index: int) -> dict[str, Any]:
    return {"shape": "vh", "width": 1.8, "color": PALETTE[index % len(PALETTE)]}


def pairs_figure(ranking: Ranking) -> Figure:
    """How likely each entrant is better than each other one on a draw."""
    names = ranking.scores.names
    chances = [[100 * ranking.scores.improvement(row, column).value for column in names] for row in names]
    data = [
        {
            "type": "heatmap",
            "x": names,
            "y": names,
            "z": chances,
            "zmin": 0,
            "zmax": 100,
            "colorscale": [[0, "#D55E00"], [0.5, "#ffffff"], [1, "#0072B2"]],
            "texttemplate": "%{z:.0f}",
            "hovertemplate": "%{y} is better than %{x}<br>on %{z:.0f} % of the draws<extra></extra>",
            "colorbar": {"title": {"text": "% of draws", "side": "right"}, "thickness": 14},
        }
    ]
    layout = {
        "xaxis": {"type": "category", "automargin": True, "tickangle": -40},
        "yaxis": {"type": "category", "automargin": True, "autorange": "reversed"},
    }
    return Figure(
        f"How often the row is better than the column on {ranking.world}",
        data,
        layout,
        height_px=180 + 30 * len(names),
    )


def draw_figure(draw: DrawOverTime) -> Figure:
    """One draw over time, its panels one below the other."""
    data = [
        {
            **_line(*line, entrant, PALETTE[at % len(PALETTE)]),
            "legendgroup": entrant,
            "showlegend": panel == 0,
            "xaxis": "x",
            "yaxis": _axis("y", panel),
        }
        for at, (entrant, lines) in enumerate(draw.lines.items())
        for panel, line in enumerate(lines)
        if line is not None
    ]
    height_px = 110 + 165 * len(draw.panels)
    return Figure(draw.title, data, _stack_layout(draw.panels), height_px, note=f"Means of {draw.bin_s:.2g} s.")


def policy_figure(label: str, cells: pl.DataFrame) -> Figure | None:
    """The tunables that an agent varies most over RTT and bandwidth; None if it varies none."""
    names = mapped_tunables(cells)
    if not names:
        return None
    rates, rtts = cells["rate_mbps"].unique().sort().to_list(), cells["rtt_ms"].unique().sort().to_list()
    layout: Layout = {"grid": {"rows": 1, "columns": len(names), "pattern": "independent", "xgap": 0.3}}
    data = []
    for index, name in enumerate(names):
        of_one = cells.filter(pl.col("tunable") == name).sort("rate_mbps", "rtt_ms")
        data.append(
            {
                "type": "heatmap",
                "x": [f"{rtt:.3g}" for rtt in rtts],
                "y": [f"{rate:.3g}" for rate in rates],
                "z": of_one["mean"].to_numpy().reshape(len(rates), len(rtts)),
                "colorscale": "Viridis",
                "hovertemplate": f"%{{x}} ms, %{{y}} Mbit/s<br>{name} %{{z}}<extra></extra>",
                "colorbar": {**_beside(index, len(names)), "thickness": 10},
                "xaxis": _axis("x", index),
                "yaxis": _axis("y", index),
            }
        )
        layout[_axis_name("x", index)] = {"type": "category", "title": {"text": "RTT (ms)"}, "automargin": True}
        layout[_axis_name("y", index)] = {"type": "category", "automargin": True}
    layout["yaxis"]["title"] = {"text": "bandwidth (Mbit/s)"}
    layout["annotations"] = [_panel_title(tunable_title(name), index) for index, name in enumerate(names)]
    note = "Means after the warm-up of runs with one flow alone, in the twin; the tunables that vary most."
    return Figure(f"What {label} does over RTT and bandwidth", data, layout, height_px=400, note=note)


def _beside(index: int, panels: int) -> dict[str, Any]:
    """Where the scale of a panel's colours stands."""
    width = 1 / (panels + 0.3 * (panels - 1))
    return {"x": index * 1.3 * width + width, "xanchor": "left", "xpad": 3}


def _stack_layout(titles: Sequence[str]) -> Layout:
    """Panels one below the other on one axis of time."""
    gap = 0.3 / max(1, len(titles))
    height = (1 - gap * (len(titles) - 1)) / len(titles)
    layout: Layout = {"xaxis": {**GRID, "title": {"text": "time (s)"}, "anchor": _axis("y", len(titles) - 1)}}
    for index, _ in enumerate(titles):
        top = 1 - index * (height + gap)
        start = {"rangemode": "tozero"} if index < FROM_ZERO else {}
        layout[_axis_name("y", index)] = {**GRID, **start, "domain": [max(0.0, top - height), top]}
    notes = [
        {**_panel_title(title, index), "xref": "x domain", "yref": f"{_axis('y', index)} domain"}
        for index, title in enumerate(titles)
    ]
    return {**layout, "annotations": notes, "legend": LEGEND_ON_TOP, "margin": {"l": 60, "r": 20, "t": 70, "b": 50}}


# ---- parts --------------------------------------------------------------------------------------------


def _line(x: npt.ArrayLike, y: npt.ArrayLike, name: str, colour: str, width: float = THIN) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.asarray(x),
        "y": np.asarray(y),
        "name": name,
        "line": {"color": colour, "width": width},
    }


def _error(estimates: Sequence[Estimate], width: int = 3) -> dict[str, Any]:
    """Plotly's error bars."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [estimate.high - estimate.value for estimate in estimates],
        "arrayminus": [estimate.value - estimate.low for estimate in estimates],
        "thickness": 1.3,
        "width": width,
    }


def _of(rows: Sequence[RankingRow], name: str) -> RankingRow:
    return next(row for row in rows if row.entrant == name)


def _axis(letter: str, index: int) -> str:
    """What a trace calls an axis."""
    return letter if index == 0 else f"{letter}{index + 1}"


def _axis_name(letter: str, index: int) -> str:
    """What a layout calls it."""
    return f"{letter}axis" if index == 0 else f"{letter}axis{index + 1}"
