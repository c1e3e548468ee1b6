# SPDX-License-Identifier: GPL-2.0-only
"""Advice on measured paths: what is drawn, what is said, and the figure that lays a run over the log."""

import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bbrgym import load_distribution
from bbrgym.cli.main import main
from bbrgym.evaluate.entrants import preset
from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import SUMMARY_SCHEMA
from bbrgym.paths.advice import VARIANTS_ADVISED, advice, possible_paths
from bbrgym.paths.detect import read_log
from bbrgym.paths.fit import FittedValue, PathFit, fit_path
from bbrgym.paths.fit_figure import fit_figure
from bbrgym.paths.fitted_scenario import scenario_fields
from bbrgym.paths.series import series_of
from bbrgym.report.figure_spec import Line
from bbrgym.trace import write_trace

LOGGED = {
    "name": "logged",
    "duration_s": 5.0,
    "link": {"rate_mbps": 4.0, "delay_ms": 1.0, "queue": {"size_bytes": 20_000}},
    "flows": [{"name": "flow", "rtt_ms": 30.0, "cc": "cubic"}],
}
SEEN = PathFit(
    format="qlog",
    connections=1,
    cc="cubic",
    mss_bytes=1448,
    duration_s=5.0,
    goodput_mbps=3.8,
    base_rtt_s=FittedValue(0.03, 0.029, 0.031),
    rate_mbps=FittedValue(4.0, 3.9, 4.1),
    arrived_mbps=3.9,
    varies=False,
    competitor=False,
    trace=None,
    buffer_bytes=FittedValue(20_000.0, 19_000.0, 21_000.0),
    random_loss=FittedValue(0.01, 0.005, 0.02),
)
UNSEEN = replace(
    SEEN,
    base_rtt_s=FittedValue(),
    rate_mbps=FittedValue(low=4.0),
    varies=None,
    competitor=None,
    buffer_bytes=FittedValue(low=30_000.0),
    random_loss=FittedValue(high=0.1),
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(LOGGED, tmp_path_factory.mktemp("log"), formats=["qlog"]).files["qlog"]


@pytest.mark.parametrize(
    ("fit", "rates", "rtts", "sizes", "losses"),
    [
        (SEEN, (3.9, 4.1), (29, 31), (19_000, 21_000), (0.005, 0.02)),
        (UNSEEN, (4.0, 8.0), (20, 80), (30_000, 80_000), (0, 0)),
    ],
)
def test_values_are_drawn_from_intervals_and_unknown_ones_from_ranges(
    fit: PathFit,
    rates: tuple[float, float],
    rtts: tuple[float, float],
    sizes: tuple[float, float],
    losses: tuple[float, float],
) -> None:
    fields = scenario_fields(fit, "path", None)
    distribution = load_distribution(possible_paths([fit], [fields], "paths"))
    drawn = [distribution(seed) for seed in range(30)]
    for (low, high), values in (
        (rates, [one.link.rate_mbps for one in drawn]),
        (rtts, [one.flows[0].rtt_ms for one in drawn]),
        (sizes, [one.link.queue.size_bytes for one in drawn]),
        (losses, [getattr(one.link.loss, "rate", 0) for one in drawn]),
    ):
        assert low <= min(values) <= max(values) <= high
        assert low == high or len(set(values)) > 10


def ranked(goodput_mbps: float = 9.0, **scores: list[float]) -> tuple[Ranking, pl.DataFrame]:
    """Return a ranking of variants by their scores on draws, and the summary that it is of."""
    draws = {seed: load_distribution("wan_mix")(seed) for seed in range(len(next(iter(scores.values()))))}
    rows = [
        {"scenario": "a", "world": "twin", "variant": name, "agent": "fixed", "seed": seed, "flow": "flow"}
        | {"role": "tuned", "cc": name, "score": score, "goodput_mbps": goodput_mbps}
        for name, own in scores.items()
        for seed, score in enumerate(own)
    ]
    summary = pl.DataFrame(rows, SUMMARY_SCHEMA).with_columns(pl.col(pl.Float64).fill_null(1.0))
    return Ranking(summary, "twin", [preset(name) for name in scores], draws), summary


def advised(fits: list[PathFit], **scores: list[float]) -> str:
    ranking, summary = ranked(**scores)
    return advice(ranking, fits, summary)


def test_the_sentence_names_the_best_its_equals_and_what_the_log_does_not_tell() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 20)
    scores = {"bbr": noise.tolist(), "bbq": (0.001 + noise[::-1]).tolist(), "cubic": (noise - 1).tolist()}
    said = advised([SEEN], **scores)
    assert said.startswith("Use bbq, whose mean score is ")
    assert "it cannot be told from bbr in 20 draws" in said
    assert said.endswith("; the log does not tell which flows will share the link later.")
    said = advised([SEEN, UNSEEN], bbr=scores["bbr"], cubic=scores["cubic"])
    assert "each other one is worse" in said
    for unknown in (
        "the logs do not tell",
        "the base RTT",
        "the capacity",
        "the buffer",
        "random loss",
        "other traffic",
    ):
        assert unknown in said


