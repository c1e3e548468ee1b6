# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym reproduce`` from end to end, on a small experiment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from bbrgym.cli.main import main
from bbrgym.evaluate.records import EvaluationFolder
from bbrgym.evaluate.runner import run_each
from bbrgym.evaluate.statistics import Estimate
from bbrgym.papers.catalogue import load_experiment
from bbrgym.papers.page import papers_page
from bbrgym.papers.reproduction import Measurements, estimate, parse_reproduction, prepare_reproduction
from bbrgym.worlds import WorldError

ROOT = Path(__file__).resolve().parents[2]
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
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"config.yaml", "provenance.json", "jobs", "numbers.parquet", "summary.txt", ".lock"}
    assert "a small queue is short" in (tmp_path / "out" / "summary.txt").read_text()
    page = (tmp_path / "docs" / "papers.md").read_text()
    assert "| mine | 1 |" in page
    assert "docs=docs` (8 runs of 16 simulated s), 2" in page
    assert page == papers_page(tmp_path / "docs", [load_experiment(str(experiment_file))])


def test_a_part_measured_again_leaves_the_other_rows_of_the_docs(
    here: Here, experiment_file: Path, tmp_path: Path
) -> None:
    """What is shipped of other experiments stays, with the command that measured it."""
    folder = tmp_path / "docs"
    folder.mkdir()
    shipped = [line for line in (ROOT / "docs" / "papers.csv").read_text().splitlines() if not line.startswith("#")]
    kept = [line for line in shipped[1:] if line.startswith(("bbq/", "rebbr/exp4,"))]
    head = ["# `bbrgym reproduce docs=docs`, 2026-01-02", "# <!-- measured 0123456789: steady / bbr -->"]
    (folder / "papers.csv").write_text("\n".join([*head, shipped[0], *kept]) + "\n")
    for seeds in (2, 3):
        assert here(f"experiment={experiment_file}", f"seeds={seeds}", f"output_dir={seeds}", "docs=docs")[0] == 0
    lines = (folder / "papers.csv").read_text().splitlines()
    assert [lines[0], lines[3]] == head
    assert [f"seeds={seeds}" in lines[seeds - 1] for seeds in (2, 3)] == [True, True]
    assert [line for line in lines if line.startswith(("bbq/", "rebbr/"))] == kept
    assert sum(line.startswith("mine/fig1,") for line in lines) == 3
    page = (folder / "papers.md").read_text()
    assert "- `bbrgym reproduce docs=docs`, 2026-01-02\n- `bbrgym reproduce" in page
    assert "| `fig1` |" in page
    assert "| `fig13` |" in page


def test_an_interrupted_run_goes_on(
    experiment_file: Path, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [f"experiment={experiment_file}", "output_dir=out"]
    store, kept = EvaluationFolder.store_job, tmp_path / "out" / "jobs"

    def stop_after_two(folder: EvaluationFolder, *of_job: Any) -> None:
        if len(list(kept.glob("*.summary.parquet"))) == 2:
            raise KeyboardInterrupt
        store(folder, *of_job)

    with monkeypatch.context() as patch:
        patch.setattr(EvaluationFolder, "store_job", stop_after_two)
        code, _, errors = here(*arguments, "jobs=1")
    assert code == 130
    assert "bbrgym reproduce resume=out goes on" in errors
    before = {path: path.stat().st_mtime_ns for path in kept.glob("*.summary.parquet")}
    assert len(before) == 2
    code, _, errors = here("resume=out")
    assert code == 0, errors
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(kept.glob("*.summary.parquet"))) == 8
    assert here(*arguments)[0] == 2  # without resume a used folder is refused
    code, _, errors = here("resume=out", "seeds=3")
    assert code == 2
    assert errors.startswith("bbrgym: seeds: is 3, was None in the reproduction that 'out' holds")


def test_a_run_that_breaks_is_reported_and_tried_again(here: Here, experiment_file: Path, tmp_path: Path) -> None:
    request = [f"experiment={experiment_file}", "seeds=1", "world=[twin,ns3]"]
    code, output, errors = here(*request, "world.ns3.timeout_s=0.001", "output_dir=out", "docs=docs")
    assert code == 1
    assert "4 of 8 runs are not done; bbrgym reproduce resume=out tries them again" in errors
    assert "mine/fig1 (figure 1) in world twin: published numbers" in output  # all the rest is done
    numbers = pl.read_parquet(tmp_path / "out" / "numbers.parquet")
    verdicts = numbers.select("world", "verdict").rows()
    assert {verdict for world, verdict in verdicts if world == "twin"} <= {"agrees", "shape", "no"}
    assert [verdict for world, verdict in verdicts if world == "ns3"] == ["not run"] * 3
    reasons = numbers.filter(world="ns3")["reason"].to_list()
    assert all("0.001 s" in reason for reason in reasons)
    assert numbers.filter(world="ns3")["seeds"].to_list() == [0, 0, None]
    page = (tmp_path / "docs" / "papers.md").read_text()
    assert all(f"Not run: {reason}" in page for reason in reasons)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "jobs").glob("*-twin-*")}
    assert kept

    code, _, errors = here("resume=out", "world=[twin,ns3]")
    assert code == 0, errors
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    numbers = pl.read_parquet(tmp_path / "out" / "numbers.parquet")
    assert numbers["reason"].null_count() == len(numbers)
    worlds = [numbers.filter(world=world).drop("world") for world in ("twin", "ns3")]
    assert worlds[0].equals(worlds[1])  # two flows on a fixed link are the same in both, to the bit


def test_the_point_of_a_broken_run_counts_as_not_run(experiment_file: Path) -> None:
    (prepared,) = prepare_reproduction(parse_reproduction({"experiment": str(experiment_file)})).experiments
    outcomes = run_each([case.job for case in prepared.cases], 1)
    broken = next(place for place, case in enumerate(prepared.cases) if (case.at, case.variant) == (80, "bbr"))
    outcomes[broken] = WorldError("one", 1, 2.5, "it hung")
    measured = Measurements(prepared, outcomes)
    at_40, at_80, claim = measured.rows()
    assert list(measured.failures) == [prepared.cases[broken].job.key]
    assert [row["verdict"] == "not run" for row in (at_40, at_80, claim)] == [False, True, False]
    assert (at_40["reason"], at_80["seeds"]) == (None, 0)
    assert at_80["reason"].endswith("it hung")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["experiment=bbq/fig31"], "experiment: is 'bbq/fig31'; did you mean bbq/fig"),
        (["paper=bqb"], "paper: is 'bqb'; did you mean bbq?"),
        (["seeds=0"], "seeds: is 0, expected a number >= 1"),
        (["world=twn"], "world: is 'twn'; did you mean twin?"),
        (["resume=3"], "resume: is 3, expected true, false or a run folder"),
        (["experiment=nowhere.yaml"], "nowhere.yaml"),
        (["experiment=rebbr/exp4", "recordings=nowhere"], "'nowhere/Verizon-LTE-short.up'"),
        (["experimnt=bbq/fig13"], "experimnt: is not an option; did you mean experiment"),
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
    assert 7.0 < many.low < 10.5 - 2.768 < many.value == 10.5 < 10.5 + 2.768 < many.high < 14.0


def test_a_resumed_folder_runs_no_program_that_is_not_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"experiment": ["bbq/fig13"], "world": {"twin": {"options": {"policy": "theirs.so"}}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    assert main(["reproduce", f"resume={tmp_path}"]) == 2
    assert "world.twin.options.policy: is 'theirs.so', a program named by a run folder" in capsys.readouterr().err
