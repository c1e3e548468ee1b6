# SPDX-License-Identifier: GPL-2.0-only
"""Figures of spread: distribution functions of RTT and goodput share, and throughput over delay with ellipses."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import per_run, tuned_flows, with_entrants, worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.report.figure_spec import Axis, FigureSpec, Line, Panel, Series, colour, scale_of
from bbrgym.report.flow_figures import interval_of

MIN_ELLIPSE = 3  # runs with an ellipse
_CORNERS = 72  # of an ellipse
_WIDE = 20.0  # ratio of the highest to the lowest value from which on an axis is logarithmic
_NEARLY_SAME = 1.0  # percentage points, within which an axis would show noise alone, or end far above 100 %

Values = npt.NDArray[np.float64]


def scenario_spreads(results: Results) -> Iterator[FigureSpec]:
    """Specify the figures of a plain scenario: per world, of the intervals after the warm-up and of all seeds."""
    worlds = worlds_of(results.summary)
    for world in worlds:
        where = f" on {world}" if len(worlds) > 1 else ""
        suffix = f"-{world}" if len(worlds) > 1 else ""
        rows = _measured_rows(results).filter(pl.col("world") == world)
        summary = with_entrants(results.summary.filter(pl.col("world") == world))
        means = f"means of {interval_of(rows):.3g} s"
        yield _distribution_figure(
            f"distributions{suffix}",
            f"{results.title}{where}: RTT and goodput share of the tuned flows",
            rows,
            (f"RTT (ms), {means}", "rtt_mean_ms", "rtt_samples"),
            (f"share of the goodput, {means}", "share", "weight"),
            "Of all flows and seeds after the warm-up; the RTT's intervals count by their samples.",
        )
        runs = per_run(summary.drop("entrant"))
        yield _scatter_figure(
            f"delay{suffix}",
            f"{results.title}{where}: utilisation and queueing delay",
            runs.select("entrant", "seed", x="queue_delay_ms", y=100 * pl.col("utilisation")),
            Axis("mean queueing delay (ms)", is_reversed=True),
            Axis("utilisation (%)", limits=_around(100 * runs["utilisation"])),
            "seed",
        )


def draw_spreads(results: Results, ranking: Ranking, suffix: str) -> Iterator[FigureSpec]:
    """Specify the figures of draws on a ranking's world."""
    summary = with_entrants(results.summary.filter(pl.col("world") == ranking.world))
    flows = tuned_flows(summary).with_columns(stretch=pl.col("rtt_mean_ms") / pl.col("rtt_ms"), weight=pl.lit(1.0))
    yield _distribution_figure(
        f"distributions{suffix}",
        f"{results.title} on {ranking.world}: RTT and goodput share of the tuned flows",
        flows,
        ("mean RTT of a flow / base RTT", "stretch", "weight"),
        ("share of a flow in the goodput", "share", "weight"),
        "A step for each tuned flow of each draw.",
    )
    runs = flows.group_by("entrant", "seed", maintain_order=True).agg(
        pl.col("stretch").mean().alias("x"), (100 * pl.col("utilisation").first()).alias("y")
    )
    yield _scatter_figure(
        f"delay{suffix}",
        f"{results.title} on {ranking.world}: utilisation and RTT",
        runs,
        Axis("mean RTT / base RTT of the tuned flows", scale="log", is_reversed=True),
        Axis("utilisation (%)"),
        "draw",
    )


def _measured_rows(results: Results) -> pl.DataFrame:
    """Return the tuned flows' rows of the time series after the warm-up, with the share of the goodput."""
    windows = tuned_flows(results.summary).select("world", "variant", "agent", "seed", "flow", "start_s", "stop_s")
    keys = ("world", "variant", "agent", "seed")
    total = pl.col("goodput_mbps").sum().over(*keys, "time_s")
    shares = with_entrants(results.timeseries).with_columns(share=pl.col("goodput_mbps") / total, weight=pl.lit(1.0))
    is_measured = (pl.col("time_s") > pl.col("start_s")) & (pl.col("time_s") <= pl.col("stop_s") + 1e-9)
    return shares.join(windows, on=(*keys, "flow"), maintain_order="left").filter(is_measured & (pl.col("active") > 0))


# ---- distribution functions ---------------------------------------------------------------------------


