# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a multirun: the metric over each parameter, and the trainings' validation scores over steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from bbrgym.report.figure_spec import NEUTRAL, Axis, FigureSpec, Line, Panel, colour, scale_of
from bbrgym.sweeps.results import SEED, MultirunResults

MAX_CURVES = 14  # settings with a curve of their own, the best ones
_COLUMNS = 3
_WIDE = 30.0  # ratio of a parameter's highest to its lowest value from which on its axis is logarithmic


def figures_of(results: MultirunResults) -> Iterator[FigureSpec]:
    """Specify the figures for which a multirun has values."""
    scores = _scores_figure(results)
    if scores.panels:
        yield scores
    curves = _curves_figure(results)
    if curves.panels[0].series:
        yield curves


# ---- the metric over each parameter -------------------------------------------------------------------


def _scores_figure(results: MultirunResults) -> FigureSpec:
    """Specify a panel per parameter; one of the seed only where nothing else differs."""
    known = results.known()
    names = results.settings or [name for name in results.parameters if name == SEED]
    panels = [_scores_panel(known, name, results.metric) for name in names if len(known)]
    columns = max(1, min(_COLUMNS, len(panels)))
    return FigureSpec(
        name="scores",
        title=f"{results.metric} by parameter",
        panels=panels,
        columns=columns,
        shares_y=True,
        width_in=4.5 * columns,
        height_in=0.5 + 3.0 * math.ceil(len(panels) / columns),
        note="A point is a job, a diamond the mean of a value. The pointer on a point shows the job's name.",
    )


def _scores_panel(known: pl.DataFrame, parameter: str, metric: str) -> Panel:
    """Return the panel of a parameter: a point per job, and the mean of each value."""
    column = known[parameter]
    is_numeric = column.dtype.is_numeric() and column.null_count() == 0
    values = column.to_list() if is_numeric else [str(value) for value in column]
    names = [] if is_numeric else list(dict.fromkeys(values))
    places = values if is_numeric else [names.index(value) for value in values]
    means = pl.DataFrame({"place": places, "score": known[metric]}).group_by("place").agg(pl.col("score").mean())
    means = means.sort("place")
    scale = scale_of(column, _WIDE) if is_numeric else "linear"
    series = [
        Line(places, known[metric], None, NEUTRAL, width=0, opacity=0.6, symbol="circle", notes=known["job"].to_list()),
        Line(means["place"], means["score"], None, colour(0), width=1.0 if is_numeric else 0.0, symbol="diamond"),
    ]
    return Panel(Axis(parameter, scale=scale, names=names), Axis(metric), series)


# ---- the validation score over steps ------------------------------------------------------------------


def _curves_figure(results: MultirunResults) -> FigureSpec:
    lines = [
        Line(steps, mean, label, colour(number), 1.5, symbol="circle", band=(low, high))
        for number, (label, over) in enumerate(_curves(results))
        for steps, mean, low, high in [[over[name].to_list() for name in ("step", "mean", "low", "high")]]
    ]
    return FigureSpec(
        name="curves",
        title="Validation score over training",
        panels=[Panel(Axis("steps"), Axis("validation score"), lines)],
        height_in=4.5 + 0.2 * len(lines),
        note="The mean over the seeds of a setting; the band goes from the lowest to the highest.",
    )


def _curves(results: MultirunResults) -> list[tuple[str, pl.DataFrame]]:
    """Return the mean, lowest and highest score of each step of the settings with the highest last score."""
    names = [name for name in results.parameters if name != SEED]
    rows = results.curves.join(results.summary.select("job", *names).unique(), on="job", maintain_order="left")
    score = pl.col("score")
    ends = (score.mean().alias("mean"), score.min().alias("low"), score.max().alias("high"))
    curves = []
    for key, group in rows.group_by(*names, maintain_order=True) if names else [((), rows)]:
        over = group.group_by("step").agg(*ends)
        label = ", ".join(f"{name}={value}" for name, value in zip(names, key, strict=True)) or results.title
        if len(over):
            curves.append((label, over.sort("step")))
    return sorted(curves, key=lambda curve: -curve[1]["mean"][-1])[:MAX_CURVES]
