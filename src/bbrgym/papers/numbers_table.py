# SPDX-License-Identifier: GPL-2.0-only
"""The table of a reproduction: a row per world and published number, distribution over seeds, or claim.

A row of a number has what was published, one of a claim its text, and one of a distribution neither; it has no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from bbrgym.papers.distributions import FACTORS, QUANTILES, quantiles_of_seeds, shares_within
from bbrgym.papers.results import ReproducedExperiment, Spread, reading_of

QUANTILE_COLUMNS = tuple(f"quantile_{100 * part:g}" for part in QUANTILES)
"""Columns of the quantiles over seeds; empty for few seeds."""

SHARE_COLUMNS = tuple(f"seeds_within_{factor:g}" for factor in FACTORS)
"""Columns of the parts of seeds within a factor of the mean of the others; empty for few seeds."""


def numbers_table(results: Sequence[ReproducedExperiment]) -> pl.DataFrame:
    """Return a row per world and published number, distribution or claim: what numbers.parquet holds."""
    rows = [
        {
            **_measured(one, result),
            "published": result.number.value,
            "unit": result.number.unit,
            "source": result.number.origin,
            "percentile": result.percentile,
            "verdict": result.verdict,
            "reason": one.reason_of([result.number.quantity], result.world),
        }
        for one in results
        for result in one.numbers
    ]
    spreads = [_measured(one, result) for one in results for result in one.spreads]
    claims = [
        {
            "experiment": one.experiment.name,
            "world": result.world,
            "reading": reading_of(one.experiment, result.claim.variant),
            "claim": result.claim.text,
            "source": result.claim.source,
            "less": result.less,
            "than": result.than,
            "verdict": result.verdict,
            "reason": one.reason_of(result.claim.quantities, result.world),
        }
        for one in results
        for result in one.claims
    ]
    return pl.DataFrame([*rows, *spreads, *claims], schema=_NUMBERS)


def _measured(one: ReproducedExperiment, result: Spread) -> dict[str, Any]:
    """Return the cells of a measured quantity."""
    quantity = result.quantity
    return {
        "experiment": one.experiment.name,
        "world": result.world,
        "reading": reading_of(one.experiment, quantity.variant),
        "variant": quantity.variant,
        "metric": quantity.metric,
        "flow": quantity.flow,
        "at": quantity.at,
        "over": quantity.over,
        "measured": result.measured.value,
        "low": result.measured.low,
        "high": result.measured.high,
        "seeds": int(np.count_nonzero(~np.isnan(result.values))),
        **dict(zip(QUANTILE_COLUMNS, quantiles_of_seeds(result.values), strict=True)),
        **dict(zip(SHARE_COLUMNS, shares_within(result.values), strict=True)),
    }


_NUMBERS = pl.Schema(
    {
        **dict.fromkeys(("experiment", "world", "reading", "variant", "metric", "flow"), pl.String),
        "at": pl.Float64,
        "over": pl.String,
        "published": pl.Float64,
        "unit": pl.String,
        "source": pl.String,
        **dict.fromkeys(("measured", "low", "high"), pl.Float64),
        "seeds": pl.Int64,
        "percentile": pl.Float64,
        **dict.fromkeys((*QUANTILE_COLUMNS, *SHARE_COLUMNS), pl.Float64),
        "claim": pl.String,
        **dict.fromkeys(("less", "than"), pl.Float64),
        "verdict": pl.String,
        "reason": pl.String,
    }
)
