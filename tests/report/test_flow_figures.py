# SPDX-License-Identifier: GPL-2.0-only
"""Figures of flows: they draw what the records hold."""

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from short_scenarios import MIX, SHORT

from bbrgym.envs.observation import FEATURES
from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.records import with_entrants
from bbrgym.evaluate.results import Results
from bbrgym.evaluate.statistics import Scores
from bbrgym.report.figure_spec import Axis, Bands, FigureSpec, Line, Panel, Points, Ticks, colour
from bbrgym.report.flow_figures import MAX_FLOWS, MAX_SPANS, flow_figures, loss_ticks, phase_bands
from bbrgym.report.matplotlib_renderer import draw
from bbrgym.report.plotly_renderer import render_figure
from bbrgym.report.ranking_figures import ranking_figure
from bbrgym.report.spread_figures import MIN_ELLIPSE, distribution, draw_spreads, ellipse, scenario_spreads
from bbrgym.worlds.phases import PHASES, phase_of

INTERVAL_S = 0.1
CODES = [code for phase in PHASES for code in range(phase.first, phase.last + 1)]
SCENARIO: dict[str, Any] = {
    "name": "short",
    "duration_s": 6.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 0.5}},
    "flows": [{"name": "near", "rtt_ms": 20.0}, {"name": "far", "rtt_ms": 60.0, "start_s": 0.5}],
}


@pytest.fixture(scope="module")
def results() -> Results:
    settings = {"variants": ["bbr", "cubic"], "world": "twin", "seeds": [1, 2]}
    return run_evaluation(SCENARIO, settings, agent="random")


def rows_of(codes: list[int], intervals: list[int]) -> pl.DataFrame:
    """Return rows of the time series with these phases, at the ends of the intervals so numbered."""
    return pl.DataFrame({"phase": codes, "time_s": [INTERVAL_S * (number + 1) for number in intervals]})


def name_of(code: int, *, is_group: bool) -> str:
    phase = phase_of(code, "bbr")
    return phase.group if is_group else phase.name


@pytest.mark.parametrize("seed", range(20))
def test_bands_cover_exactly_the_intervals_of_a_phase(seed: int) -> None:
    random = np.random.default_rng(seed)
    length = int(random.integers(1, 3 * MAX_SPANS))
    codes = random.choice(CODES, length).repeat(random.integers(1, 5, length)).tolist()
    intervals = np.flatnonzero(random.random(2 * len(codes)) < 0.8)[: len(codes)].tolist()
    codes = codes[: len(intervals)]
    bands = list(phase_bands(rows_of(codes, intervals), INTERVAL_S, "bbr"))
    is_group = not any(band.label == "PROBE_BW up" for band in bands) and any(
        band.label == "PROBE_BW" for band in bands
    )
    spans = [(*span, band.label) for band in bands for span in band.spans]
    for code, number in zip(codes, intervals, strict=True):
        middle_s = INTERVAL_S * (number + 0.5)
        covering = [label for begin_s, end_s, label in spans if begin_s < middle_s < end_s]
        assert covering == [name_of(code, is_group=is_group)]
    assert sum(end_s - begin_s for begin_s, end_s, _ in spans) == pytest.approx(INTERVAL_S * len(codes))


def test_a_phase_s_parts_are_shown_only_where_they_can_be_told_apart() -> None:
    few = rows_of([8, 9, 10, 11, 15, 2], list(range(6)))
    parts = ["PROBE_RTT", "PROBE_BW up", "PROBE_BW down", "PROBE_BW cruise"]
    assert [band.label for band in phase_bands(few, INTERVAL_S, "bbr")] == parts
    many = rows_of([8, 9] * MAX_SPANS + [2], list(range(2 * MAX_SPANS + 1)))
    assert [band.label for band in phase_bands(many, INTERVAL_S, "bbr")] == ["PROBE_RTT", "PROBE_BW"]


def test_phases_have_the_codes_of_the_field_and_of_the_observation() -> None:
    meaning = re.search(r'FLOW_STAT\(phase, .*?"([^"]*)"\)', Path("world/fields.def").read_text(encoding="utf-8"))
    assert meaning is not None
    known = {name: int(code) for code, name in re.findall(r"(\d+) ([a-zA-Z_ ]+)", meaning[1])}
    for phase in PHASES:
        if phase.group in known:
            assert phase.first == known[phase.group]
        else:
            assert phase.group == "PROBE_BW"
            assert phase.first >= known.get("PROBE_BW phase i", 8)
    assert (phase_of(11, "bbr").name, phase_of(11, "bbr3").name) == ("PROBE_BW cruise", "PROBE_BW refill")
    assert (phase_of(99, "bbr").name, phase_of(math.nan, "bbr").name) == ("other", "other")
    of_observation = {one.name: (one.low, one.high) for one in FEATURES if getattr(one, "field", None) == "phase"}
    by_name = {phase.name.replace("PROBE_BW ", "probe_").lower(): (phase.first, phase.last) for phase in PHASES}
    by_name["cruise"] = by_name.pop("probe_cruise")
    assert of_observation
    for name, codes in of_observation.items():
        assert codes == by_name[name]


