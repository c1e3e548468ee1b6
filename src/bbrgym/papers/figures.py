# SPDX-License-Identifier: GPL-2.0-only
"""Figures of the papers, redrawn from measured values, with the published points in the same colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from bbrgym.evaluate.statistics import Estimate
from bbrgym.papers.experiment import Experiment, ParameterSweep, Shown
from bbrgym.papers.measurements import estimate, values_of
from bbrgym.papers.metrics import METRICS
from bbrgym.papers.results import NumberResult, ReproducedExperiment
from bbrgym.report.figure_spec import Axis, Dash, FigureSpec, Line, Panel, Points, Series, colour, scale_of

_COLUMNS = 2
_WIDE = 50.0  # ratio of the highest to the lowest value from which on an axis is logarithmic
_DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")  # of the worlds


def experiment_figures(result: ReproducedExperiment) -> Iterator[FigureSpec]:
    """Specify the figures of an experiment: its quantities, and if asked for its course over time."""
    experiment, sweep = result.experiment, result.experiment.sweep
    name = experiment.name.replace("/", "-")
    if sweep is not None:
        panels = [_sweep_panel(result, sweep, shown) for shown in experiment.panels]
    else:
        panels = [_names_panel(result, group) for group in _by_metric(experiment.panels)]
    if panels:
        yield _figure(name, experiment, panels, "Lines and circles are measured, diamonds published.")
    if result.series is not None and len(result.series):
        yield _figure(f"{name}-time", experiment, list(_time_panels(result, result.series)), "The first seed.")


def _figure(name: str, experiment: Experiment, panels: Sequence[Panel], note: str) -> FigureSpec:
    columns = min(_COLUMNS, len(panels))
    return FigureSpec(
        name=name,
        title=f"{experiment.figure}: {experiment.title}",
        subject=f"{experiment.name}: {experiment.title}",
        panels=panels,
        columns=columns,
        width_in=5.5 * columns,
        height_in=1.0 + 3.0 * math.ceil(len(panels) / columns),
        note=note,
    )


def _by_metric(panels: Sequence[Shown]) -> Iterable[list[Shown]]:
    """Return the quantities of each panel without a sweep: all flows of a metric."""
    groups: dict[tuple[str, str | None], list[Shown]] = {}
    for one in panels:
        groups.setdefault((one.metric, one.over), []).append(one)
    return groups.values()


def _title(shown: Shown) -> str:
    unit = "ratio" if shown.over else METRICS[shown.metric].unit
    return f"{shown.title} ({unit})"


def _variants(result: ReproducedExperiment, shown: Shown) -> list[str]:
    """Return the variants of a panel: all, of a ratio those that are not its denominator."""
    return [name for name in result.experiment.variants if name != shown.over]


def _published(result: ReproducedExperiment, world: str, shown: Shown, variant: str) -> list[NumberResult]:
    wanted = {shown.of(variant, at) for at in result.experiment.points}
    return [one for one in result.numbers if one.world == world and one.number.quantity in wanted]


# ---- along a sweep ------------------------------------------------------------------------------------


def _sweep_panel(result: ReproducedExperiment, sweep: ParameterSweep, shown: Shown) -> Panel:
    series: list[Series] = []
    values: list[float] = []
    for index, variant in enumerate(_variants(result, shown)):
        for number, world in enumerate(result.worlds):
            means = [estimate(values_of(result.measurements, world, shown.of(variant, at))) for at in sweep.at]
            values += [mean.value for mean in means]
            where = f", {world}" if len(result.worlds) > 1 else ""
            series.append(_curve(sweep.at, means, variant + where, index, _DASHES[number % len(_DASHES)]))
        published = _published(result, result.worlds[0], shown, variant)
        if published:
            values += [one.number.value for one in published]
            at, known = zip(*((one.number.quantity.at or 0.0, one.number.value) for one in published), strict=True)
            series.append(Line(at, known, f"{variant}, published", colour(index), width=0, symbol="diamond"))
    return Panel(Axis(sweep.title, scale=sweep.scale), Axis(_title(shown), scale=scale_of(values, _WIDE)), series)


def _curve(at: Sequence[float], means: Sequence[Estimate], label: str, index: int, dash: Dash) -> Line:
    lows = [mean.value if math.isnan(mean.low) else mean.low for mean in means]
    highs = [mean.value if math.isnan(mean.high) else mean.high for mean in means]
    values = [mean.value for mean in means]
    return Line(at, values, label, colour(index), dash=dash, symbol="circle", band=(lows, highs))


# ---- without a sweep ----------------------------------------------------------------------------------


def _names_panel(result: ReproducedExperiment, group: Sequence[Shown]) -> Panel:
    names = _variants(result, group[0])
    kinds = [(shown, world) for shown in group for world in result.worlds]
    series: list[Series] = []
    values: list[float] = []
    for number, (shown, world) in enumerate(kinds):
        offset = 0.6 * ((number + 0.5) / len(kinds) - 0.5)
        label = ", ".join([*([shown.flow] if shown.flow else []), *([world] if len(result.worlds) > 1 else [])])
        means = [estimate(values_of(result.measurements, world, shown.of(name, None))) for name in names]
        values += [mean.value for mean in means]
        places = [index + offset for index in range(len(names))]
        series.append(Points(places, means, "y", label or "measured", colour(number)))
        known = [(index, one) for index, name in enumerate(names) for one in _published(result, world, shown, name)]
        if known and world == result.worlds[0]:
            values += [one.number.value for _, one in known]
            nothing = (math.nan, math.nan)
            of_paper = [Estimate(one.number.value, *(one.number.spread or nothing)) for _, one in known]
            text = f"{label}, published" if label else "published"
            at = [index + offset + 0.15 / len(kinds) for index, _ in known]
            series.append(Points(at, of_paper, "y", text, colour(number), symbol="diamond", is_filled=False))
    scale = scale_of(values, _WIDE)
    title = _title(group[0] if len(group) == 1 else group[0].model_copy(update={"flow": None}))
    return Panel(Axis(names=names), Axis(title, scale=scale, starts_at_zero=scale == "linear"), series)


# ---- over time ----------------------------------------------------------------------------------------


def _time_panels(result: ReproducedExperiment, series: pl.DataFrame) -> Iterator[Panel]:
    wanted = result.experiment.over_time
    rows = series.filter(pl.col("world") == result.worlds[0])
    for field in wanted.fields if wanted is not None else ():
        lines: list[Line] = []
        for variant in result.experiment.variants:
            own = rows.filter(pl.col("entrant") == variant)
            of_link = field.startswith("link_")
            for flow in own["flow"].unique(maintain_order=True)[: 1 if of_link else None]:
                line = own.filter((pl.col("flow") == flow) & (pl.lit(of_link) | (pl.col("active") > 0)))
                label = variant if of_link else f"{variant}: {flow}"
                values = line[field].to_numpy().astype(np.float64)
                lines.append(Line(line["time_s"].to_numpy(), values, label, colour(len(lines))))
        yield Panel(Axis("time (s)"), Axis(field, starts_at_zero=True), lines)
