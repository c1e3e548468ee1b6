# SPDX-License-Identifier: GPL-2.0-only
"""Multiruns as a user runs them: by each launcher of Hydra's, repeated, interrupted, searched, pruned."""

import contextlib
import importlib.util
import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import OmegaConf
from small import GRID, LONG, running_below, scenario
from waiting import wait_until

from bbrgym.agents.loading import load_agent
from bbrgym.cli.main import main
from bbrgym.compose import Loader
from bbrgym.sweeps.jobs import Job

NO_LEVELS = [one for one in GRID if "levels" not in one]
PLUGINS = {"joblib": "joblib", "submitit_local": "submitit", "ray": "ray"}
OPTIONS = {"joblib": ["hydra.launcher.n_jobs=2"], "submitit_local": ["hydra.launcher.cpus_per_task=1"], "ray": []}


def multirun(*overrides: str, command: str = "train") -> subprocess.CompletedProcess[str]:
    """The command in this process, where all is imported already; its jobs have processes of their own."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([command, "-m", *overrides])
    return subprocess.CompletedProcess(overrides, code, out.getvalue(), errors.getvalue())


def launched_by(name: str) -> list[str]:
    plugin = f"hydra_plugins.hydra_{PLUGINS[name]}_launcher"
    if importlib.util.find_spec("hydra_plugins") is None or importlib.util.find_spec(plugin) is None:
        pytest.skip(f"NO HYDRA-{PLUGINS[name].upper()}-LAUNCHER: hydra/launcher={name} is not tested here")
    return [f"hydra/launcher={name}", *OPTIONS[name]]


def start(*overrides: str) -> subprocess.Popen[bytes]:
    """A multirun that will be interrupted."""
    command = [sys.executable, "-m", "bbrgym", "train", "-m", *overrides]
    null = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=null, stdout=null, stderr=subprocess.PIPE)


def states(out: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(out.glob("*/job.json"))}


def summary(out: Path) -> pl.DataFrame:
    """Without what a clock says."""
    table = pl.read_parquet(out / "summary.parquet")
    return table.select(name for name in table.columns if not name.endswith("_s"))


def step_of(out: Path, job: str) -> int:
    path = out / job / "summary.json"
    return int(json.loads(path.read_text())["step"]) if path.exists() else 0


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], subprocess.CompletedProcess[str]]:
    """Two seeds of two settings, one of which cannot be: a grid has two levels at least."""
    folder = tmp_path_factory.mktemp("ran")
    options = [scenario(folder), *NO_LEVELS, "agent.levels=1,5", "seed=1,2"]
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


def test_the_folder_has_tables_figures_and_a_page(ran) -> None:
    out, _, done = ran
    table = pl.read_parquet(out / "summary.parquet")
    assert table.select("agent.levels", "seed").rows() == [(1, 1), (1, 2), (5, 1), (5, 2)]
    assert table["step"].to_list() == [None, None, 48, 48]  # the default, then five levels
    assert "4 jobs, 2 done" in done.stdout
    assert f"{table['best_score'][2]:.4f} with agent.levels=5 seed=" in done.stdout
    curves = pl.read_parquet(out / "curves.parquet")
    own = pl.read_parquet(out / "agent.levels-5_seed-1" / "metrics.parquet").drop_nulls("validation/score")
    assert (
        curves.filter(pl.col("job") == "agent.levels-5_seed-1")["score"].to_list() == own["validation/score"].to_list()
    )
    for name in ("scores", "curves"):
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    assert "agent.levels-1_seed-1: end of its log" in page
    assert "hydra.sweep.dir=" in page
    assert load_agent(out / "agent.levels-5_seed-1")[0].name == "grid"


def test_a_repeated_multirun_runs_what_is_not_done_and_can_grow(ran) -> None:
    out, options, _ = ran
    before = states(out)
    grown = ["agent.levels=5,7" if "levels" in one else one for one in options]
    done = multirun(*grown, f"hydra.sweep.dir={out}")
    assert done.returncode == 0, done.stderr  # those that failed are not among its jobs
    after = states(out)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"agent.levels-7_seed-1", "agent.levels-7_seed-2"}


def test_report_makes_the_same_anew(ran, capsys: pytest.CaptureFixture[str]) -> None:
    out, _, _ = ran
    before = summary(out)
    (out / "summary.parquet").unlink()
    assert main(["report", str(out)]) == 0
    assert summary(out).equals(before)
    assert "report.html" in capsys.readouterr().out
    assert main(["report", str(out / "agent.levels-5_seed-1")]) == 2
    assert "is no folder of a multirun" in capsys.readouterr().err


@pytest.mark.parametrize("name", PLUGINS)
def test_each_launcher_runs_the_same_jobs(name: str, ran, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = [*ran[1][:-2], "agent.levels=1,5", "seed=1"]
    done = multirun(*options, *launched_by(name), f"hydra.sweep.dir={out}")
    assert done.returncode == 1, done.stderr
    assert {job: state["status"] for job, state in states(out).items()} == {
        "agent.levels-1": "failed",
        "agent.levels-5": "done",
    }
    assert summary(out)["step"].to_list() == [None, 48]


@pytest.mark.parametrize("name", ["basic", *PLUGINS])
def test_no_job_outlives_its_multirun(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    long = [*(one for one in GRID if "total_steps" not in one), "total_steps=1_000_000"]
    own = [] if name == "basic" else launched_by(name)
    begun = start(scenario(tmp_path), *long, *own, f"hydra.sweep.dir={out}")
    try:
        wait_until(lambda: step_of(out, "train") > 0 or begun.poll() is not None)
        begun.terminate()
        _, errors = begun.communicate(timeout=120)
    finally:
        begun.kill()
        begun.wait(120.0)
    # submitit and Ray take SIGTERM over, and Ray aborts
    assert begun.returncode in (130, -signal.SIGTERM, -signal.SIGABRT), errors
    wait_until(lambda: not running_below(out, ""))


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_multirun_goes_on_to_what_it_would_have_been(sent: signal.Signals, tmp_path: Path) -> None:
    options = [scenario(tmp_path), *(one for one in GRID if "_steps" not in one), "log_steps=400", *LONG, "seed=1,2"]
    whole = tmp_path / "whole"
    assert multirun(*options, f"hydra.sweep.dir={whole}").returncode == 0
    for attempt in range(5):  # until one is slower than the signal
        out = tmp_path / f"out-{attempt}"
        begun = start(*options, f"hydra.sweep.dir={out}")
        try:
            wait_until(lambda out=out, begun=begun: step_of(out, "seed-2") > 0 or begun.poll() is not None)
            begun.send_signal(sent)
            _, errors = begun.communicate(timeout=120)
        finally:
            begun.kill()
            begun.wait(120.0)
        wait_until(lambda out=out: not running_below(out, ""))
        if begun.returncode != 0 and 0 < step_of(out, "seed-2") < 4000:
            break
    assert begun.returncode == (130 if sent is signal.SIGTERM else -sent), errors
    if sent is signal.SIGTERM:
        assert b"what is finished is kept; bbrgym train -m" in errors
    first = states(out)["seed-1"]
    done = multirun(*options, f"hydra.sweep.dir={out}")
    assert done.returncode == 0, done.stderr
    assert states(out)["seed-1"] == first  # it did not run again
    assert summary(out).equals(summary(whole))
    assert pl.read_parquet(out / "curves.parquet").equals(pl.read_parquet(whole / "curves.parquet"))


def test_evaluations_can_be_run_so_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["scenario.duration_s=1", "world=twin", "variants=[bbr]", "draws=1,2"]
    done = multirun(scenario(tmp_path), *options, f"hydra.sweep.dir={out}", command="evaluate")
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(out / "summary.parquet")
    assert table.select("draws", "world", "entrant", "runs").rows() == [(1, "twin", "bbr", 1), (2, "twin", "bbr", 2)]


# ---- searches -----------------------------------------------------------------------------------------

SEARCH = [
    "hydra/sweeper=optuna",
    "hydra.sweeper.n_trials=3",
    "hydra.sweeper.batch=1",
    "hydra.sweeper.n_startup_trials=1",
]
LEVELS = "agent.levels=int(interval(2,9))"


def test_a_search_goes_on_after_a_kill_to_the_same_trials(tmp_path: Path) -> None:
    """Each trial has two seeds, and the next is proposed when it has its score."""
    pytest.importorskip("optuna", reason="NO OPTUNA: what searches; pip install 'bbrgym[train]'")
    options = [*SEARCH, scenario(tmp_path), *NO_LEVELS, LEVELS, "seed=1,2"]
    whole, out = tmp_path / "whole", tmp_path / "out"
    done = multirun(*options, f"hydra.sweep.dir={whole}")
    assert done.returncode == 0, done.stderr
    assert list(states(whole)) == [f"trial-000{trial}_seed-{seed}" for trial in range(3) for seed in (1, 2)]
    best = OmegaConf.load(whole / "optimization_results.yaml").best
    assert best.value == pytest.approx(summary(whole)["best_score"].max())
    begun = start(*options, f"hydra.sweep.dir={out}")
    try:
        wait_until(lambda: "trial-0001_seed-1" in states(out) if out.exists() else False)
    finally:
        begun.kill()
        begun.communicate(timeout=120)
    wait_until(lambda: not running_below(out, ""))
    assert multirun(*options, f"hydra.sweep.dir={out}").returncode == 0
    assert summary(out).equals(summary(whole))
    other = multirun(*options, "hydra.sweeper.seed=7", f"hydra.sweep.dir={out}")
    assert other.returncode == 2
    assert "hydra.sweeper.seed: is 7, was 1 in" in other.stderr


def test_a_hopeless_trial_is_pruned_by_its_validation_score(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna", reason="NO OPTUNA: what searches; pip install 'bbrgym[train]'")
    out = tmp_path / "out"
    pruner = "hydra.sweeper.pruner={_target_: optuna.pruners.ThresholdPruner, lower: 1000}"
    long = [one for one in NO_LEVELS if "_steps" not in one] + ["total_steps=1_000_000", "checkpoint_steps=200"]
    done = multirun(
        *SEARCH, pruner, scenario(tmp_path), *long, "agent.levels=int(interval(900,999))", f"hydra.sweep.dir={out}"
    )
    assert done.returncode == 0, done.stderr
    assert [state["status"] for state in states(out).values()] == ["pruned"] * 3
    study = optuna.load_study(study_name="bbrgym", storage=f"sqlite:///{out / 'study.db'}")
    assert [trial.state.name for trial in study.trials] == ["PRUNED"] * 3
    assert all(step_of(out, name) < 1_000_000 for name in states(out))


def test_a_search_space_is_a_shipped_file(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="NO OPTUNA: what searches; pip install 'bbrgym[train]'")
    out = tmp_path / "out"
    few = ["total_steps=4", "num_envs=2", "hydra.sweeper.n_trials=1", "validation.draws=1", "threads=1"]
    done = multirun(
        *SEARCH[:1], *few, "hydra.sweeper.space=sac", scenario(tmp_path), "variant=bbq", f"hydra.sweep.dir={out}"
    )
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(out / "summary.parquet")
    assert table["agent"].to_list() == ["sac"]


# ---- what cannot be -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["seed=1,1"], "seed: is 1, 1, expected each value once"),
        (["seed=1", "seed=1,2"], "seed: is given twice, expected once"),
        (["output_dir=x"], "output_dir: -m gives each job its own, expected hydra.sweep.dir=DIR"),
        (["agent=ppo,pppo"], "job agent-pppo: agent: is 'pppo'; did you mean ppo"),
        (["total_step=3", "seed=1,2"], "total_step: is no option; did you mean total_steps"),
        (["agent.learning_rate=interval(1e-4,1e-3)"], "BasicSweeper does not support sweep type : INTERVAL_SWEEP"),
        (["hydra/sweeper=optuna"], "hydra.sweeper: nothing is left to search"),
        (["hydra/sweeper=optuna", "hydra.sweeper.params.a=3"], "hydra.sweeper.params"),
        (["hydra/launcher=jobllib"], "hydra/launcher"),
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


def test_a_job_gets_its_group_of_wandb_and_its_threads(tmp_path: Path) -> None:
    config = Loader().load_configuration("train", ["logger=wandb", "seed=3"], RunMode.RUN)
    config.hydra.sweep.dir = str(tmp_path / "mine")
    HydraConfig.instance().set_config(config)
    try:
        given = Job("train", (), ".")._given(
            HydraConfig.get(), tmp_path / "mine" / "seed-3", ("logger=wandb", "seed=3")
        )
        options = list(given)
    finally:
        HydraConfig.instance().cfg = None
    assert {"logger.group=mine", "logger.run_name=seed-3", "resume=true"} <= set(options)
    assert options[0].startswith("threads=")
