# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a plain scenario: means over seeds, and the first seed's goodput and queueing delay over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import polars as pl

from bbrgym.evaluate.records import flow_groups, per_run, with_entrants, worlds_of
from bbrgym.evaluate.statistics import student_mean
from bbrgym.report.figure_spec import NEUTRAL, Axis, Bars, Dash, FigureSpec, Line, Panel, colour
from bbrgym.report.tables import goodput_columns, title_of

MAX_LINES = 8  # of more flows than these the mean of each group is shown
SMOOTHING_S = 1.0
SCORE_TITLE = "score (0: fair share, no queue)"

# Worlds side by side: the first one's line is broad and pale, so that the others show where they lie on it.
_ONE_LINE: tuple[float, float, Dash] = (1.2, 1.0, "solid")  # width, opacity, dash
_LINES: tuple[tuple[float, float, Dash], ...] = (
    (4.0, 0.35, "solid"),
    (1.0, 1.0, "solid"),
    (1.2, 1.0, "dash"),
    (1.2, 1.0, "dot"),
)
_OPACITIES = (1.0, 0.45, 0.25, 0.15)  # of the worlds' bars


def summary_figure(summary: pl.DataFrame) -> FigureSpec:
    """Specify bars of goodput, queueing delay and score of each entrant, with Student's 95 % intervals over seeds."""
    runs = per_run(summary)
    entrants = runs["entrant"].unique(maintain_order=True).to_list()
    worlds = worlds_of(summary)
    axis = Axis(names=entrants, is_reversed=True)
    groups = {column: (label, colour(index)) for index, (column, label) in enumerate(goodput_columns(runs).items())}
    panels = [
        Panel(Axis("goodput (Mbit/s)"), axis, _bars(runs, entrants, groups)),
        Panel(Axis("queueing delay (ms)"), axis, _bars(runs, entrants, {"queue_delay_ms": (None, NEUTRAL)})),
        Panel(Axis(SCORE_TITLE), axis, _bars(runs, entrants, {"score": (None, NEUTRAL)})),
    ]
    seeds = summary["seed"].n_unique()
    return FigureSpec(
        name="summary",
        title="Goodput, queueing delay and score",
        subject=f"{title_of(summary)}, {seeds} seed{'s' if seeds > 1 else ''}",
        panels=panels,
        columns=3,
        column_widths=(1.6, 1, 1),
        shares_y=True,
        width_in=11,
        height_in=1.4 + 0.42 * len(entrants) * (0.5 + 0.5 * len(worlds)) + 0.4 * (len(worlds) > 1),
        note="Means over seeds, with 95 % intervals by Student's t." if seeds > 1 else "",
    )


def _bars(runs: pl.DataFrame, entrants: Sequence[str], columns: Mapping[str, tuple[str | None, str]]) -> list[Bars]:
    """Return the bars of columns, each with a label and colour, side by side with those of all worlds."""
    worlds = worlds_of(runs)
    kinds = [(column, index) for column in columns for index in range(len(worlds))]
    thickness = 0.8 / len(kinds)
    bars = []
    for number, (column, index) in enumerate(kinds):
        label, fill = columns[column]
        values = runs.filter(pl.col("world") == worlds[index]).with_columns(
            pl.col(column).cast(pl.Float64).fill_null(math.nan)
        )
        offset = (number - (len(kinds) - 1) / 2) * thickness
        bars.append(
            Bars(
                positions=[at + offset for at in range(len(entrants))],
                estimates=[student_mean(values.filter(pl.col("entrant") == entrant)[column]) for entrant in entrants],
                thickness=thickness,
                label=None if label is None else label + _world_suffix(worlds, index),
                colour=fill,
                opacity=_OPACITIES[index % len(_OPACITIES)],
            )
        )
    return bars


def _world_suffix(worlds: Sequence[str], index: int) -> str:
    """Return the end of a label that names a world; nothing where there is one world."""
    return f", {worlds[index]}" if len(worlds) > 1 else ""


