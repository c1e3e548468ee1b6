# SPDX-License-Identifier: GPL-2.0-only
"""The figures of a plain scenario, on paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bbrgym.evaluate.records import flow_groups, per_run, with_entrants, worlds_of
from bbrgym.evaluate.statistics import Estimate, student_mean
from bbrgym.report.tables import goodput_columns, title_of

LineStyle = dict[str, Any]  # of Axes.plot

MAX_LINES = 8  # more flows than this are shown as the mean of each group
SMOOTHING_S = 1.0
DPI = 130
# Okabe and Ito's colours, which the colour-blind can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
NEUTRAL = "#7F7F7F"
# Worlds side by side: the first one's line is broad and pale, so that the others can be seen where they lie on it.
ONE_LINE: LineStyle = {"linewidth": 1.2}
LINES: tuple[LineStyle, ...] = (
    {"linewidth": 4.0, "alpha": 0.35},
    {"linewidth": 1.0},
    {"linewidth": 1.2, "linestyle": "--"},
    {"linewidth": 1.2, "linestyle": ":"},
)
OPACITIES = (1.0, 0.45, 0.25, 0.15)


def goodput_over_time(timeseries: pl.DataFrame) -> Figure:
    """A panel per entrant, a line per flow and world: goodput in Mbit/s, averaged over a second."""
    timeseries = _of_first_seed(timeseries)
    groups = flow_groups(timeseries["flow"].unique(maintain_order=True).to_list())
    if sum(map(len, groups.values())) <= MAX_LINES:
        groups = {name: [name] for names in groups.values() for name in names}
    figure, panels = _panels(timeseries, "goodput (Mbit/s)")
    for entrant, panel in panels.items():
        for world, style, where in _by_world(timeseries):
            rows = timeseries.filter((pl.col("entrant") == entrant) & (pl.col("world") == world))
            for colour, (label, names) in zip(_colours(len(groups)), groups.items(), strict=True):
                mean = (
                    rows.filter(pl.col("flow").is_in(names) & (pl.col("active") > 0))
                    .group_by("time_s", maintain_order=True)
                    .agg(pl.col("goodput_mbps").mean())
                )
                suffix = f" (mean of {len(names)})" if len(names) > 1 else ""
                _line(panel, mean["time_s"], mean["goodput_mbps"], colour, label + suffix + where, style)
    next(iter(panels.values())).set_ylim(bottom=0)  # the panels share their scale
    _legend_of_first(figure, panels)
    return figure


def queue_delay_over_time(timeseries: pl.DataFrame) -> Figure:
    """A panel per entrant, a line per world: the queueing delay at the bottleneck in ms, averaged over a second."""
    timeseries = _of_first_seed(timeseries)
    figure, panels = _panels(timeseries, "queueing delay (ms)")
    for entrant, panel in panels.items():
        for index, (world, style, _) in enumerate(_by_world(timeseries)):
            rows = timeseries.filter((pl.col("entrant") == entrant) & (pl.col("world") == world))
            rows = rows.unique("time_s", keep="first", maintain_order=True)
            _line(panel, rows["time_s"], rows["link_queue_delay_mean_ms"], COLOURS[index], world, style)
    next(iter(panels.values())).set_ylim(bottom=0)
    _legend_of_first(figure, panels)
    return figure


def summary_bars(summary: pl.DataFrame) -> Figure:
    """Goodput, queueing delay and score of each entrant, with 95 % intervals where there are several seeds."""
    runs = per_run(summary)
    entrants = runs["entrant"].unique(maintain_order=True).to_list()
    worlds = worlds_of(summary)
    height = 1.4 + 0.42 * len(entrants) * (0.5 + 0.5 * len(worlds)) + 0.4 * (len(worlds) > 1)
    figure = Figure(figsize=(11, height), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, 3, sharey=True, width_ratios=(1.6, 1, 1))
    _bars(axes[0], runs, entrants, goodput_columns(runs))
    axes[0].set_xlabel("goodput (Mbit/s)")
    _bars(axes[1], runs, entrants, {"queue_delay_ms": ""}, NEUTRAL)
    axes[1].set_xlabel("queueing delay (ms)")
    _bars(axes[2], runs, entrants, {"score": ""}, NEUTRAL)
    axes[2].set_xlabel("score (0: fair share, no queue)")
    axes[0].set_yticks(range(len(entrants)), entrants)
    axes[0].invert_yaxis()
    if len(worlds) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    elif len(goodput_columns(runs)) > 1:
        axes[0].legend(frameon=False, fontsize="small", loc="best")
    seeds = summary["seed"].n_unique()
    figure.suptitle(f"{title_of(summary)}, {seeds} seed{'s' if seeds > 1 else ''}")
    return figure


def _of_first_seed(timeseries: pl.DataFrame) -> pl.DataFrame:
    return with_entrants(timeseries.filter(pl.col("seed") == timeseries["seed"][0]))


def _panels(timeseries: pl.DataFrame, what: str) -> tuple[Figure, dict[str, Axes]]:
    entrants = timeseries["entrant"].unique(maintain_order=True).to_list()
    columns = min(len(entrants), 2)
    rows = math.ceil(len(entrants) / columns)
    figure = Figure(figsize=(5.5 * columns, 0.7 + 1.7 * rows), dpi=DPI, layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axis in axes[len(entrants) :]:
        axis.set_visible(False)
    panels = dict(zip(entrants, axes, strict=False))
    for entrant, panel in panels.items():
        panel.set_title(entrant, fontsize="medium", loc="left")
        tidy(panel)
    for panel in axes[-columns:]:
        panel.set_xlabel("time (s)")
    figure.supylabel(what, fontsize="medium")
    figure.suptitle(f"{title_of(timeseries)}, seed {timeseries['seed'][0]}")
    return figure, panels


def _by_world(table: pl.DataFrame) -> list[tuple[str, LineStyle, str]]:
    """Each world with its style of lines and what a label says of it."""
    worlds = worlds_of(table)
    if len(worlds) == 1:
        return [(worlds[0], ONE_LINE, "")]
    return [(world, LINES[index % len(LINES)], f", {world}") for index, world in enumerate(worlds)]


def _line(panel: Axes, time_s: pl.Series, values: pl.Series, colour: str, label: str, style: LineStyle) -> None:
    step_s = time_s[1] - time_s[0] if len(time_s) > 1 else SMOOTHING_S
    width = max(1, round(SMOOTHING_S / step_s))
    panel.plot(time_s, values.rolling_mean(width, min_samples=1), color=colour, label=label, **style)


def _bars(
    axis: Axes, runs: pl.DataFrame, entrants: list[str], columns: dict[str, str], colour: str | None = None
) -> None:
    bars = [
        (column, label + where, colour or COLOURS[at], world, OPACITIES[index % len(OPACITIES)])
        for at, (column, label) in enumerate(columns.items())
        for index, (world, _, where) in enumerate(_by_world(runs))
    ]
    height = 0.8 / len(bars)
    for position, (column, label, fill, world, opacity) in enumerate(bars):
        of_world = runs.filter(pl.col("world") == world)
        intervals = [_interval_of(of_world.filter(pl.col("entrant") == one)[column]) for one in entrants]
        axis.barh(
            np.arange(len(entrants)) + (position - (len(bars) - 1) / 2) * height,
            [i.value for i in intervals],
            height=height,
            xerr=[(i.high - i.low) / 2 for i in intervals],
            color=fill,
            alpha=opacity,
            label=label,
            error_kw={"elinewidth": 1, "capsize": 2},
        )
    tidy(axis)


def _interval_of(values: pl.Series) -> Estimate:
    return student_mean(values.cast(pl.Float64).fill_null(math.nan).to_numpy())


def tidy(axis: Axes) -> None:
    """Light axes and a grid behind."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    axis.set_axisbelow(True)


def _legend_of_first(figure: Figure, panels: dict[str, Axes]) -> None:
    first = next(iter(panels.values()))
    handles, labels = first.get_legend_handles_labels()
    if len(handles) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def _colours(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]
