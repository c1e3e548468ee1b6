# SPDX-License-Identifier: GPL-2.0-only
"""Figures of a multirun: the metric over each parameter, and the trainings' validation scores over steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from bbrgym.report.figure_spec import NEUTRAL, Axis, FigureSpec, Line, Panel, colour
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
    is_log = is_numeric and column.min() > 0 and column.max() > _WIDE * column.min()  # type: ignore[operator]
    series = [
        Line(places, known[metric], None, NEUTRAL, width=0, opacity=0.6, symbol="circle", notes=known["job"].to_list()),
        Line(means["place"], means["score"], None, colour(0), width=1.0 if is_numeric else 0.0, symbol="diamond"),
    ]
    return Panel(Axis(parameter, scale="log" if is_log else "linear", names=names), Axis(metric), series)


# ---- the validation score over steps ------------------------------------------------------------------


@dataclass(frozen=True)
class _Curve:
    """Validation scores of one setting: the mean over its seeds, the lowest and the highest: [steps] each."""

    label: str
    steps: Sequence[int]
    means: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]


def _curves_figure(results: MultirunResults) -> FigureSpec:
    lines = [
        Line(
            curve.steps,
            curve.means,
            curve.label,
            colour(number),
            width=1.5,
            symbol="circle",
            band=(curve.lows, curve.highs),
        )
        for number, curve in enumerate(_curves(results))
    ]
    return FigureSpec(
        name="curves",
        title="Validation score over training",
        panels=[Panel(Axis("steps"), Axis("validation score"), lines)],
        height_in=4.5 + 0.2 * len(lines),
        note="The mean over the seeds of a setting; the band goes from the lowest to the highest.",
    )


def _curves(results: MultirunResults) -> list[_Curve]:
    """Return the curves of the settings with the highest last score."""
    names = [name for name in results.parameters if name != SEED]
    rows = results.curves.join(results.summary.select("job", *names).unique(), on="job", maintain_order="left")
    curves = []
    for key, group in rows.group_by(*names, maintain_order=True) if names else [((), rows)]:
        over = group.group_by("step").agg(
            pl.col("score").mean().alias("mean"),
            pl.col("score").min().alias("low"),
            pl.col("score").max().alias("high"),
        )
        over = over.sort("step")
        label = ", ".join(f"{name}={value}" for name, value in zip(names, key, strict=True)) or results.title
        if len(over):
            curves.append(_Curve(label, *(over[name].to_list() for name in ("step", "mean", "low", "high"))))
    return sorted(curves, key=lambda curve: -curve.means[-1])[:MAX_CURVES]
