# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym reproduce`` from end to end, on a small experiment."""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from small_experiment import FIELDS

from bbrgym.cli.main import main
from bbrgym.evaluate.records import EvaluationFolder
from bbrgym.evaluate.statistics import Estimate
from bbrgym.papers.cases import with_stack
from bbrgym.papers.catalogue import load_experiment
from bbrgym.papers.measurements import estimate
from bbrgym.papers.report import papers_page
from bbrgym.papers.reproduction import prepare_reproduction
from bbrgym.papers.request import parse_reproduction

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
    measured = pl.read_parquet(tmp_path / "out" / "measurements.parquet")
    assert len(measured) == 2 * 2 * 2 * 2  # variants, points, seeds, quantities
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.png")}
    assert files == {"figures/mine-fig1.png", "figures/mine-fig1-time.png"}
    assert "figure 1: two flows" in (tmp_path / "out" / "report.html").read_text()
    page = (tmp_path / "docs" / "papers.md").read_text()
    assert "| mine | 1 |" in page
    assert re.search(r"`, \d{4}-\d\d-\d\d: 8 runs of 16 simulated s in 0 min \d+ s on \d+ cores?\.", page)
    assert page == papers_page(tmp_path / "docs", [load_experiment(str(experiment_file))])


@pytest.mark.usefixtures("undrawn")
def test_a_part_measured_anew_leaves_the_other_rows_of_the_docs(
    here: Here, experiment_file: Path, tmp_path: Path
) -> None:
    """What is shipped of other experiments stays, with the command that measured it."""
    folder = tmp_path / "docs"
    folder.mkdir()
    shipped = [line for line in (ROOT / "docs" / "papers.csv").read_text().splitlines() if not line.startswith("#")]
    kept = [line for line in shipped[1:] if line.startswith(("bbq/", "rebbr/exp4,"))]
    head = ["# bbrgym reproduce docs=docs", "# 2026-01-02", "# stack=null"]
    (folder / "papers.csv").write_text("\n".join([*head, shipped[0], *kept]) + "\n")
    for seeds in (2, 3):
        assert here(f"experiment={experiment_file}", f"seeds={seeds}", f"output_dir={seeds}", "docs=docs")[0] == 0
    lines = (folder / "papers.csv").read_text().splitlines()
    assert lines[:3] == head
    assert lines[3].startswith("# again=")
    assert "seeds=3" in lines[4]
    assert [line for line in lines if line.startswith(("bbq/", "rebbr/"))] == kept
    assert sum(line.startswith("mine/fig1,") for line in lines) == 3
    page = (folder / "papers.md").read_text()
    assert "`bbrgym reproduce docs=docs`, 2026-01-02. A part of it again: `bbrgym reproduce" in page
    assert "| `fig1` |" in page
    assert "| `fig13` |" in page


@pytest.mark.usefixtures("undrawn")
def test_many_seeds_are_shown_as_a_distribution(here: Here, experiment_file: Path, tmp_path: Path) -> None:
    """A quantity without a published number has no verdict and counts as no number."""
    distributions = [{"variant": name, "metric": "goodput_mbps"} for name in ("small", "bbr")]
    experiment_file.write_text(yaml.safe_dump({**FIELDS, "distributions": distributions}))
    code, output, errors = here(f"experiment={experiment_file}", "seeds=20", "output_dir=many", "docs=many")
    assert code == 0, errors
    assert "mine/fig1 (figure 1) in world twin: distribution over seeds" in output
    numbers = pl.read_parquet(tmp_path / "many" / "numbers.parquet")
    assert numbers.filter(pl.col("verdict").is_null()).select("variant", "at", "published", "seeds").rows() == [
        ("small", 40.0, None, 20),
        ("small", 80.0, None, 20),
    ]
    first = numbers.row(0, named=True)
    measured = pl.read_parquet(tmp_path / "many" / "measurements.parquet").filter(
        pl.col("variant") == "bbr", pl.col("at") == 40, pl.col("metric") == "goodput_mbps"
    )["value"]
    assert [first[f"quantile_{part}"] for part in (5, 25, 50, 75, 95)] == pytest.approx(
        [measured.quantile(part / 100, "linear") for part in (5, 25, 50, 75, 95)]
    )
    csv = pl.read_csv(tmp_path / "many" / "papers.csv", comment_prefix="#")
    assert csv["quantile_50"][0] == pytest.approx(measured.median(), rel=1e-5)


@pytest.mark.usefixtures("undrawn")
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


def launched() -> list[str]:
    """Options for a Hydra launcher."""
    if importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None:
        pytest.skip("NO HYDRA-JOBLIB-LAUNCHER: experiments as jobs are not tested here")
    return ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]


@pytest.mark.usefixtures("undrawn")
def test_a_failed_job_of_a_launcher_is_named_and_the_others_give_the_same_numbers(
    here: Here, experiment_file: Path, tmp_path: Path
) -> None:
    way = tmp_path / "there" / "experiments" / "mine-fig1" / "config.yaml"
    way.parent.mkdir(parents=True)
    way.write_text("in the way: true")
    request = [f"experiment={experiment_file}", "output_dir=there", "resume=true"]
    code, _, errors = here(*request, *launched())
    assert code == 1
    assert "8 of 8 runs are not done" in errors
    assert "mine-fig1 failed: bbrgym: output_dir: " in errors
    way.unlink()
    code, _, errors = here(*request, *launched())  # as the advice says, the same again
    assert code == 0, errors
    assert here(f"experiment={experiment_file}", "output_dir=here", f"seeds={FIELDS['seeds']}")[0] == 0
    job = tmp_path / "there" / "experiments" / "mine-fig1"
    assert '"status": "done"' in (job / "job.json").read_text()
    assert len(list((job / "jobs").glob("*.summary.parquet"))) == 8
    assert (tmp_path / "here" / "numbers.parquet").read_bytes() == (tmp_path / "there" / "numbers.parquet").read_bytes()