def goodput_figure(timeseries: pl.DataFrame) -> FigureSpec:
    """Specify a panel per entrant with a line per flow and world: goodput of the first seed over time."""
    groups = flow_groups(timeseries["flow"].unique(maintain_order=True).to_list())
    if sum(map(len, groups.values())) <= MAX_LINES:
        groups = {name: [name] for names in groups.values() for name in names}

    def lines(rows: pl.DataFrame, worlds: Sequence[str], index: int) -> list[Line]:
        shown = []
        for number, (label, names) in enumerate(groups.items()):
            mean = (
                rows.filter(pl.col("flow").is_in(names) & (pl.col("active") > 0))
                .group_by("time_s", maintain_order=True)
                .agg(pl.col("goodput_mbps").mean())
            )
            suffix = f" (mean of {len(names)})" if len(names) > 1 else ""
            text = label + suffix + _world_suffix(worlds, index)
            shown.append(_line(mean, "goodput_mbps", text, colour(number), worlds, index))
        return shown

    return _over_time("goodput", "Goodput over time", "goodput (Mbit/s)", timeseries, lines)


def queue_delay_figure(timeseries: pl.DataFrame) -> FigureSpec:
    """Specify a panel per entrant with a line per world: queueing delay of the first seed over time."""

    def lines(rows: pl.DataFrame, worlds: Sequence[str], index: int) -> list[Line]:
        of_link = rows.unique("time_s", keep="first", maintain_order=True)
        return [_line(of_link, "link_queue_delay_mean_ms", worlds[index], colour(index), worlds, index)]

    return _over_time("queue_delay", "Queueing delay over time", "queueing delay (ms)", timeseries, lines)


_Lines: TypeAlias = Callable[[pl.DataFrame, Sequence[str], int], list[Line]]
"""Makes the lines of an entrant's rows in the world with a number, given all worlds."""


def _over_time(name: str, title: str, quantity: str, timeseries: pl.DataFrame, lines: _Lines) -> FigureSpec:
    """Specify a panel per entrant, with shared axes."""
    timeseries = with_entrants(timeseries.filter(pl.col("seed") == timeseries["seed"][0]))
    entrants, worlds = timeseries["entrant"].unique(maintain_order=True).to_list(), worlds_of(timeseries)
    panels = []
    for entrant in entrants:
        own = timeseries.filter(pl.col("entrant") == entrant)
        of_worlds = [own.filter(pl.col("world") == world) for world in worlds]
        series = [line for index, of_world in enumerate(of_worlds) for line in lines(of_world, worlds, index)]
        smoothed = f"{quantity},\nmoving mean of {SMOOTHING_S:g} s"
        panels.append(Panel(Axis("time (s)"), Axis(smoothed, starts_at_zero=True), series, title=entrant))
    columns = min(len(entrants), 2)
    return FigureSpec(
        name=name,
        title=title,
        subject=f"{title_of(timeseries)}, seed {timeseries['seed'][0]}",
        panels=panels,
        columns=columns,
        shares_x=True,
        shares_y=True,
        width_in=5.5 * columns,
        height_in=0.7 + 1.7 * math.ceil(len(entrants) / columns),
        note=f"Seed {timeseries['seed'][0]}. A click on a name in the legend hides its lines.",
    )


def _line(rows: pl.DataFrame, column: str, label: str, stroke: str, worlds: Sequence[str], index: int) -> Line:
    """Return the moving average of a column over `SMOOTHING_S`, in the style of the world numbered ``index``."""
    time_s = rows["time_s"]
    step_s = time_s[1] - time_s[0] if len(time_s) > 1 else SMOOTHING_S
    smoothed = rows[column].rolling_mean(max(1, round(SMOOTHING_S / step_s)), min_samples=1)
    width, opacity, dash = _LINES[index % len(_LINES)] if len(worlds) > 1 else _ONE_LINE
    return Line(time_s.to_numpy(), smoothed.to_numpy(), label, stroke, width=width, dash=dash, opacity=opacity)
