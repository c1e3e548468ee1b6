# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a ranking: scores over all draws and by family, profiles, and pairs of entrants."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import per_run, worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.evaluate.statistics import bootstrap_mean, student_mean
from bbrgym.report.figure_spec import NEUTRAL, Axis, FigureSpec, HeatMap, Line, Panel, Points, Symbol, colour
from bbrgym.report.scenario_figures import SCORE_TITLE
from bbrgym.report.tables import draws_with_intervals, runs_with_others

_FAMILY_WIDTH = 0.8  # part of the room between two families that the entrants take
_GOLDEN = (5**0.5 - 1) / 2  # whose multiples spread evenly between whole numbers


def ranking_figure(ranking: Ranking, what: str, suffix: str) -> FigureSpec:
    """Specify points of each entrant's mean and interquartile mean score.

    ``what`` is the title of the evaluation, ``suffix`` the end of the file's name, which tells worlds apart.
    """
    rows = ranking.rows
    kinds: tuple[tuple[str, float, Symbol], ...] = (("mean", -0.13, "circle"), ("interquartile mean", 0.13, "diamond"))
    points = [
        Points(
            positions=[at + offset for at in range(len(rows))],
            estimates=[row.mean if label == "mean" else row.iqm for row in rows],
            along="x",
            label=label,
            colour=colour(number),
            symbol=symbol,
        )
        for number, (label, offset, symbol) in enumerate(kinds)
    ]
    draws = [
        _draws(ranking.scores[row.entrant].ravel(), at, along="x")
        for at, row in enumerate(rows)
        if row.entrant in ranking.scores.names
    ]
    names = Axis(names=[row.entrant for row in rows], is_reversed=True)
    return FigureSpec(
        name=f"ranking{suffix}",
        title=f"Scores on {ranking.world}",
        subject=f"{what} on {ranking.world}",
        panels=[Panel(Axis(SCORE_TITLE), names, [*draws, *points])],
        width_in=7.5,
        height_in=1.4 + 0.46 * len(rows),
        note=f"Over {draws_with_intervals(ranking.scores.draws)}; of an agent trained several times, over runs too.",
    )


def grid_figure(results: Results, world: str, suffix: str) -> FigureSpec | None:
    """Specify maps of a distribution with grids: harm to others, or the score without others, by pairs of variables.

    Each map has the first variable and another one, and shows means over the rest of the grid; a row of maps is an
    entrant's. With less than two grids there is none.
    """
    grid = {} if results.distribution is None else results.distribution.grid
    if results.distribution is None or len(grid) < 2:
        return None
    cells = {seed: results.distribution.cell(seed) for seed in results.draws}
    places = {seed: [grid[name].index(value) for name, value in cell.items()] for seed, cell in cells.items()}
    runs = per_run(results.summary.filter(pl.col("world") == world))
    is_harm = runs["harm"].count() > 0
    column = "harm" if is_harm else "score"
    runs = runs.filter(pl.col(column).is_not_null() & pl.col(column).is_not_nan())
    panels, worst = [], []
    for entrant, own in runs.group_by("entrant", maintain_order=True):
        values = np.full([len(one) for one in grid.values()], np.nan)
        for seed, value in own.select("seed", column).iter_rows():
            values[*places[seed]] = 100 * value if is_harm else value
        seed, value = own.sort(column, descending=is_harm).select("seed", column).row(0)
        worst.append(f"{entrant[0]} {value:.2f} at {', '.join(f'{name} {at}' for name, at in cells[seed].items())}")
        y, *others = grid
        for axis, x in enumerate(others, start=1):
            rest = tuple(at for at in range(1, len(grid)) if at != axis)
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # cells without a run
                means = np.nanmean(values, axis=rest)
            title, limits = ("harm to others (%)", (0.0, 100.0)) if is_harm else (SCORE_TITLE, None)
            heat_map = HeatMap(means, title, limits=limits, shows_values=is_harm)
            along, up = (Axis(name, names=[str(value) for value in grid[name]]) for name in (x, y))
            panels.append(Panel(along, up, [heat_map], str(entrant[0])))
    return FigureSpec(
        name=f"grid{suffix}",
        title="Harm to others over the grid" if is_harm else "Score over the grid",
        subject=f"{results.title} on {world}",
        panels=panels,
        columns=len(grid) - 1,
        width_in=3.6 * (len(grid) - 1),
        height_in=1 + 3 * len(panels) / (len(grid) - 1),
        note=f"Means over the rest of the grid. Worst cells: {'; '.join(worst)}.",
    )


