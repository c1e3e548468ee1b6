# SPDX-License-Identifier: GPL-2.0-only
"""The values of an experiment's runs: a row per run and quantity, and the mean over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from bbrgym.evaluate.records import RunRecord
from bbrgym.evaluate.statistics import MIN_DRAWS, Estimate, bootstrap_mean, known_values, student_mean
from bbrgym.papers.cases import PreparedExperiment
from bbrgym.papers.experiment import Quantity
from bbrgym.papers.metrics import MeasuredRun, measure

Values = npt.NDArray[np.float64]

MEASUREMENTS = pl.Schema(
    {
        **dict.fromkeys(("experiment", "world", "variant"), pl.String),
        "at": pl.Float64,
        "seed": pl.Int64,
        "metric": pl.String,
        "flow": pl.String,
        "value": pl.Float64,
    }
)


def measurements_of(prepared: PreparedExperiment, outcomes: Sequence[RunRecord | str]) -> pl.DataFrame:
    """Return the values of all runs: NaN for every seed where one broke, since a mean of the others misleads."""
    panels = dict.fromkeys((panel.metric, panel.flow) for panel in prepared.experiment.panels)
    runs = list(zip(prepared.cases, outcomes, strict=True))

    broken = {(case.job.world, case.variant, case.at) for case, outcome in runs if isinstance(outcome, str)}
    rows = []
    for case, outcome in runs:
        point = (case.job.world, case.variant, case.at)
        for metric, flow in panels:
            value = math.nan
            if not isinstance(outcome, str) and point not in broken:
                run = MeasuredRun(outcome.summary, outcome.timeseries, case.job.scenario.mss_bytes)
                value = measure(run, metric, flow)
            rows.append((prepared.experiment.name, *point, case.job.seed, metric, flow, value))
    return pl.DataFrame(rows, schema=MEASUREMENTS, orient="row")


def series_of(prepared: PreparedExperiment, outcomes: Sequence[RunRecord | str]) -> pl.DataFrame | None:
    """Return the time series of the first seed, with the column ``entrant``; None without a figure over time."""
    wanted = prepared.experiment.over_time
    if wanted is None:
        return None
    end_s = math.inf if wanted.to_s is None else wanted.to_s
    parts = [
        outcome.timeseries.with_columns(entrant=pl.lit(case.variant)).filter(
            pl.col("time_s").is_between(wanted.from_s, end_s)
        )
        for case, outcome in zip(prepared.cases, outcomes, strict=True)
        if case.at == wanted.at and case.job.seed == 1 and not isinstance(outcome, str)
    ]
    return pl.concat(parts, how="diagonal") if parts else None


def estimate(values: npt.ArrayLike) -> Estimate:
    """Return the mean over seeds with its 95 % interval: by bootstrap from 10 seeds on, below by Student's t."""
    return bootstrap_mean(values) if len(known_values(values)) >= MIN_DRAWS else student_mean(values)


def values_of(measurements: pl.DataFrame, world: str, quantity: Quantity) -> Values:
    """Return a quantity of each seed in a world; empty if it has not run there.

    A variant that only one world has counts for every world.
    """
    rows = measurements.filter(
        (pl.col("metric") == quantity.metric)
        & pl.col("flow").eq_missing(pl.lit(quantity.flow, pl.String))
        & pl.col("at").eq_missing(pl.lit(quantity.at, pl.Float64))
    )

    def of(variant: str) -> pl.DataFrame:
        own = rows.filter(pl.col("variant") == variant)
        here = own.filter(pl.col("world") == world)
        return (here if len(here) else own).select("seed", "value").sort("seed")

    if quantity.over is None:
        return of(quantity.variant)["value"].to_numpy()
    pairs = of(quantity.variant).join(of(quantity.over), on="seed", suffix="_over")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Values = pairs["value"].to_numpy() / pairs["value_over"].to_numpy()
    return np.where(np.isfinite(ratios), ratios, np.nan)
