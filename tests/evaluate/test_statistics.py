# SPDX-License-Identifier: GPL-2.0-only
"""Estimates: against rliable and SciPy, in closed form, and their intervals' coverage."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bbrgym.evaluate.statistics import (
    MIN_DRAWS,
    Estimate,
    Scores,
    bootstrap_mean,
    cluster_mean,
    student_mean,
    student_quantile,
)


def drawn(runs, draws, seed=0, shift=0.0):
    return np.random.default_rng(seed).normal(shift, 1.0, (runs, draws))


def test_values_are_rliable_s_and_scipy_s():
    for draws in range(1, 30):
        a = drawn(3, draws)
        assert Scores({"a": a}).iqm("a").value == scipy.stats.trim_mean(a, 0.25, axis=None)
    metrics = pytest.importorskip("rliable.metrics")
    a, b = drawn(3, 40), drawn(2, 40, seed=1, shift=0.3)
    b[:, :5] = a[:2, :5]  # ties
    scores = Scores({"a": a, "b": b})
    assert scores.mean("a").value == pytest.approx(metrics.aggregate_mean(a))
    assert scores.iqm("a").value == pytest.approx(metrics.aggregate_iqm(a))
    assert scores.improvement("a", "b").value == pytest.approx(metrics.probability_of_improvement(a, b))
    assert scores.improvement("b", "a").value == pytest.approx(1.0 - scores.improvement("a", "b").value)


@pytest.mark.parametrize(
    ("method", "names"), [("mean", ["a"]), ("difference", ["a", "low"]), ("gap_closed", ["a", "low", "high"])]
)
def test_intervals_are_those_of_a_studentised_bootstrap(method, names):
    of = {"low": drawn(1, 60, seed=1), "a": np.exp(drawn(1, 60)), "high": drawn(1, 60, seed=2, shift=3.0)}
    top = (of["a"] - (of["low"] if len(names) > 1 else 0.0))[0]
    bottom = (of["high"] - of["low"])[0] if len(names) > 2 else np.ones(60)

    def values_and_errors(draws):
        values = top[draws].mean(1) / bottom[draws].mean(1)
        return values, scipy.stats.sem(top[draws] - values[:, None] * bottom[draws], axis=1) / bottom[draws].mean(1)

    (value,), (error,) = values_and_errors(np.arange(60)[None])
    values, errors = values_and_errors(np.random.default_rng(2).integers(60, size=(20_000, 60)))
    beyond = scipy.stats.norm.sf(scipy.stats.t.ppf(0.975, 59) * math.sqrt(60 / 59))
    low, high = np.quantile((values - value) / errors, (beyond, 1 - beyond))
    mine = getattr(Scores(of), method)(*names)
    assert mine.value == pytest.approx(value)
    assert mine.low == pytest.approx(value - error * max(high, scipy.stats.t.ppf(0.975, 59)), abs=0.1 * error)
    assert mine.high == pytest.approx(value + error * max(-low, scipy.stats.t.ppf(0.975, 59)), abs=0.1 * error)


@pytest.mark.parametrize(("sigma", "size"), [(0.0, 12), (1.0, 12), (1.0, 30)])  # of log-normal values; 0: normal ones
def test_intervals_hold_the_truth_in_93_of_100_cases_or_more(sigma, size):
    noise = drawn(1000, size)
    values = np.exp(sigma * noise) - math.exp(sigma**2 / 2) if sigma else noise
    between = scipy.stats.norm.cdf(1.6745) - scipy.stats.norm.cdf(0.3255)
    of_middle = math.exp(0.5) * between / 0.5 - math.exp(0.5) if sigma else 0.0
    trained = values[:, None, :] + np.random.default_rng(1).normal(0.0, 1.0, (1000, 3, 1))
    names = [str(at) for at in range(1000)]
    one, three = Scores(dict(zip(names, values, strict=True))), Scores(dict(zip(names, trained, strict=True)))
    rival = Scores({"rival": np.full(size, scipy.stats.norm.ppf(0.1))} | dict(zip(names, noise, strict=True)))
    means = [one.mean(name) for name in names]
    intervals = {
        "mean": (0.0, means),
        "trainings": (0.0, map(three.mean, names)),
        "interquartile mean": (of_middle, map(one.iqm, names[:250])),
        "improvement": (0.9, (rival.improvement(name, "rival") for name in names)),
        "peers": (0.0, (cluster_mean(row, 1.0 + np.arange(size) % 3 / 4) for row in values[:250])),
    }
    for what, (truth, found) in intervals.items():
        held = [interval.low <= truth <= interval.high for interval in found]
        assert sum(held) >= scipy.stats.binom.ppf(0.001, len(held), 0.93), what
    widths = np.array([mean.high - mean.low for mean in means]) / (2 * scipy.stats.sem(values, axis=1))
    assert np.median(widths) < {0.0: 1.5, 1.0: 2.0}[sigma] * scipy.stats.t.ppf(0.975, size - 1)


def test_training_runs_that_differ_widen_the_interval():
    draws = drawn(1, 50)
    alike, apart = np.repeat(draws, 3, axis=0), draws + np.array([[-1.0], [0.0], [1.0]])
    scores = Scores({"alike": alike, "apart": apart})
    widths = {name: scores.mean(name).high - scores.mean(name).low for name in scores.names}
    assert scores.mean("alike").value == pytest.approx(scores.mean("apart").value)
    assert widths["apart"] > 2 * widths["alike"]
    single = Scores({"alike": draws}).mean("alike")
    assert (single.low, single.high) == pytest.approx((scores.mean("alike").low, scores.mean("alike").high))


@settings(max_examples=30)
@given(arrays(np.float64, (2, MIN_DRAWS), elements=st.floats(-10, 10, allow_subnormal=False)), st.floats(-5, 5))
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
    one_run = Scores({name: scores[name][:1] for name in scores.names})
    assert one_run.gap_closed("low", "low", "high").value == 0.0
    assert one_run.gap_closed("high", "low", "high").value == 1.0
    assert one_run.gap_closed("a", "low", "high").value == pytest.approx(0.5)


def test_the_same_scores_give_the_same_intervals_whoever_else_takes_part():
    a, b = drawn(3, 30), drawn(1, 30, seed=1)
    assert Scores({"a": a}).mean("a") == Scores({"b": b, "a": a}).mean("a")


@pytest.mark.parametrize("draws", [1, 2, MIN_DRAWS - 1])
def test_few_draws_have_no_interval(draws):
    a, b = drawn(1, draws), drawn(1, draws, seed=1)
    scores = Scores({"a": a, "b": b})
    for estimate in (scores.mean("a"), scores.iqm("a"), scores.difference("a", "b"), scores.improvement("a", "b")):
        assert math.isnan(estimate.low)
        assert math.isnan(estimate.high)
    assert scores.mean("a").text(2) == Estimate(a.mean()).text(2)
    assert math.isfinite(Scores({"a": drawn(1, MIN_DRAWS)}).mean("a").low)


def test_a_ratio_whose_denominator_may_be_0_is_undefined():
    low = drawn(1, 40)
    nearly_low = low + drawn(1, 40, seed=1) * 1e-4
    scores = Scores({"low": low, "high": nearly_low, "a": drawn(1, 40, seed=2)})
    assert not scores.difference("high", "low").excludes_zero
    assert math.isnan(scores.gap_closed("a", "low", "high").value)
    assert math.isnan(scores.gap_closed("high", "low", "high").value)
    apart = Scores({"low": low, "high": low + 1.0 + drawn(1, 40, seed=1) * 0.1, "a": low + 0.5})
    estimate = apart.gap_closed("a", "low", "high")
    assert estimate.low < estimate.value < estimate.high
    assert estimate.value == pytest.approx(0.5, abs=0.05)
    few = Scores({"low": [0.0, 0.1], "high": [1.0, 1.1], "a": [0.5, 0.5]})
    assert math.isnan(few.gap_closed("a", "low", "high").value)


def test_the_quantile_is_student_s():
    for freedom in (*range(1, 60), 199, 1000, 4999):
        for probability in (0.5, 0.6, 0.9, 0.975, 0.995):
            mine = student_quantile(probability, freedom)
            assert mine == pytest.approx(scipy.stats.t.ppf(probability, freedom), rel=1e-11, abs=1e-12)


def test_student_s_interval_which_one_seed_does_not_have():
    # t(0.975, 4) = 2.7764, sample deviation of 1..5 = 1.5811
    mean = student_mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean.value == 3.0
    assert mean.high - mean.value == pytest.approx(2.7764 * 1.5811 / math.sqrt(5), rel=1e-4)
    assert mean.value - mean.low == pytest.approx(mean.high - mean.value)
    assert mean.short(2) == "3.00 ± 1.96"
    assert student_mean([1.0, math.nan, 3.0]) == student_mean([1.0, 3.0])
    assert student_mean([2.5, math.nan]).short(1) == "2.5"
    assert student_mean([]).short(1) == "-"


def test_a_mean_over_draws_is_the_ranking_s():
    values = drawn(1, 25)
    assert bootstrap_mean(values[0]) == Scores({"somebody": values}).mean("somebody")
    assert bootstrap_mean([*values[0], math.nan]) == bootstrap_mean(values[0])
    assert math.isnan(bootstrap_mean([]).value)


@pytest.mark.parametrize("size", [1, 2, MIN_DRAWS, 400])
def test_equal_weights_have_the_interval_of_draws(size):
    (sample,) = drawn(1, size)
    mine, theirs = cluster_mean(sample, np.full(size, 7.0)), bootstrap_mean(sample)
    assert (mine.value, mine.low, mine.high) == pytest.approx((theirs.value, theirs.low, theirs.high), nan_ok=True)
    assert math.isfinite(mine.low) == (size >= MIN_DRAWS)


@pytest.mark.parametrize("runs", [1, 3])
def test_equal_values_have_no_width_and_a_nan_makes_the_estimate_nan(runs):
    equal = np.full((runs, MIN_DRAWS), 0.1)
    few, unknown = equal.copy(), equal.copy()
    few[:, 0], unknown[:, 0] = 1.1, math.nan
    scores = Scores({"equal": equal, "few": few, "unknown": unknown})
    for estimate in (scores.mean("equal"), scores.iqm("equal"), cluster_mean(equal[0], np.ones(MIN_DRAWS))):
        assert (estimate.low, estimate.high) == pytest.approx((0.1, 0.1), abs=1e-12)
    one_apart = scores.difference("few", "equal")  # whose resamples are equal in 35 of 100 cases
    assert -0.5 < one_apart.low < one_apart.value < one_apart.high < 1.0
    for estimate in (scores.mean("unknown"), scores.iqm("unknown"), scores.difference("unknown", "equal")):
        assert np.isnan([estimate.value, estimate.low, estimate.high]).all()


def test_clusters_count_by_their_weight():
    values, weights = np.arange(20.0), np.ones(20)
    weights[3] = 1000.0
    found = cluster_mean(values, weights)
    assert found.value == pytest.approx(np.average(values, weights=weights))
    assert math.isnan(found.low), "one cluster has nearly all of the weight"
    assert math.isnan(cluster_mean([], []).value)


def test_draws_can_be_chosen_and_must_be_the_same():
    scores = Scores({"a": [[1.0, 2.0, 6.0]], "b": [[0.0, 0.0, 3.0]]}).of_draws([0, 2])
    assert scores.draws == 2
    assert scores.difference("a", "b").value == 2.0
    with pytest.raises(ValueError, match="scores of different draws"):
        Scores({"a": [1.0, 2.0], "b": [1.0]})


def test_how_an_estimate_is_shown():
    assert Estimate(-0.001, -0.2, 0.31).text(2, "+") == "+0.00 [-0.20, +0.31]"
    assert Estimate(math.nan, math.nan, math.nan).text(2) == "-"
