# SPDX-License-Identifier: GPL-2.0-only
"""A multirun as a user runs it: what it leaves, what a job that fails does, and what is refused."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobRuntime
from hydra.types import RunMode
from small import GRID, NO_LEVELS, multirun, scenario, states, summary

from bbrgym.agents.loading import load_agent
from bbrgym.cli.composition import Loader
from bbrgym.cli.main import main
from bbrgym.config.overrides import parse_override
from bbrgym.sweeps.jobs import Job


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], subprocess.CompletedProcess[str]]:
    """Two seeds of two settings, one of which cannot be: a grid has two levels at least."""
    folder = tmp_path_factory.mktemp("ran")
    options = [scenario(folder), *NO_LEVELS, "agent.levels=1,5", "seed=1,2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BBRGYM_FIGURES", "all")
        return folder / "out", options, multirun(*options, f"hydra.sweep.dir={folder / 'out'}")


def test_jobs_that_fail_are_reported_and_leave_the_others_alone(ran) -> None:
    out, _, done = ran
    assert done.returncode == 1
    assert "2 of 4 jobs are not done; bbrgym train -m" in done.stderr
    assert "agent.levels-1_seed-1 failed: bbrgym: agent.levels: is 1, expected a number >= 2" in done.stderr
    assert {name: state["status"] for name, state in states(out).items()} == {
        "agent.levels-1_seed-1": "failed",
        "agent.levels-1_seed-2": "failed",
        "agent.levels-5_seed-1": "done",
        "agent.levels-5_seed-2": "done",
    }
    assert "agent.levels: is 1" in (out / "agent.levels-1_seed-2" / "job.log").read_text()


def test_the_summary_has_a_row_per_job(ran) -> None:
    out, _, done = ran
    table = pl.read_parquet(out / "summary.parquet")
    assert table.select("agent.levels", "seed").rows() == [(1, 1), (1, 2), (5, 1), (5, 2)]
    assert table["status"].to_list() == ["failed", "failed", "done", "done"]
    assert table["step"].to_list() == [None, None, 48, 48]  # the default, then five levels
    assert pl.read_csv(out / "summary.csv").columns == table.columns
    text = (out / "summary.txt").read_text()
    assert "4 jobs, 2 done" in text
    assert "mean and 95 % interval over seeds" in re.sub(r"\s+", " ", text)
    assert "4 jobs, 2 done" in done.stdout
    assert f"{table['best_score'][2]:.4f} with agent.levels=5 seed=" in done.stdout
    assert load_agent(out / "agent.levels-5_seed-1")[0].name == "grid"


def test_the_folder_has_curves_and_figures(ran) -> None:
    out, _, _ = ran
    curves = pl.read_parquet(out / "curves.parquet")
    for job in ("agent.levels-5_seed-1", "agent.levels-5_seed-2"):
        metrics = pl.read_parquet(out / job / "metrics.parquet").drop_nulls("validation/score")
        own = curves.filter(pl.col("job") == job)
        assert own.select("step", "score").rows() == metrics.select("step", "validation/score").rows()
    for name in ("scores", "curves"):
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_browser_draws_the_page(ran, browse) -> None:
    seen = browse(ran[0] / "report.html", "return document.body.textContent;")
    assert seen.problems == []
    assert [plot["svgs"] > 0 and plot["marks"] > 0 for plot in seen.plots] == [True, True]
    assert (seen.loads, seen.requests, seen.overflow) == (0, [], 0)
    for text in ("Multirun out", "4 jobs", "2 done", "best_score by parameter", "levels-1_seed-1: end of its log"):
        assert text in seen.result
    assert f"hydra.sweep.dir={ran[0]}" in seen.result


@pytest.mark.usefixtures("undrawn")
def test_a_repeated_multirun_runs_what_is_not_done_and_can_grow(ran) -> None:
    out, options, _ = ran
    before = states(out)
    grown = ["agent.levels=5,7" if "levels" in one else one for one in options]
    done = multirun(*grown, f"hydra.sweep.dir={out}")
    assert done.returncode == 0, done.stderr  # those that failed are not among its jobs
    after = states(out)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"agent.levels-7_seed-1", "agent.levels-7_seed-2"}


@pytest.mark.usefixtures("undrawn")
def test_report_makes_the_same_anew(ran, capsys: pytest.CaptureFixture[str]) -> None:
    out, _, _ = ran
    before = summary(out)
    (out / "summary.parquet").unlink()
    assert main(["report", str(out)]) == 0
    assert summary(out).equals(before)
    assert "report.html" in capsys.readouterr().out
    assert main(["report", str(out / "agent.levels-5_seed-1")]) == 2
    assert "is not a folder of a multirun" in capsys.readouterr().err


def test_a_folder_holds_one_job_of_a_name(ran) -> None:
    out, options, _ = ran
    before = states(out)
    other = [one for one in options if not one.startswith(("total_steps", "agent.levels", "seed"))]
    own = ["agent.levels=5", "seed=1", "hydra.sweep.subdir=agent.levels-5_seed-1"]
    done = multirun(*other, *own, f"hydra.sweep.dir={out}")
    assert done.returncode == 2
    assert "holds a job with " in done.stderr
    assert "expected the same options, not " in done.stderr
    assert states(out) == before


@pytest.mark.usefixtures("undrawn")
def test_references_of_hydra_are_resolved_for_each_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those in the folder, in the environment and in the callbacks; a job's own process knows them too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own" / "reward").mkdir(parents=True)
    (tmp_path / "own" / "reward" / "mine.yaml").write_text("throughput: 2.0\n")
    options = [
        *("scenario=steady,lossy", "scenario.duration_s=1", "world=twin", "variants=[bbr]"),
        "seeds=[${hydra:job.num},7]",
        *("hydra.sweep.dir=${hydra:runtime.cwd}/out/${scenario.name}", "hydra.sweep.subdir=${hydra.job.name}"),
        *("hydra.job.name=job-${hydra.job.num}", "+hydra.job.env_set.OF_JOB=${scenario.name}-${hydra.job.num}"),
        "+hydra.callbacks.told={_target_: told.Told, path: ${hydra:runtime.cwd}/told}",
        *("hydra.searchpath=[own]", "hydra.job.chdir=true"),
    ]
    done = multirun(*options, command="evaluate")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "told").read_text().splitlines() == [
        "multirun_start",
        *("job_start steady-0", "job_end COMPLETED", "job_start lossy-1", "job_end COMPLETED"),
        "multirun_end",
    ]
    table = summary(tmp_path / "out")
    columns = ("job", "scenario", "world", "entrant", "runs")
    assert table.select(columns).rows() == [
        ("lossy/job-1", "lossy", "twin", "bbr", 2),
        ("steady/job-0", "steady", "twin", "bbr", 2),
    ]
    for job, score in table.select("job", "score").iter_rows():
        runs = pl.read_parquet(tmp_path / "out" / job / "summary.parquet")
        assert set(runs["seed"]) == {int(job[-1]), 7}
        assert score == pytest.approx(runs["score"].mean(), rel=1e-12)
    assert multirun(*options, command="evaluate").returncode == 0  # what is done stays done
    done = multirun("scenario=steady", "hydra.sweep.subdir=.", f"hydra.sweep.dir={tmp_path}/out", command="evaluate")
    assert done.returncode == 2
    assert "hydra.sweep.subdir: is '.', expected a folder for each job in hydra.sweep.dir" in done.stderr


# ---- which jobs there are -----------------------------------------------------------------------------


def names(*overrides: str) -> list[str]:
    """Return the names of the jobs that Hydra's sweeper makes of some options."""
    JobRuntime.instance().set("name", "train")
    config = Loader().load_configuration("train", list(overrides), RunMode.MULTIRUN)
    own = [one for one in map(parse_override, overrides) if not one.is_hydra_override()]
    (jobs,) = BasicSweeper.split_arguments(own, None)
    return [Loader().load_sweep_config(config, job).hydra.job.override_dirname for job in jobs]


