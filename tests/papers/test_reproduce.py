# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym reproduce`` from end to end, on a small experiment."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from small_experiment import FIELDS
from waiting import PATIENCE_S, wait_until

from bbrgym.cli.main import main
from bbrgym.evaluate.statistics import Estimate
from bbrgym.papers.catalogue import experiment_names, load_experiment
from bbrgym.papers.experiment import Number, Quantity
from bbrgym.papers.reproduction import NumberResult, estimate
from bbrgym.report.papers_report import papers_page

Here = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        return main(["reproduce", *arguments]), *capsys.readouterr()

    return run


def test_a_run_prints_and_writes_the_comparison(here: Here, experiment_file: Path, tmp_path: Path) -> None:
    code, output, errors = here(f"experiment={experiment_file}", "output_dir=out", "docs=docs")
    assert code == 0, errors
    assert "mine/fig1 (figure 1) in world twin: published numbers" in output
    assert "Published numbers and claims in world twin" in output
    numbers = pl.read_parquet(tmp_path / "out" / "numbers.parquet")
    assert numbers["published"].to_list() == [9.0, 9.0, None]
    assert numbers["claim"].to_list() == [None, None, "a small queue is short"]
    assert numbers["seeds"].to_list() == [2, 2, None]
    assert numbers["verdict"][2] == "shape"
    measured = pl.read_parquet(tmp_path / "out" / "measurements.parquet")
    assert len(measured) == 2 * 2 * 2 * 2  # variants, points, seeds, quantities
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.png")}
    assert files == {"figures/mine-fig1.png", "figures/mine-fig1-time.png"}
    assert "figure 1: two flows" in (tmp_path / "out" / "report.html").read_text()
    page = (tmp_path / "docs" / "papers.md").read_text()
    assert "| mine | 1 |" in page
    assert page == papers_page(tmp_path / "docs" / "papers.csv", [load_experiment(str(experiment_file))])


def test_the_same_request_gives_the_same_numbers(here: Here, experiment_file: Path, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        assert here(f"experiment={experiment_file}", f"output_dir={folder}", "jobs=2")[0] == 0
    for name in ("numbers.parquet", "measurements.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_an_interrupted_run_goes_on(experiment_file: Path, tmp_path: Path, here: Here) -> None:
    fields = {**FIELDS, "seeds": 40, "scenario": {**FIELDS["scenario"], "duration_s": 20.0}}
    experiment_file.write_text(yaml.safe_dump(fields))
    arguments = [f"experiment={experiment_file}", "output_dir=out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bbrgym", "reproduce", *arguments, "jobs=1"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    kept = tmp_path / "out" / "jobs"
    wait_until(lambda: any(kept.glob("*.summary.parquet")) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, errors
    assert "bbrgym reproduce resume=out goes on" in errors
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.summary.parquet")}
    assert 0 < len(before) < 160
    code, _, errors = here("resume=out")
    assert code == 0, errors
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(kept.glob("*.summary.parquet"))) == 160
    assert here(*arguments)[0] == 2  # without resume a used folder is refused
    code, _, errors = here("resume=out", "seeds=3")
    assert code == 2
    assert errors.startswith("bbrgym: seeds: is 3, was None in the reproduction that 'out' holds")


def test_a_launcher_s_jobs_give_the_same_numbers(here: Here, experiment_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    assert here(f"experiment={experiment_file}", "output_dir=here", "seeds=1")[0] == 0
    code, _, errors = here(f"experiment={experiment_file}", "output_dir=there", "seeds=1", "launcher=joblib")
    assert code == 0, errors
    assert "1/1 experiments" in errors
    assert (tmp_path / "here" / "numbers.parquet").read_bytes() == (tmp_path / "there" / "numbers.parquet").read_bytes()


def test_a_failed_job_of_a_launcher_is_named(here: Here, experiment_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    (tmp_path / "there" / "experiments").mkdir(parents=True)
    (tmp_path / "there" / "experiments" / "mine-fig1").write_text("in the way")
    code, _, errors = here(f"experiment={experiment_file}", "output_dir=there", "resume=true", "launcher=joblib")
    assert code == 1
    assert "1 of 1 experiments are not done" in errors
    assert "mine-fig1 failed: bbrgym: output_dir: cannot use" in errors


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["experiment=bbq/fig31"], "experiment: is 'bbq/fig31'; did you mean bbq/fig"),
        (["paper=bqb"], "paper: is 'bqb'; did you mean bbq?"),
        (["seeds=0"], "seeds: is 0, expected a number >= 1"),
        (["world=twn"], "world: is 'twn'; did you mean twin?"),
        (["resume=3"], "resume: is 3, expected true, false or a run folder"),
        (["experiment=nowhere.yaml"], "nowhere.yaml"),
        (["experiment=rebbr/fig8", "reference=nowhere"], "reference: "),
        (["experimnt=bbq/fig13"], "experimnt: is no option; did you mean experiment"),
    ],
)
def test_bad_input_is_one_clear_error(here: Here, tmp_path: Path, arguments: list[str], problem: str) -> None:
    code, output, errors = here(*arguments)
    assert (code, output) == (2, "")
    assert problem in errors
    assert len(errors.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_intervals_are_students_for_few_seeds_and_by_bootstrap_for_many() -> None:
    assert estimate([1.0]) == Estimate(1.0, np.nan, np.nan) or np.isnan(estimate([1.0]).low)
    few, many = estimate([1.0, 2.0, 3.0]), estimate(np.arange(1.0, 21.0))
    assert (few.low, few.high) == pytest.approx((2 - 2.484, 2 + 2.484), abs=0.001)
    assert 7.5 < many.low < many.value == 10.5 < many.high < 13.5


def test_the_percentile_is_where_the_published_value_lies() -> None:
    quantity = Quantity(variant="bbr", metric="jain")
    number = Number(quantity=quantity, value=0.95, unit="ratio", source="text")
    values = np.array([0.5, 0.6, 0.95, 0.99, np.nan])
    result = NumberResult(number, "twin", estimate(values), values, "no")
    assert result.percentile == 62.5
    assert result.ratio == pytest.approx(0.76 / 0.95)


def test_the_names_in_the_docs_are_those_of_the_files() -> None:
    assert len(set(experiment_names())) == len(experiment_names())