def test_there_is_no_advice_against_a_control_that_does_better_in_the_log_than_simulations_say() -> None:
    ranking, summary = ranked(0.18, bbr=[0.1, 0.2], cubic=[-1.0, -1.1])
    said = advice(ranking, [replace(SEEN, goodput_mbps=84.0)], summary)
    assert said.startswith("No advice: the log shows cubic at 84 Mbit/s, simulations of its path at 0.18")
    assert "does not explain this log" in said


@pytest.mark.parametrize("named", [{"cc": "cubic"}, {"cc": "", "explained_by": "cubic"}])
def test_the_figure_lays_a_run_over_the_log(named: dict[str, str], log: Path) -> None:
    read = read_log(log)
    fit = replace(fit_path(read), **named)
    figure = fit_figure(fit, series_of(read), scenario_fields(fit, "path", None), "mine")
    for panel, tolerance in zip(figure.panels, (0.05, 0.15), strict=True):
        logged, run = panel.series
        assert isinstance(logged, Line)
        assert isinstance(run, Line)
        assert run.label == "fitted scenario, cubic"
        means = [np.nanmean(np.asarray(line.y)[len(np.asarray(line.y)) // 2 :]) for line in (logged, run)]
        assert means[1] == pytest.approx(means[0], rel=tolerance)
        assert math.isclose(np.asarray(run.x)[-1], 5.0, abs_tol=0.2)


@pytest.mark.skipif(find_spec("torch") is None, reason="the learned rule needs PyTorch")
def test_the_command_compares_and_advises(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", str(log), "draws=2", f"output_dir={tmp_path / 'run'}"]) == 0
    said = capsys.readouterr().out
    assert "Use " in said
    assert "the log does not tell" in said
    rows = pl.read_parquet(tmp_path / "run" / "summary.parquet")
    assert tuple(rows["variant"].unique(maintain_order=True)) == (*VARIANTS_ADVISED, "bbr-mix")
    assert set(rows["agent"]) == {"fixed", "shipped-fixed", "shipped-flow"}
    assert "not compared" not in said
    assert "The log and a run of the scenario fitted to it" in (tmp_path / "run" / "report.html").read_text()
    assert (tmp_path / "run" / "path-0.yaml").exists()


def test_without_torch_the_table_says_what_is_not_compared(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bbrgym.cli.advise.find_spec", lambda name: None)
    assert main(["advise", str(log), "draws=1", f"output_dir={tmp_path / 'run'}"]) == 0
    assert "shipped/flow is not compared: it needs torch" in capsys.readouterr().out
    assert set(pl.read_parquet(tmp_path / "run" / "summary.parquet")["agent"]) == {"fixed", "shipped-fixed"}


def test_a_log_that_cannot_be_read_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text("{}")
    assert main(["advise", str(tmp_path / "a.json"), f"output_dir={tmp_path / 'run'}"]) == 2
    assert "a.json" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