STYLE = "hydra.job.config.override_dirname"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["agent=ppo,sac", "variant=bbq", "seed=range(2,3)"], ["agent-ppo_seed-2", "agent-sac_seed-2"]),
        (["agent=ppo,sac", "seed=1,2", f"{STYLE}.exclude_keys=[seed]"], ["agent-ppo"] * 2 + ["agent-sac"] * 2),
        (["agent=ppo", "seed=1,2", f"{STYLE}.kv_sep='='", f"{STYLE}.item_sep=','"], ["seed=1", "seed=2"]),
        (["seed=1", "hydra.job.name=${variant}"], ["bbr-mix"]),
        (["variant=bbq", "action.tunables=[bbq_alpha_us,bbq_beta]"], ["train"]),  # a list is one value
        (["variant=bbq", "seed=choice(3,4)"], ["seed-3", "seed-4"]),
    ],
)
def test_every_combination_is_a_job_with_a_name_of_its_own(overrides: list[str], expected: list[str]) -> None:
    assert names(*overrides) == expected


def test_a_job_gets_its_group_of_wandb_and_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Loader().load_configuration("train", ["logger=wandb", "seed=3"], RunMode.RUN)
    config.hydra.sweep.dir = str(tmp_path / "mine")
    HydraConfig.instance().set_config(config)
    try:
        own = (HydraConfig.get(), tmp_path / "mine" / "seed-3", ("logger=wandb", "seed=3"))
        options = list(Job("train", (), ".")._given(*own))
        monkeypatch.setenv("WANDB_RUN_GROUP", "theirs")
        grouped = list(Job("train", (), ".")._given(*own))
    finally:
        HydraConfig.instance().cfg = None
    assert {"logger.group=mine", "logger.run_name=seed-3", "resume=true"} <= set(options)
    assert options[0].startswith("threads=")
    assert grouped == [one for one in options if one != "logger.group=mine"]