def test_losses_are_ticked_where_packets_were_lost(results: Results) -> None:
    rows = results.timeseries.filter(
        (pl.col("flow") == "near") & (pl.col("variant") == "cubic") & (pl.col("seed") == 1)
    )
    assert loss_ticks(rows).at == rows.filter(pl.col("lost_pkts") > 0)["time_s"].to_list()
    assert loss_ticks(rows).at


def line_of(panel: Panel, label: str) -> Line:
    (line,) = (one for one in panel.series if isinstance(one, Line) and one.label == label)
    return line


def test_lines_are_means_and_ranges_over_the_seeds(results: Results) -> None:
    (figure,) = (one for one in flow_figures(results) if one.name == "flow-bbr-far")
    rows = with_entrants(results.timeseries).filter(
        (pl.col("entrant") == "bbr") & (pl.col("flow") == "far") & (pl.col("active") > 0)
    )
    table = rows.pivot(on="seed", index="time_s", values="cwnd_pkts").sort("time_s").select("1", "2").to_numpy()
    line = line_of(figure.panels[2], "cwnd")
    np.testing.assert_allclose(line.y, table.mean(axis=1))
    assert line.band is not None
    np.testing.assert_array_equal(line.band, [table.min(axis=1), table.max(axis=1)])
    bdp = line_of(figure.panels[2], "capacity, BDP, base RTT")
    np.testing.assert_allclose(bdp.y, 10e6 * 1448 / 1488 * 0.060 / (8 * 1448))
    np.testing.assert_array_equal(line_of(figure.panels[3], "capacity, BDP, base RTT").y, 60.0)
    np.testing.assert_allclose(line_of(figure.panels[1], "capacity, BDP, base RTT").y, 10 * 1448 / 1488)
    assert "means of 0.1 s" in figure.panels[0].y.title
    assert "means" not in figure.panels[2].y.title


def test_tunables_are_steps_of_the_records(results: Results) -> None:
    (figure,) = (one for one in flow_figures(results) if one.name == "flow-random-bbr-mix-near")
    rows = with_entrants(results.timeseries).filter(
        (pl.col("entrant") == "random bbr-mix") & (pl.col("flow") == "near") & (pl.col("seed") == 1)
    )
    assert len(figure.panels) == 5 + 4
    for panel in figure.panels[5:]:
        line = line_of(panel, "tunable")
        assert line.is_stepped
        np.testing.assert_array_equal(line.y, rows["tunable_" + panel.title.split(" ")[0]].to_numpy())


def test_each_entrant_has_some_flows(results: Results) -> None:
    names = [figure.name for figure in flow_figures(results)]
    assert names == [f"flow-{who}-{flow}" for who in ("bbr", "cubic", "random-bbr-mix") for flow in ("near", "far")]
    many = {**SCENARIO, "duration_s": 1.0, "flows": [{"name": "crowd", "count": 9, "rtt_ms": 20.0}]}
    crowd = run_evaluation(many, {"variants": ["bbr"], "world": "twin"})
    assert [figure.name for figure in flow_figures(crowd)] == [f"flow-bbr-crowd-{n}" for n in range(MAX_FLOWS)]


def test_a_flow_that_never_ran_has_no_figure(results: Results) -> None:
    runs = pl.when(pl.col("flow") == "far").then(0.0).otherwise(pl.col("active")).alias("active")
    figures = flow_figures(dataclasses.replace(results, timeseries=results.timeseries.with_columns(runs)))
    assert [figure.name for figure in figures] == [f"flow-{who}-near" for who in ("bbr", "cubic", "random-bbr-mix")]


def test_a_run_of_one_interval_has_a_length_too() -> None:
    whole = run_evaluation({**SCENARIO, "duration_s": 2.0}, {"variants": ["bbr"], "world": "twin", "interval_s": 2.0})
    figure = next(iter(flow_figures(whole)))
    shown = [panel.y.title for panel in figure.panels] + [figure.note or ""]
    assert any("means of 2 s" in text for text in shown)
    assert not any("nan" in text for text in shown)
    spans = [one for panel in figure.panels for band in panel.series if isinstance(band, Bands) for one in band.spans]
    assert spans
    assert {begin for begin, _ in spans} == {0.0}


def test_both_renderers_shade_and_tick_the_same_places() -> None:
    bands = Bands([(0.0, 1.5), (2.0, 4.25)], "phase", "#E69F00")
    ticks = Ticks([0.5, 3.0], "packets lost", "#000000")
    figure = FigureSpec("name", "Title", [Panel(Axis(limits=(0, 5)), Axis(), [bands, ticks])])
    phase, lost = render_figure(figure).layout["shapes"]
    assert [(float(b), float(e)) for b, e in re.findall(r"M([\d.]+),0V1H([\d.]+)V0Z", phase["path"])] == bands.spans
    assert [float(at) for at in re.findall(r"M([\d.]+),", lost["path"])] == ticks.at
    polygons, lines = draw(figure).axes[0].collections
    assert [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in polygons.get_paths()] == bands.spans
    assert [segment[0][0] for segment in lines.get_segments()] == ticks.at
    assert [text.get_text() for text in draw(figure).legends[0].get_texts()] == ["phase", "packets lost"]


# ---- figures of spread --------------------------------------------------------------------------------


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
