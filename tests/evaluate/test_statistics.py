# SPDX-License-Identifier: GPL-2.0-only
"""Estimates over draws: against rliable and SciPy, in closed form, and that they cover what they claim to."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import bootstrap, norm

from bbrgym.evaluate.statistics import Estimate, Scores


def drawn(runs, draws, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1.0, (runs, draws))


def test_values_are_rliable_s():
    metrics = pytest.importorskip("rliable.metrics")
    a, b = drawn(3, 40), drawn(2, 40, seed=1, shift=0.3)
    b[:, :5] = a[:2, :5]  # ties
    scores = Scores({"a": a, "b": b})
    assert scores.mean("a").value == pytest.approx(metrics.aggregate_mean(a))
    assert scores.iqm("a").value == pytest.approx(metrics.aggregate_iqm(a))
    assert scores.improvement("a", "b").value == pytest.approx(metrics.probability_of_improvement(a, b))
    assert scores.improvement("b", "a").value == pytest.approx(1.0 - scores.improvement("a", "b").value)


@pytest.mark.parametrize("statistic", ["mean", "difference"])
def test_intervals_are_scipy_s(statistic):
    a, b = drawn(1, 60), drawn(1, 60, seed=1)
    scores = Scores({"a": a, "b": b})
    mine = scores.mean("a") if statistic == "mean" else scores.difference("a", "b")
    sample = a[0] if statistic == "mean" else (a - b)[0]
    theirs = bootstrap((sample,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(2))
    assert mine.value == pytest.approx(sample.mean())
    assert mine.low == pytest.approx(theirs.confidence_interval.low, abs=0.015)
    assert mine.high == pytest.approx(theirs.confidence_interval.high, abs=0.015)


def test_the_interval_of_the_mean_is_as_wide_as_theory_says():
    estimate = Scores({"a": drawn(1, 400)}).mean("a")
    width = 2 * norm.ppf(0.975) * drawn(1, 400).std() / math.sqrt(400)
    assert estimate.high - estimate.low == pytest.approx(width, rel=0.05)


def test_intervals_cover_the_truth_about_95_times_in_100():
    covered = 0
    for seed in range(200):
        a = drawn(1, 50, seed=seed)
        b = a + np.random.default_rng([seed, 1]).normal(0.2, 0.5, a.shape)
        estimate = Scores({"a": a, "b": b}).difference("b", "a")
        covered += estimate.low <= 0.2 <= estimate.high
    assert 180 <= covered <= 198  # binomial(200, 0.94): five times in ten thousand outside


def test_pairing_makes_differences_sharper():
    a = drawn(1, 50)
    b = a + 0.1 + drawn(1, 50, seed=3) * 0.01
    paired = Scores({"a": a, "b": b}).difference("b", "a")
    assert paired.excludes_zero
    assert paired.high - paired.low < 0.02
    assert not Estimate(0.1, -0.1, 0.3).excludes_zero


def test_training_runs_that_differ_widen_the_interval():
    draws = drawn(1, 50)
    alike, apart = np.repeat(draws, 3, axis=0), draws + np.array([[-1.0], [0.0], [1.0]])
    scores = Scores({"alike": alike, "apart": apart})
    widths = {name: scores.mean(name).high - scores.mean(name).low for name in scores.names}
    assert scores.mean("alike").value == pytest.approx(scores.mean("apart").value)
    assert widths["apart"] > 2 * widths["alike"]
    single = Scores({"alike": draws}).mean("alike")
    assert (single.low, single.high) == pytest.approx((scores.mean("alike").low, scores.mean("alike").high))


@settings(deadline=None, max_examples=30)
@given(arrays(np.float64, (2, 7), elements=st.floats(-10, 10, allow_subnormal=False)), st.floats(-5, 5))
def test_laws(a, shift):
    scores = Scores({"a": a, "b": a + shift, "low": a - 1.0, "high": a + 1.0})
    assert scores.difference("a", "a") == Estimate(0.0, 0.0, 0.0)
    assert scores.improvement("a", "a") == Estimate(0.5, 0.5, 0.5)
    for estimate in (scores.mean("a"), scores.iqm("a"), scores.difference("b", "a")):
        assert estimate.low <= estimate.high
        assert math.isfinite(estimate.value)
    assert a.min() - 1e-9 <= scores.iqm("a").low
    assert scores.iqm("a").high <= a.max() + 1e-9
    assert scores.mean("b").value == pytest.approx(scores.mean("a").value + shift)
    assert scores.gap_closed("low", "low", "high").value == 0.0
    assert scores.gap_closed("high", "low", "high").value == 1.0
    assert scores.gap_closed("a", "low", "high").value == pytest.approx(0.5)


def test_who_is_always_better_is_so_for_certain():
    scores = Scores({"a": drawn(2, 20), "b": drawn(2, 20) + 100.0})
    assert scores.improvement("b", "a") == Estimate(1.0, 1.0, 1.0)
    assert scores.improvement("a", "b") == Estimate(0.0, 0.0, 0.0)


def test_the_same_scores_give_the_same_intervals_whoever_else_takes_part():
    a, b = drawn(3, 30), drawn(1, 30, seed=1)
    assert Scores({"a": a}).mean("a") == Scores({"b": b, "a": a}).mean("a")


def test_one_draw_has_no_interval():
    estimate = Scores({"a": [1.5]}).mean("a")
    assert (estimate.value, math.isnan(estimate.low), estimate.text(2)) == (1.5, True, "1.50")


def test_draws_can_be_chosen_and_must_be_the_same():
    scores = Scores({"a": [[1.0, 2.0, 6.0]], "b": [[0.0, 0.0, 3.0]]}).of_draws([0, 2])
    assert scores.draws == 2
    assert scores.difference("a", "b").value == 2.0
    with pytest.raises(ValueError, match="scores of different draws"):
        Scores({"a": [1.0, 2.0], "b": [1.0]})


def test_how_an_estimate_is_shown():
    assert Estimate(-0.001, -0.2, 0.31).text(2, "+") == "+0.00 [-0.20, +0.31]"
    assert Estimate(math.nan, math.nan, math.nan).text(2) == "-"
