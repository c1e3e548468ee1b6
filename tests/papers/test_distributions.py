# SPDX-License-Identifier: GPL-2.0-only
"""Quantiles over seeds and the percentile of a published value, by closed forms."""

import math

import numpy as np
import pytest

from bbrgym.papers.distributions import (
    ENOUGH_SEEDS,
    FACTORS,
    QUANTILES,
    percentile_of,
    quantiles_of_seeds,
    shares_within,
)


def test_quantiles_of_evenly_spaced_seeds_are_linear_in_their_part() -> None:
    values = np.random.default_rng(1).permutation(np.arange(1.0, 22.0))  # 1 to 21: the quantile of a part q is 1 + 20 q
    assert quantiles_of_seeds(values) == pytest.approx((2.0, 6.0, 11.0, 16.0, 20.0))
    assert quantiles_of_seeds(10 * values - 3) == pytest.approx([10 * (1 + 20 * part) - 3 for part in QUANTILES])


def test_few_seeds_and_those_without_a_value_have_no_quantiles() -> None:
    values = np.arange(1.0, 22.0)
    assert quantiles_of_seeds([*values, math.nan]) == quantiles_of_seeds(values)
    assert percentile_of(11.0, [*values, math.nan]) == percentile_of(11.0, values)
    assert math.isnan(percentile_of(1.0, [math.nan]))
    assert quantiles_of_seeds(np.ones(ENOUGH_SEEDS)) == (1.0,) * len(QUANTILES)
    assert quantiles_of_seeds([*np.ones(ENOUGH_SEEDS - 1), math.nan]) == (None,) * len(QUANTILES)


@pytest.mark.parametrize(
    ("published", "percentile"), [(0.5, 0.0), (1.0, 2.5), (5.5, 25.0), (10.5, 50.0), (20.0, 97.5), (21.0, 100.0)]
)
def test_the_percentile_counts_the_seeds_below_and_half_of_the_equal_ones(published: float, percentile: float) -> None:
    assert percentile_of(published, np.arange(1.0, 21.0)) == percentile


def test_a_seed_is_held_against_the_mean_of_the_others() -> None:
    assert FACTORS == (1.25, 1.6)
    # Beside 3.1 the others have a mean of 1.005, beside 1.1 one of 1.105, beside a 1 one of 1.11.
    assert shares_within([*np.ones(19), 3.1, 1.1]) == pytest.approx((20 / 21, 20 / 21))
    assert shares_within([*np.ones(19), 1.5, 1.0]) == pytest.approx((20 / 21, 1.0))
    assert shares_within([*np.ones(19), 0.0, 1.0]) == pytest.approx((20 / 21, 20 / 21))


def test_seeds_that_agree_are_all_within_the_factors_and_few_seeds_have_no_share() -> None:
    assert shares_within([*np.full(ENOUGH_SEEDS, 3.0), math.nan]) == (1.0,) * len(FACTORS)
    assert shares_within(np.zeros(ENOUGH_SEEDS)) == (1.0,) * len(FACTORS)
    assert shares_within(np.ones(ENOUGH_SEEDS - 1)) == (None,) * len(FACTORS)