# ---- what cannot be -----------------------------------------------------------------------------------

OPTUNA = "hydra/sweeper=bbrgym_optuna"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["seed=1,1"], "seed: is 1, 1, expected each value once"),
        (["seed=1", "seed=1,2"], "seed: is given twice, expected once"),
        (["seed"], "'seed' is not an override"),
        (["output_dir=x"], "output_dir: -m gives each job its own, expected hydra.sweep.dir=DIR"),
        (["agent=ppo,pppo"], "job agent-pppo: agent: is 'pppo'; did you mean ppo"),
        (["total_step=3", "seed=1,2"], "total_step: is not an option; did you mean total_steps"),
        (["agent.learning_rate=interval(1e-4,1e-3)"], "BasicSweeper does not support sweep type : INTERVAL_SWEEP"),
        ([OPTUNA], "hydra.sweeper: nothing is left to search"),
        ([OPTUNA, "+hydra.sweeper.params.a=3"], "hydra.sweeper.params: a is '3', expected choice, range"),
        ([OPTUNA, "seed=interval(2,1)"], "hydra.sweeper.params: seed is interval(2,1)"),
        ([OPTUNA, "hydra.sweeper.batch=0"], "hydra.sweeper.batch: is 0, expected a number >= 1"),
        ([OPTUNA, "hydra.sweeper.direction=up"], "minimize, maximize"),
        ([OPTUNA, "hydra.sweeper.n_trial=3"], "n_trial"),
        ([OPTUNA, "total_step=interval(2,9)"], "total_step: is not an option; did you mean total_steps"),
        (["hydra/launcher=jobllib"], "hydra/launcher"),
        (["hydra/sweeper=optuna"], "hydra/sweeper"),  # that of the published plugin
        (["hydra.sweep.subdir=${nope}"], "Interpolation key 'nope' not found"),
        (["hydra.sweep.dir=${seed}/x", "seed=1,2"], "hydra.sweep.dir: is '${seed}/x', another one for each job"),
        (["+hydra.callbacks.x._target_=nope.Nope"], "Error locating target 'nope.Nope'"),
    ],
)
def test_a_wrong_option_is_one_clear_line_and_makes_nothing(
    overrides: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = multirun(*overrides)
    assert done.returncode == 2
    assert done.stderr.startswith("bbrgym: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.rglob("job.json"))


@pytest.mark.parametrize(
    ("options", "library", "extra"),
    [
        (["hydra/launcher=joblib"], "hydra_plugins.hydra_joblib_launcher", "train"),
        (["hydra/launcher=submitit_slurm"], "hydra_plugins.hydra_submitit_launcher", "slurm"),
        (["hydra/launcher=ray"], "hydra_plugins.hydra_ray_launcher", "ray-launcher"),
        ([OPTUNA, "seed=interval(1,9)"], "optuna", "train"),
    ],
)
def test_without_a_library_it_says_so_and_runs_nothing(
    options: list[str], library: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("bbrgym.cli.hydra_program.find_spec", lambda name: None if name == library else find(name))
    if library == "optuna":
        for name in [*sys.modules]:
            if name.partition(".")[0] == library:
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, library, None)
    done = multirun(*options, scenario(tmp_path), *GRID, f"hydra.sweep.dir={tmp_path / 'out'}")
    assert done.returncode == 2
    package = library.removeprefix("hydra_plugins.").replace("_", "-")
    says = f"{options[0]} needs {package}: pip install {package}, or in a checkout of bbrgym pip install '.[{extra}]'"
    assert done.stderr.splitlines()[-1].startswith(f"bbrgym: {says}")
    assert not list(tmp_path.rglob("job.*"))
