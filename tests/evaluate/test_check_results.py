# SPDX-License-Identifier: GPL-2.0-only
"""The outcome of checks in an evaluation: per run, over seeds, in the tables, the page and the files."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import bbrgym
from bbrgym.evaluate import evaluation
from bbrgym.evaluate.check_results import CHECKS_SCHEMA, verdicts_of
from bbrgym.report.report import write_report
from bbrgym.report.tables import checks_table, plain_text

CHECKED: dict[str, Any] = {
    "name": "checked",
    "duration_s": 3.0,
    "warmup_s": 1.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "flow", "count": 2, "rtt_ms": 20.0}],
    "checks": [
        {"metric": "utilisation", "at_least": 0.5},
        {"metric": "goodput_mbps", "flow": "flow", "across": "sum", "at_least": 0.1, "at_most": 1.0},
    ],
}


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_reports_its_checks(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = {"variants": ["bbr", "cubic"], "seeds": [1, 2], "world": "twin"}
    results = evaluation.run_evaluation(CHECKED, settings, output_dir=folder)
    write_report(folder, results)
    checks = pl.read_parquet(folder / "checks.parquet")
    assert checks.equals(results.checks)
    assert checks.schema == CHECKS_SCHEMA
    assert checks.select("variant", "seed", "check", "passed").rows() == [
        (variant, seed, *row)
        for variant in ("bbr", "cubic")
        for seed in (1, 2)
        for row in (("utilisation", True), ("goodput_mbps of flow, sum", False))
    ]
    of_a_run = results.summary.filter(variant="bbr", seed=1)
    assert of_a_run["checks_passed"].to_list() == [0.5, 0.5]
    assert checks["measured"][0] == of_a_run["utilisation"][0]
    assert checks["measured"][1] == pytest.approx(of_a_run["goodput_mbps"].sum())
    for text in ((folder / "summary.txt").read_text(), (folder / "report.html").read_text()):
        assert "checked: 2 of 4 checks passed (by the mean over seeds)" in text
        assert "0 of 2" in text


def test_a_scenario_without_checks_has_neither_file_nor_column(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    summary = bbrgym.evaluate({**CHECKED, "checks": []}, "bbr", world="twin", output_dir=folder)
    assert "checks_passed" not in summary.columns
    assert not (folder / "checks.parquet").exists()


def checks(rows: list[dict[str, Any]]) -> pl.DataFrame:
    blank = {"scenario": "s", "world": "w", "variant": "bbr", "agent": "fixed", "check": "share"}
    return pl.DataFrame([{**blank, **row} for row in rows], schema=CHECKS_SCHEMA)


def test_the_mean_over_seeds_decides() -> None:
    rows = [
        {"seed": 1, "at_least": 0.4, "measured": 0.3, "passed": False},
        {"seed": 2, "at_least": 0.4, "measured": 0.6, "passed": True},
    ]
    (verdict,) = verdicts_of(checks(rows))
    assert verdict.passed
    assert (verdict.passing, verdict.runs, verdict.measured.value) == (1, 2, pytest.approx(0.45))
    assert "1 of 2" in plain_text([checks_table(checks(rows), "s")])


def test_a_run_without_a_measurement_fails_the_check() -> None:
    rows = [
        {"seed": 1, "at_most": 0.4, "measured": 0.3, "passed": True},
        {"seed": 2, "at_most": 0.4, "measured": float("nan"), "passed": False},
    ]
    (verdict,) = verdicts_of(checks(rows))
    assert not verdict.passed
    assert verdict.bounds == "at most 0.4"


def test_two_bounds_on_one_measurement_stay_apart() -> None:
    rows = [
        {"seed": 1, "at_most": 0.4, "measured": 0.3, "passed": True},
        {"seed": 1, "at_least": 0.1, "measured": 0.3, "passed": True},
    ]
    assert [verdict.bounds for verdict in verdicts_of(checks(rows))] == ["at most 0.4", "at least 0.1"]
