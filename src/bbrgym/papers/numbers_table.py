# SPDX-License-Identifier: GPL-2.0-only
"""The table of a reproduction: a row per world and published number or claim."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from bbrgym.papers.distributions import FACTORS, QUANTILES, quantiles_of_seeds, shares_within
from bbrgym.papers.results import ReproducedExperiment, reading_of

QUANTILE_COLUMNS = tuple(f"quantile_{100 * part:g}" for part in QUANTILES)
"""Columns of the quantiles over seeds; empty for few seeds."""

SHARE_COLUMNS = tuple(f"seeds_within_{factor:g}" for factor in FACTORS)
"""Columns of the parts of seeds within a factor of the mean of the others; empty for few seeds."""


def numbers_table(results: Sequence[ReproducedExperiment]) -> pl.DataFrame:
    """Return a row per world and published number or claim: what numbers.parquet holds."""
    rows = [
        {
            "experiment": one.experiment.name,
            "world": result.world,
            "reading": reading_of(one.experiment, result.number.quantity.variant),
            "variant": result.number.quantity.variant,
            "metric": result.number.quantity.metric,
            "flow": result.number.quantity.flow,
            "at": result.number.quantity.at,
            "over": result.number.quantity.over,
            "published": result.number.value,
            "unit": result.number.unit,
            "source": result.number.source,
            "measured": result.measured.value,
            "low": result.measured.low,
            "high": result.measured.high,
            "seeds": int(np.count_nonzero(~np.isnan(result.values))),
            "percentile": result.percentile,
            **dict(zip(QUANTILE_COLUMNS, quantiles_of_seeds(result.values), strict=True)),
            **dict(zip(SHARE_COLUMNS, shares_within(result.values), strict=True)),
            "verdict": result.verdict,
            "reason": one.reason_of([result.number.quantity], result.world),
        }
        for one in results
        for result in one.numbers
    ]
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
    return pl.DataFrame([*rows, *claims], schema=_NUMBERS)


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
