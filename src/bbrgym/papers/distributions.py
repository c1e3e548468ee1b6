# SPDX-License-Identifier: GPL-2.0-only
"""The distribution of a quantity over seeds, and where a published value lies in it.

A mean hides how far runs differ by chance: a published value may be a single run's, far from the mean and still usual.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bbrgym.evaluate.statistics import known_values

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Parts of the seeds whose values are below a quantile."""

FACTORS = (1.25, 1.6)
"""Factors that a measured value is to be within of a published one."""

ENOUGH_SEEDS = 20  # from which on a twentieth of the seeds, the least of QUANTILES, is one of them


def quantiles_of_seeds(values: npt.ArrayLike) -> tuple[float | None, ...]:
    """Return the values at `QUANTILES`, linear between two seeds; None each if fewer than `ENOUGH_SEEDS` are known."""
    known = known_values(values)
    if len(known) < ENOUGH_SEEDS:
        return (None,) * len(QUANTILES)
    return tuple(float(value) for value in np.quantile(known, QUANTILES))


def percentile_of(published: float, values: npt.ArrayLike) -> float:
    """Return the part of the seeds, in percent, whose value is below the published one; NaN if none is known.

    A tie counts as a half.
    """
    known = known_values(values)
    if not len(known):
        return math.nan
    return 100 * float(np.mean((known < published) + 0.5 * (known == published)))


def shares_within(values: npt.ArrayLike) -> tuple[float | None, ...]:
    """Return the part of the seeds that are within each of `FACTORS` of the mean of the others.

    It is what a single published run would meet if it were of the very system measured. None each if fewer than
    `ENOUGH_SEEDS` are known.
    """
    known = known_values(values)
    if len(known) < ENOUGH_SEEDS:
        return (None,) * len(FACTORS)
    others = (known.sum() - known) / (len(known) - 1)
    return tuple(float(np.mean((others <= factor * known) & (known <= factor * others))) for factor in FACTORS)