def _distribution_figure(
    name: str, title: str, rows: pl.DataFrame, left: tuple[str, str, str], right: tuple[str, str, str], note: str
) -> FigureSpec:
    """Specify two panels of distribution functions, each of a column and a column of weights."""
    entrants = rows["entrant"].unique(maintain_order=True).to_list()
    panels = []
    for about, column, weight in (left, right):
        lines = []
        for number, entrant in enumerate(entrants):
            own = rows.filter(pl.col("entrant") == entrant)
            values, parts = distribution(own[column].to_numpy(), own[weight].to_numpy())
            if len(values):
                lines.append(Line(values, parts, entrant, colour(number), is_stepped=True))
        ends = [float(end(line.x)) for line in lines for end in (np.min, np.max)]
        across = Axis(about, limits=(0, 1.02)) if column == "share" else Axis(about, scale=scale_of(ends, _WIDE))
        panels.append(Panel(across, Axis("part at most this", limits=(0, 1.01)), lines))
    return FigureSpec(
        name=name, title=title, panels=panels, columns=2, shares_y=True, width_in=11, height_in=4.4, note=note
    )


def distribution(values: Values, weights: Values) -> tuple[Values, Values]:
    """Return a distribution function as a stepped line: the positions of steps, and the part below each value.

    The last value is there twice, at the end with the part 1. Values of NaN, and those without weight, are left out.
    """
    is_known = np.isfinite(values) & (weights > 0)
    values, weights = values[is_known], weights[is_known]
    if len(values) == 0:
        return values, weights
    order = np.argsort(values, kind="stable")
    values, parts = values[order], np.cumsum(weights[order]) / weights.sum()
    is_last = np.append(values[1:] != values[:-1], True)
    return np.append(values[is_last], values[-1]), np.append(0.0, parts[is_last])


# ---- throughput over delay ----------------------------------------------------------------------------


def _around(percentages: pl.Series) -> tuple[float, float] | None:
    """Return the ends of an axis of percentages that are nearly the same; None of others."""
    low, high = percentages.min(), percentages.max()
    if not isinstance(low, float) or not isinstance(high, float) or not high - low < _NEARLY_SAME:
        return None
    return low - 5 * _NEARLY_SAME, high + _NEARLY_SAME


def _scatter_figure(name: str, title: str, runs: pl.DataFrame, x: Axis, y: Axis, run: str) -> FigureSpec:
    """Specify a point per run and, of three runs or more, an ellipse; better is up and to the right.

    ``runs`` has columns entrant, seed, x (the delay, reversed) and y; ``run`` is a run's name before the seed.
    """
    series: list[Series] = []
    for number, entrant in enumerate(runs["entrant"].unique(maintain_order=True)):
        own = runs.filter((pl.col("entrant") == entrant) & pl.col("x").is_finite() & pl.col("y").is_finite())
        if len(own) == 0:
            continue
        across, up = own["x"].to_numpy(), own["y"].to_numpy()
        is_log = x.scale == "log"
        outline = ellipse(np.log(across) if is_log else across, up)
        if outline is not None:
            around = np.exp(outline[0]) if is_log else outline[0]
            series.append(Line(around, outline[1], None, colour(number), width=1.0, fill=0.12))
        notes = [f"{entrant}, {run} {seed}" for seed in own["seed"]]
        size = 4.0 if len(own) <= 20 else 2.5
        series.append(
            Line(across, up, None, colour(number), 0, opacity=0.55, symbol="circle", symbol_size=size, notes=notes)
        )
        middle = np.exp(np.log(across).mean()) if is_log else across.mean()
        series.append(Line([middle], [up.mean()], entrant, colour(number), 0, symbol="diamond", symbol_size=7.0))
    return FigureSpec(
        name=name,
        title=title,
        panels=[Panel(x, y, series)],
        width_in=7.5,
        height_in=5.0,
        note=f"A point per run; diamonds are means{' (of the RTT the geometric one)' if x.scale == 'log' else ''}, "
        f"ellipses one standard deviation, of {MIN_ELLIPSE} runs or more. Up and to the right is better.",
    )


def ellipse(x: Values, y: Values) -> tuple[Values, Values] | None:
    """Return the ellipse of one standard deviation around the mean of points; None of too few.

    It is that of the normal distribution with the points' mean and covariance: along each of its axes it reaches one
    standard deviation from the mean.
    """
    if len(x) < MIN_ELLIPSE:
        return None
    spread, axes = np.linalg.eigh(np.cov(x, y))
    angles = np.linspace(0, 2 * math.pi, _CORNERS + 1)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    across, up = axes @ (np.sqrt(np.maximum(spread, 0.0))[:, None] * circle)
    return across + x.mean(), up + y.mean()
