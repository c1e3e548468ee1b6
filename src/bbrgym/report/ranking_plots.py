# SPDX-License-Identifier: GPL-2.0-only
"""The figures of draws of a distribution, on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.statistics import Estimate
from bbrgym.report.figure_data import FROM_ZERO, DrawOverTime, mapped_tunables, tunable_title
from bbrgym.report.plots import COLOURS, DPI, LineStyle, tidy
from bbrgym.tunables import TUNABLES

_NARROW = 0.8  # part of a family's width that its entrants take


def ranking_figure(ranking: Ranking, title: str) -> Figure:
    """Mean and interquartile mean of each entrant's score, with 95 % intervals."""
    names = [row.entrant for row in ranking.rows]
    figure = Figure(figsize=(7.5, 1.3 + 0.38 * len(names)), dpi=DPI, layout="constrained")
    axis = figure.subplots()
    rows = np.arange(len(names))
    for shift, label, marker, colour, estimates in (
        (-0.13, "mean", "o", COLOURS[0], [row.mean for row in ranking.rows]),
        (0.13, "interquartile mean", "D", COLOURS[1], [row.iqm for row in ranking.rows]),
    ):
        values = [estimate.value for estimate in estimates]
        style: LineStyle = {"fmt": marker, "color": colour, "markersize": 5, "capsize": 2, "elinewidth": 1}
        axis.errorbar(values, rows + shift, xerr=_errors(estimates), label=label, **style)
    axis.set_yticks(rows, names)
    axis.invert_yaxis()
    axis.set_xlabel("score (0: fair share, no queue)")
    tidy(axis)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(f"{title} on {ranking.world}")
    return figure


def families(ranking: Ranking, title: str) -> Figure:
    """Mean score of each entrant by family of scenarios, with 95 % intervals."""
    names, by_family = ranking.scores.names, ranking.by_family
    figure = Figure(figsize=(1.5 + 1.35 * len(by_family), 4.6), dpi=DPI, layout="constrained")
    axis = figure.subplots()
    places = np.arange(len(by_family))
    for index, name in enumerate(names):
        means = [rows[index].mean for rows in by_family.values()]
        shift = _NARROW * ((index + 0.5) / len(names) - 0.5)
        style: LineStyle = {"fmt": "o", "color": COLOURS[index % len(COLOURS)], "markersize": 4, "elinewidth": 1}
        style["markerfacecolor"] = style["color"] if index < len(COLOURS) else "white"
        axis.errorbar(places + shift, [mean.value for mean in means], yerr=_errors(means), label=name, **style)
    labels = [f"{family}\n{rows[0].draws} draws" for family, rows in by_family.items()]
    axis.set_xticks(places, labels, fontsize="small")
    axis.set_ylabel("mean score")
    tidy(axis)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize="small")
    figure.suptitle(f"{title} on {ranking.world}")
    return figure


def draw_over_time(draw: DrawOverTime) -> Figure:
    """Goodput, queueing delay and tunables of one draw, one below the other."""
    figure = Figure(figsize=(8, 1.2 + 1.35 * len(draw.panels)), dpi=DPI, layout="constrained")
    axes = figure.subplots(len(draw.panels), 1, sharex=True, squeeze=False).ravel()
    for axis, title in zip(axes, draw.panels, strict=True):
        axis.set_title(title, fontsize="small", loc="left")
        tidy(axis)
    for index, (entrant, lines) in enumerate(draw.lines.items()):
        for panel, (axis, line) in enumerate(zip(axes, lines, strict=True)):
            if line is not None:
                label = entrant if panel == 0 else None
                axis.plot(*line, color=COLOURS[index % len(COLOURS)], linewidth=1.2, label=label)
    for axis in axes[:FROM_ZERO]:
        axis.set_ylim(bottom=0)
    axes[-1].set_xlabel("time (s)")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    figure.suptitle(draw.title, fontsize="medium")
    return figure


def policy(label: str, cells: pl.DataFrame) -> Figure | None:
    """The tunables that an agent varies most over RTT and bandwidth; None if it varies none."""
    names = mapped_tunables(cells)
    if not names:
        return None
    figure = Figure(figsize=(9.5, 1 + 3.2 * -(-len(names) // 2)), dpi=DPI, layout="constrained")
    axes = figure.subplots(-(-len(names) // 2), 2, squeeze=False).ravel()
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes, names, strict=False):
        _map(figure, axis, name, cells.filter(pl.col("tunable") == name))
    figure.suptitle(f"{label}: mean settings with one flow alone", fontsize="medium")
    return figure


def _map(figure: Figure, axis: Axes, name: str, cells: pl.DataFrame) -> None:
    table = cells.pivot("rtt_ms", index="rate_mbps", values="mean")
    rates, rtts = table["rate_mbps"].to_list(), [float(column) for column in table.columns[1:]]
    norm = "log" if TUNABLES[name].scale == "log" else "linear"
    image = axis.imshow(table.drop("rate_mbps").to_numpy(), origin="lower", aspect="auto", cmap="viridis", norm=norm)
    axis.set_xticks(range(len(rtts)), [f"{rtt:.3g}" for rtt in rtts], fontsize="small")
    axis.set_yticks(range(len(rates)), [f"{rate:.3g}" for rate in rates], fontsize="small")
    axis.set_xlabel("RTT (ms)", fontsize="small")
    axis.set_ylabel("bandwidth (Mbit/s)", fontsize="small")
    axis.set_title(tunable_title(name), fontsize="medium", loc="left")
    figure.colorbar(image, ax=axis)


def _errors(estimates: Sequence[Estimate]) -> list[list[float]]:
    """Matplotlib's error bars; none where there is no interval."""
    ends: Sequence[Callable[[Estimate], float]] = (lambda e: e.value - e.low, lambda e: e.high - e.value)
    return [[max(0.0, end(estimate)) for estimate in estimates] for end in ends]