def families_figure(ranking: Ranking, what: str, suffix: str) -> FigureSpec:
    """Specify points of each entrant's mean score by family of scenarios; arguments as of `ranking_figure`."""
    names = ranking.scores.names
    offsets = [_FAMILY_WIDTH * ((number + 0.5) / len(names) - 0.5) for number in range(len(names))]
    points = [
        Points(
            positions=[at + offsets[number] for at in range(len(ranking.by_family))],
            estimates=[rows[number].mean for rows in ranking.by_family.values()],
            along="y",
            label=name,
            colour=colour(number),
        )
        for number, name in enumerate(names)
    ]
    draws = [
        _draws(
            ranking.scores.of_draws(ranking.families[family])[name].ravel(), at + offsets[number], "y", colour(number)
        )
        for at, family in enumerate(ranking.by_family)
        for number, name in enumerate(names)
    ]
    families = [f"{family}\n{rows[0].draws} draws" for family, rows in ranking.by_family.items()]
    return FigureSpec(
        name=f"families{suffix}",
        title=f"Mean score by family of scenarios on {ranking.world}",
        subject=f"{what} on {ranking.world}",
        panels=[Panel(Axis(names=families), Axis("score: points of draws, and means"), [*draws, *points])],
        width_in=1.5 + 1.35 * len(families),
        height_in=4.6,
    )


def _draws(values: npt.NDArray[np.float64], at: float, along: Literal["x", "y"], stroke: str = NEUTRAL) -> Line:
    """Return a small point for the value of each draw, spread a little around the entrant's position."""
    spread = 0.3 if along == "x" else 0.04
    places = at + spread * ((np.arange(len(values)) * _GOLDEN) % 1 - 0.5)
    x, y = (values, places) if along == "x" else (places, values)
    label = "a draw" if along == "x" else None
    return Line(x, y, label, stroke, width=0, opacity=0.5, symbol="circle", symbol_size=3.2)


def profiles_figure(ranking: Ranking, what: str, suffix: str) -> FigureSpec:
    """Specify lines of the part of the draws with at least a score; arguments as of `ranking_figure`."""
    lines = []
    for number, name in enumerate(ranking.scores.names):
        scores = np.sort(ranking.scores[name].ravel())
        part = 1 - np.arange(len(scores)) / len(scores)
        lines.append(Line(scores, part, name, colour(number), is_stepped=True))
    part_axis = Axis("part of the draws with at least this score", limits=(0, 1.01))
    return FigureSpec(
        name=f"profiles{suffix}",
        title=f"Profiles of the scores on {ranking.world}",
        subject=f"{what} on {ranking.world}",
        panels=[Panel(Axis("score"), part_axis, lines)],
        height_in=4.2,
    )


def pairs_figure(ranking: Ranking, what: str, suffix: str) -> FigureSpec:
    """Specify a heat map of how often each entrant beats each other one; arguments as of `ranking_figure`."""
    names = ranking.scores.names
    percent = [[100 * ranking.scores.improvement(row, column).value for column in names] for row in names]
    heat_map = HeatMap(np.array(percent), "% of draws", limits=(0, 100), colours="diverging", shows_values=True)
    return FigureSpec(
        name=f"pairs{suffix}",
        title=f"How often the row is better than the column on {ranking.world}",
        subject=f"{what} on {ranking.world}: row better than column",
        panels=[Panel(Axis(names=names), Axis(names=names, is_reversed=True), [heat_map])],
        width_in=3 + 1.1 * len(names),
        height_in=1.4 + 0.32 * len(names),
    )


def others_figures(results: Results) -> Iterator[FigureSpec]:
    """Specify a figure per world: the share that other flows have of their fair share, a point for each run."""
    mean = bootstrap_mean if results.draws else student_mean
    worlds = worlds_of(results.summary)
    for world, runs in runs_with_others(results):
        of_entrants = runs.partition_by("entrant", maintain_order=True)
        shares = [one["others_share"].to_numpy() for one in of_entrants]
        means = Points(list(range(len(shares))), [mean(one) for one in shares], "x", "mean", colour(0))
        names = Axis(names=[one["entrant"][0] for one in of_entrants], is_reversed=True)
        points = [_draws(one, at, along="x") for at, one in enumerate(shares)]
        yield FigureSpec(
            name=f"others{'' if len(worlds) == 1 else f'-{world}'}",
            title=f"Share of the other flows on {world}",
            subject=f"{results.title} on {world}: other flows' part of their fair share",
            panels=[Panel(Axis("goodput / fair share of the other flows, mean of a run"), names, [*points, means])],
            width_in=7.5,
            height_in=1.4 + 0.4 * len(shares),
        )
