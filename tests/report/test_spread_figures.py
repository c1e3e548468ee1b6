# SPDX-License-Identifier: GPL-2.0-only
"""Figures of spread, and what is left out of a line with too many points."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from short_scenarios import MIX, SHORT

from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.statistics import Scores
from bbrgym.report.figure_spec import Axis, FigureSpec, Line, Panel, Points, colour
from bbrgym.report.plotly_renderer import render_figure
from bbrgym.report.ranking_figures import ranking_figure
from bbrgym.report.spread_figures import MIN_ELLIPSE, distribution, draw_spreads, ellipse, scenario_spreads


def trace_of(line: Line) -> Any:
    (trace,) = render_figure(FigureSpec("name", "Title", [Panel(Axis(), Axis(), [line])])).data
    return trace


@pytest.mark.parametrize("seed", range(10))
def test_a_distribution_function_is_the_part_of_the_weight_up_to_a_value(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(0, 8, 30).astype(float)
    weights = random.integers(0, 3, 30).astype(float)
    values[0] = np.nan
    x, parts = distribution(values, weights)
    is_known = np.isfinite(values) & (weights > 0)
    for at in np.unique(values[is_known]):
        after = parts[np.flatnonzero(x == at)[-1] + (1 if at < x[-1] else 0)]
        assert after == pytest.approx(weights[is_known & (values <= at)].sum() / weights[is_known].sum())
    assert parts[0] == 0
    assert parts[-1] == pytest.approx(1)
    assert len(distribution(np.array([np.nan]), np.ones(1))[0]) == 0


def test_an_ellipse_is_one_standard_deviation_from_the_mean() -> None:
    x, y = np.random.default_rng(1).multivariate_normal([3, -1], [[4, 1.5], [1.5, 1]], 50).T
    outline = ellipse(x, y)
    assert outline is not None
    away = np.stack(outline) - np.array([[x.mean()], [y.mean()]])
    np.testing.assert_allclose(np.einsum("ip,ij,jp->p", away, np.linalg.inv(np.cov(x, y)), away), 1)
    assert ellipse(x[: MIN_ELLIPSE - 1], y[: MIN_ELLIPSE - 1]) is None


def test_figures_of_a_scenario_are_of_its_records() -> None:
    results = run_evaluation(SHORT, {"variants": ["bbr", "bbq"], "world": "twin", "seeds": [1, 2, 3]})
    distributions, delay = scenario_spreads(results)
    assert [panel.x.title.split(" ")[0] for panel in distributions.panels] == ["RTT", "share"]
    rows = results.timeseries.filter((pl.col("variant") == "bbr") & (pl.col("rtt_samples") > 0))
    line = distributions.panels[0].series[0]
    assert isinstance(line, Line)
    assert set(np.asarray(line.x)) <= set(rows["rtt_mean_ms"])
    points = [one for one in delay.panels[0].series if isinstance(one, Line) and one.notes]
    assert [list(one.notes) for one in points] == [
        [f"{name}, seed {seed}" for seed in (1, 2, 3)] for name in ("bbr", "bbq")
    ]
    utilisation = results.summary.unique(["variant", "seed"], maintain_order=True)["utilisation"]
    np.testing.assert_allclose(np.concatenate([one.y for one in points]), 100 * utilisation.to_numpy())
    limits = delay.panels[0].y.limits
    assert limits is not None
    assert limits[0] < 100 * min(utilisation) <= 100 * max(utilisation) < limits[1] <= 101 + 1e-6


def test_every_draw_is_a_point() -> None:
    results = run_evaluation(MIX, {"variants": ["bbr", "bbq"], "world": "twin", "draws": 5, "series_draws": 0})
    (ranking,) = results.rankings
    scores: Scores = ranking.scores
    drawn = [one for one in ranking_figure(ranking, "mix", "").panels[0].series if isinstance(one, Line)]
    np.testing.assert_array_equal(np.stack([one.x for one in drawn]), [scores[name].ravel() for name in scores.names])
    assert sum(isinstance(one, Points) for one in ranking_figure(ranking, "mix", "").panels[0].series) == 2
    _, delay = draw_spreads(results, ranking, "")
    points = [one for one in delay.panels[0].series if isinstance(one, Line) and one.notes]
    assert [len(one.notes) for one in points] == [5, 5]


def test_a_line_with_too_many_points_keeps_its_peaks_and_gaps() -> None:
    y = np.sin(np.arange(20_000) / 50)
    y[[7777, 12_345]] = 9, -9
    y[15_000:15_100] = np.nan
    trace = trace_of(Line(np.arange(20_000), y, None, colour(0)))
    assert len(trace["x"]) < 1000
    assert (np.nanmax(trace["y"]), np.nanmin(trace["y"])) == (9, -9)
    assert np.isnan(trace["y"]).any()
    np.testing.assert_allclose(trace["y"], y[np.asarray(trace["x"])], rtol=1e-3)


def test_a_constant_line_is_two_points() -> None:
    trace = trace_of(Line(np.arange(300), np.full(300, 5.0), None, colour(0)))
    assert (list(trace["x"]), list(trace["y"])) == ([0, 299], [5.0, 5.0])
