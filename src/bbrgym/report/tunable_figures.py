# SPDX-License-Identifier: GPL-2.0-only
"""Figures of what sets the tunables does over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import FIXED, TUNABLE_PREFIX, tuned_flows, with_entrants, worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.report.figure_spec import Axis, FigureSpec, Line, Panel, colour
from bbrgym.scenario.families import described
from bbrgym.tunables import TUNABLES

MAX_TUNABLES = 4  # shown in a figure: those that vary most
_POINTS = 80  # of a line
_LEAST_VARIATION = 1e-9  # part of a tunable's range below which it is constant but for rounding


# ---- over time ----------------------------------------------------------------------------------------


def draw_figures(results: Results, ranking: Ranking, suffix: str) -> Iterator[FigureSpec]:
    """Specify a figure for each draw that has rows in the time series."""
    rows = with_entrants(results.timeseries.filter(pl.col("world") == ranking.world))
    summary = results.summary.filter(pl.col("world") == ranking.world)
    for number, seed in enumerate(rows["seed"].unique(maintain_order=True), start=1):
        yield _over_time(
            f"draw{suffix}-{number}",
            f"{results.draws[seed].name}: {described(results.draws[seed])}",
            rows.filter(pl.col("seed") == seed),
            ranking.main,
            _tuned(summary.filter(pl.col("seed") == seed)),
        )


def agent_figures(results: Results) -> Iterator[FigureSpec]:
    """Specify a figure per world of the agents beside the first preset, with a plain scenario's first seed.

    Without agents there is none.
    """
    agents = [one.label for one in results.entrants if one.agent != FIXED]
    presets = [one.label for one in results.entrants if one.agent == FIXED]
    if not agents:
        return
    rows = with_entrants(results.timeseries)
    seed = rows["seed"][0]
    for world in worlds_of(rows):
        yield _over_time(
            f"tunables-{world}",
            f"{results.title} on {world}, seed {seed}",
            rows.filter((pl.col("world") == world) & (pl.col("seed") == seed)),
            [*presets[:1], *agents],
            _tuned(results.summary),
        )


def _over_time(name: str, title: str, rows: pl.DataFrame, entrants: Sequence[str], tuned: Sequence[str]) -> FigureSpec:
    """Specify panels of goodput, queueing delay and the tunables that vary most, a line per entrant each."""
    shown = rows.filter(pl.col("entrant").is_in(entrants) & pl.col("flow").is_in(tuned) & (pl.col("active") > 0))
    tunables = [TUNABLE_PREFIX + name for name in varying_tunables(shown)]
    titles = {
        "goodput_mbps": "goodput of the tuned flows, mean (Mbit/s)",
        "link_queue_delay_mean_ms": "queueing delay (ms)",
        **{column: with_unit(column.removeprefix(TUNABLE_PREFIX)) for column in tunables},
    }
    intervals_s = shown.group_by("entrant", "flow").agg(pl.col("time_s").sort().diff().min())["time_s"]
    last_s: Any = rows["time_s"].max()
    bin_s = max([(last_s or 1.0) / _POINTS, *intervals_s.drop_nulls()])
    panels = [
        Panel(
            Axis("time (s)"),
            Axis(f"means of {bin_s:.2g} s", starts_at_zero=column not in tunables),
            list(_lines(shown, column, entrants, bin_s)),
            panel_title,
        )
        for column, panel_title in titles.items()
    ]
    return FigureSpec(name=name, title=title, panels=panels, shares_x=True, height_in=1.2 + 1.35 * len(panels))


def _lines(rows: pl.DataFrame, column: str, entrants: Sequence[str], bin_s: float) -> Iterator[Line]:
    """Yield the line of each entrant that has values in a column."""
    for number, entrant in enumerate(entrants):
        time_s, values = _binned(rows.filter(pl.col("entrant") == entrant), column, bin_s)
        if np.isfinite(values).any():
            yield Line(time_s, values, entrant, colour(number))


def _binned(rows: pl.DataFrame, column: str, bin_s: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the last time in s of each bin, and a column's mean over the rows of the bin: [bins] both."""
    bins = (
        rows.group_by(((pl.col("time_s") - 1e-9) / bin_s).floor().alias("bin"))
        .agg(pl.col("time_s").max(), pl.col(column).cast(pl.Float64).fill_nan(None).mean())
        .sort("bin")
    )
    return bins["time_s"].to_numpy(), bins[column].fill_null(math.nan).to_numpy()


def _tuned(summary: pl.DataFrame) -> list[str]:
    """Return the names of the tuned flows."""
    names: list[str] = tuned_flows(summary)["flow"].unique(maintain_order=True).to_list()
    return names


# ---- tunables that vary most --------------------------------------------------------------------------


def varying_tunables(rows: pl.DataFrame) -> list[str]:
    """Return the names of at most `MAX_TUNABLES` tunables that any entrant varies, the most varied first."""
    names = [column.removeprefix(TUNABLE_PREFIX) for column in rows.columns if column.startswith(TUNABLE_PREFIX)]
    varied = dict.fromkeys(names, 0.0)
    for own in rows.partition_by("entrant"):
        for name in names:
            values = own[TUNABLE_PREFIX + name].fill_nan(None).drop_nulls().to_numpy()
            varied[name] = max(varied[name], _part_of_range(name, values))
    most = sorted(varied, key=lambda name: -varied[name])[:MAX_TUNABLES]
    return [name for name in most if varied[name] > _LEAST_VARIATION]


def _part_of_range(name: str, values: npt.NDArray[np.float64]) -> float:
    """Return the standard deviation of a tunable's values as a part of the tunable's range and scale."""
    tunable = TUNABLES[name]
    if len(values) == 0:
        return 0.0
    if tunable.scale == "log":
        return float(np.std(np.log(values)) / math.log(tunable.high / tunable.low))
    return float(np.std(values)) / (tunable.high - tunable.low)


def with_unit(name: str) -> str:
    return f"{name} ({TUNABLES[name].unit})"