@pytest.mark.usefixtures("undrawn")
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
    prepared = prepare_reproduction(parse_reproduction({"experiment": str(experiment_file)}))
    (broken, *_) = [case.job.key for case in prepared.experiments[0].cases if case.at == 80 and case.variant == "bbr"]
    (result,) = prepared.run(given_up={broken: "the simulation hung"})
    assert [one.verdict == "not run" for one in result.numbers] == [False, True]
    assert [run.reason for run in result.failures] == ["the simulation hung"]
    assert result.reason_of([result.numbers[1].number.quantity], "twin") == "the simulation hung"
    assert result.reason_of([result.numbers[0].number.quantity], "twin") is None


@pytest.mark.parametrize(
    ("text", "common", "of_flow"),
    [
        ("ns3", {"preset": "ns3"}, None),
        ("{preset: linux-4.11, pacing: fq}", {"preset": "linux-4.11", "pacing": "fq"}, None),
        (
            "{pacing: fq}",
            {"preset": "linux-4.9", "pacing": "fq"},
            {"preset": "linux-4.17", "ecn": True, "pacing": "fq"},
        ),
    ],
)
def test_a_stack_replaces_those_of_all_senders_or_changes_facts(text: str, common: Any, of_flow: Any) -> None:
    asked = parse_reproduction({"stack": yaml.safe_load(text)})
    assert asked.stack_text == text
    flow = {"name": "b", "stack": {"preset": "linux-4.17", "ecn": True}}
    fields = {"stack": "linux-4.9", "flows": [{"name": "a"}, flow]}
    changed = with_stack(fields, asked.stack)
    assert changed["stack"] == common
    assert changed["flows"] == [{"name": "a"}, {"name": "b"} if of_flow is None else {"name": "b", "stack": of_flow}]
    assert fields["stack"] == "linux-4.9"
    assert "pacing" not in flow["stack"]


def test_a_stack_leaves_ns3_s_own_senders_as_they_are(experiment_file: Path) -> None:
    variants = {name: {"cc": f"ns3-{name}", "world": "ns3"} for name in ("bic", "vegas", "westwood")}
    fields = {**FIELDS, "variants": {**FIELDS["variants"], **variants}}
    experiment_file.write_text(yaml.safe_dump(fields))
    keys = []
    for stack in (None, "ns3"):
        (prepared,) = prepare_reproduction(
            parse_reproduction({"experiment": str(experiment_file), "stack": stack, "seeds": 1})
        ).experiments
        keys.append({(case.variant, case.at): case.job.key for case in prepared.cases})
    same = {variant for variant, at in keys[0] if keys[0][variant, at] == keys[1][variant, at]}
    assert same == {"bic", "vegas", "westwood"}


@pytest.mark.usefixtures("undrawn")
def test_other_stacks_stand_beside_the_experiments_own(here: Here, experiment_file: Path, tmp_path: Path) -> None:
    request = [f"experiment={experiment_file}", "seeds=1", "docs=docs"]
    assert here(*request, "output_dir=own")[0] == 0
    code, output, errors = here(*request, "stack={pacing: none}", "output_dir=unpaced")
    assert code == 0, errors
    assert "in world twin with stack={pacing: none}" in output
    assert yaml.safe_load((tmp_path / "unpaced" / "config.yaml").read_text())["stack"]["pacing"] == "none"
    own, unpaced = (pl.read_parquet(tmp_path / name / "measurements.parquet")["value"] for name in ("own", "unpaced"))
    assert not own.equals(unpaced)
    page = (tmp_path / "docs" / "papers.md").read_text()
    assert "| `stack={pacing: none}` |" in page
    assert here("stack=ns4")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["experiment=bbq/fig31"], "experiment: is 'bbq/fig31'; did you mean bbq/fig"),
        (["paper=bqb"], "paper: is 'bqb'; did you mean bbq?"),
        (["stack=linux-7"], "stack.preset: is 'linux-7', expected one of linux-6,"),
        (["stack={pacing: sometimes}"], "stack.pacing: is 'sometimes', expected one of internal,"),
        (["seeds=0"], "seeds: is 0, expected a number >= 1"),
        (["world=twn"], "world: is 'twn'; did you mean twin?"),
        (["resume=3"], "resume: is 3, expected true, false or a run folder"),
        (["experiment=nowhere.yaml"], "nowhere.yaml"),
        (["experiment=rebbr/fig8", "reference=nowhere"], "reference: "),
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
    assert 7.5 < many.low < many.value == 10.5 < many.high < 13.5


def test_a_resumed_folder_runs_no_program_that_is_not_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {"experiment": ["bbq/fig13"], "world": {"twin": {"options": {"policy": "theirs.so"}}}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    assert main(["reproduce", f"resume={tmp_path}"]) == 2
    assert "world.twin.options.policy: is 'theirs.so', a program named by a run folder" in capsys.readouterr().err
