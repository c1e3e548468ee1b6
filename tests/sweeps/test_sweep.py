# SPDX-License-Identifier: GPL-2.0-only
"""A sweep as a user runs it: what it leaves, what a job that fails does, and what is refused."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from small import EVALUATION, GRID, scenario, states, sweep

from bbrgym.agents.loading import load_agent
from bbrgym.cli.sweep import sweep_from
from bbrgym.errors import ConfigError, MissingExtraError

pytest.importorskip("joblib", reason="NO JOBLIB: what starts the jobs; pip install 'bbrgym[train]'")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Two seeds of two settings, one of which cannot be: a grid has two levels at least."""
    folder = tmp_path_factory.mktemp("swept")
    out = folder / "out"
    options = [scenario(folder), *(one for one in GRID if "levels" not in one), "agent.levels=1,5", "seed=1,2"]
    return out, sweep(*options, "launcher.n_jobs=2", f"sweep_dir={out}")


def test_jobs_that_fail_are_reported_and_leave_the_others_alone(swept) -> None:
    out, done = swept
    assert done.returncode == 1
    assert "2 of 4 jobs are not done" in done.stderr
    assert "agent.levels-1_seed-1 failed: bbrgym: agent.levels: is 1, expected a number >= 2" in done.stderr
    assert {name: state["status"] for name, state in states(out).items()} == {
        "agent.levels-1_seed-1": "failed",
        "agent.levels-1_seed-2": "failed",
        "agent.levels-5_seed-1": "done",
        "agent.levels-5_seed-2": "done",
    }
    assert "agent.levels: is 1" in (out / "logs" / "agent.levels-1_seed-2.log").read_text()


def test_the_summary_has_a_row_per_job(swept) -> None:
    out, done = swept
    table = pl.read_parquet(out / "summary.parquet")
    assert table.select("agent.levels", "seed").rows() == [(1, 1), (1, 2), (5, 1), (5, 2)]
    assert table["status"].to_list() == ["failed", "failed", "done", "done"]
    assert table["step"].to_list() == [None, None, 48, 48]  # the default, then five levels
    assert pl.read_csv(out / "summary.csv").columns == table.columns
    text = (out / "summary.txt").read_text()
    assert "4 jobs, 2 done" in text
    assert "4 jobs, 2 done" in done.stdout
    assert f"{table['best_score'][2]:.4f} with agent.levels=5 seed=" in done.stdout


def test_curves_are_those_of_the_jobs(swept) -> None:
    out, _ = swept
    curves = pl.read_parquet(out / "curves.parquet")
    for job in ("agent.levels-5_seed-1", "agent.levels-5_seed-2"):
        metrics = pl.read_parquet(out / "jobs" / job / "metrics.parquet").drop_nulls("validation/score")
        own = curves.filter(pl.col("job") == job)
        assert own.select("step", "score").rows() == metrics.select("step", "validation/score").rows()
    for name in ("scores", "curves"):
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "report.html").read_text()
    assert "best_score by parameter" in page
    assert "agent.levels-1_seed-1: end of its log" in page


def test_a_job_s_folder_is_that_of_its_own_command(swept) -> None:
    agent, _ = load_agent(swept[0] / "jobs" / "agent.levels-5_seed-1")
    assert agent.name == "grid"


def test_an_evaluation_can_be_swept_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = sweep(scenario(tmp_path), *EVALUATION, "draws=1,2", f"sweep_dir={out}")
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(out / "summary.parquet")
    assert table.select("draws", "world", "entrant", "runs").rows() == [(1, "twin", "bbr", 1), (2, "twin", "bbr", 2)]
    for draws in (1, 2):
        runs = pl.read_parquet(out / "jobs" / f"draws-{draws}" / "summary.parquet")
        score = table.filter(pl.col("draws") == draws)["score"][0]
        assert score == pytest.approx(runs["score"].mean(), rel=1e-12)


# ---- what cannot be -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["launcher=jobllib"], "launcher: is 'jobllib'; did you mean joblib"),
        (["launcher.n_jobs=0"], "launcher.n_jobs: is 0"),
        (["launcher.n_job=2"], "launcher.n_job: .*n_jobs"),
        (["command=list"], "command: is 'list'"),
        (["launcher=joblib,ray"], "is an option of the sweep itself, expected one value"),
        (["agent=ppo,pppo"], "job agent-pppo: agent: is 'pppo'"),
        (["agent.learning_rate=interval(1e-4,1e-3)"], "is an interval, from which only a search takes values"),
        (["resume=true"], "resume: is true without sweep_dir"),
        (["resume=nowhere"], "is no run folder of bbrgym sweep"),
    ],
)
def test_a_wrong_option_is_named(
    overrides: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=says):
        sweep_from(overrides)
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.parametrize(
    ("options", "library", "says"),
    [
        ([], "joblib", r"launcher=joblib needs joblib: pip install 'bbrgym\[train\]'"),
        (["launcher=submitit"], "submitit", r"launcher=submitit needs submitit: pip install 'bbrgym\[slurm\]'"),
        (["launcher=ray"], "ray", r"launcher=ray needs ray: pip install 'bbrgym\[ray\]'"),
        (["hparams_search=ppo"], "optuna", r"hparams_search needs optuna.*: pip install 'bbrgym\[train\]'"),
    ],
)
def test_without_a_library_it_says_so_and_makes_nothing(
    options: list[str], library: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == library:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=says):
        sweep_from([*options, f"sweep_dir={tmp_path / 'out'}"])
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_of_one_s_own_is_found_by_its_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_launcher.py").write_text(
        "from bbrgym.sweeps.launchers.launcher import Launcher\n"
        "class Mine(Launcher):\n"
        "    depth: int = 1\n"
        "    @property\n"
        "    def threads(self):\n"
        "        return 1\n"
        "    def run(self, tasks):\n"
        "        (tasks[0].cwd / 'ran').write_text(f'{len(tasks)} {self.depth}')\n"
        "        return iter(())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    target = "launcher._target_=my_launcher.Mine"
    with pytest.raises(ConfigError, match=r"launcher.n_jobs: is no field; .*depth"):
        sweep_from([*GRID, target, "sweep_dir=out"])
    sweep_from([*GRID, "seed=1,2", target, "~launcher.n_jobs", "launcher.depth=3", "sweep_dir=out"])
    assert (tmp_path / "ran").read_text() == "2 3"
