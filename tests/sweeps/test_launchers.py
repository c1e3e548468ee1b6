# SPDX-License-Identifier: GPL-2.0-only
"""The same jobs by each of Hydra's launchers: what happens when one is lost, interrupted or put in the queue again."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from omegaconf import OmegaConf
from small import (
    ENDLESS,
    LONG,
    NO_LEVELS,
    multirun,
    needs_launcher,
    running_below,
    scenario,
    started,
    states,
    step_of,
    summary,
    wait_for_a_checkpoint,
)
from waiting import PATIENCE_S, wait_until

from bbrgym.cli.main import main
from bbrgym.sweeps.jobs import _cores_of

pytestmark = pytest.mark.usefixtures("undrawn_file")

ROOT = Path(__file__).resolve().parents[2]
LAUNCHERS = {"joblib": ["hydra.launcher.n_jobs=2"], "submitit_local": ["hydra.launcher.cpus_per_task=1"], "ray": []}


def launched_by(name: str) -> list[str]:
    needs_launcher(name.partition("_")[0])
    return [f"hydra/launcher={name}", *LAUNCHERS[name]]


def starter_of(out: Path, job: str, begun: subprocess.Popen[bytes]) -> psutil.Process:
    """Return the process that started a job; early, since a job may end while all processes are looked through."""

    def running() -> list[psutil.Process]:
        found = []
        for number in running_below(out):
            with contextlib.suppress(psutil.NoSuchProcess):
                one = psutil.Process(number)
                if any(f"{out}/{job}" in word for word in one.cmdline()):
                    found.append(one.parent())
        return found

    found: list[psutil.Process] = []
    wait_until(lambda: found.extend(running()) or found or begun.poll() is not None)
    return found[0]


@pytest.mark.parametrize("name", ["joblib", "ray", pytest.param("submitit_local", marks=pytest.mark.slow)])
def test_each_launcher_runs_the_same_jobs(name: str, tmp_path: Path) -> None:
    """A grid has two levels at least."""
    out = tmp_path / "out"
    options = [scenario(tmp_path), *NO_LEVELS, "agent.levels=1,5", "seed=1"]
    done = multirun(*options, *launched_by(name), f"hydra.sweep.dir={out}")
    assert done.returncode == 1, done.stderr
    assert "agent.levels-1 failed: bbrgym: agent.levels: is 1, expected a number >= 2" in done.stderr
    assert {job: state["status"] for job, state in states(out).items()} == {
        "agent.levels-1": "failed",
        "agent.levels-5": "done",
    }
    assert summary(out)["step"].to_list() == [None, 48]


@pytest.mark.parametrize("name", ["basic", *(pytest.param(name, marks=pytest.mark.slow) for name in LAUNCHERS)])
def test_no_job_outlives_its_multirun(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    own = launched_by(name) if name in LAUNCHERS else []
    with started(scenario(tmp_path), *ENDLESS, *own, f"hydra.sweep.dir={out}") as begun:
        wait_for_a_checkpoint(out, "train", begun)
        begun.terminate()
        _, errors = begun.communicate(timeout=PATIENCE_S)
    # submitit and Ray take SIGTERM over; Ray's handler prints a stack, and ends the process or aborts it
    ends = (130, -signal.SIGTERM, *((1, -signal.SIGABRT) if name == "ray" else ()))
    assert begun.returncode in ends, errors
    wait_until(lambda: not running_below(out))
    assert states(out).get("train", {"status": "interrupted"})["status"] == "interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["joblib", "submitit_local"])
def test_a_launcher_that_loses_a_job_says_what_goes_on(name: str, tmp_path: Path) -> None:
    """A worker is killed, as by a lack of memory."""
    out = tmp_path / "out"
    options = [scenario(tmp_path), *LONG, "seed=1,2", *launched_by(name), f"hydra.sweep.dir={out}"]
    with started(*options) as begun:
        worker = starter_of(out, "seed-2", begun)
        wait_for_a_checkpoint(out, "seed-2", begun)
        worker.kill()
        _, errors = begun.communicate(timeout=PATIENCE_S)
    assert begun.returncode == 1, errors
    said = errors.decode().splitlines()[-1]
    assert said.startswith("bbrgym: the launcher gave up: ")
    assert said.endswith(" goes on")
    wait_until(lambda: not running_below(out))
    done = multirun(*options)
    assert done.returncode == 0, done.stderr
    assert {state["status"] for state in states(out).values()} == {"done"}


# ---- SLURM --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_preempted_job_is_put_in_the_queue_again_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By submitit on this machine, which does on the signal what it does in SLURM."""
    monkeypatch.setenv("SUBMITIT_PREEMPT_SIGNAL", "USR1")
    options = [scenario(tmp_path), *LONG, "seed=1"]
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert multirun(*options, f"hydra.sweep.dir={whole}").returncode == 0
    with started(*options, *launched_by("submitit_local"), f"hydra.sweep.dir={out}") as begun:
        starter = starter_of(out, "train", begun)
        wait_for_a_checkpoint(out, "train", begun)
        starter.send_signal(signal.SIGUSR1)
        _, errors = begun.communicate(timeout=PATIENCE_S)
    assert begun.returncode == 0, errors
    assert (out / "train" / "job.log").read_text().count("$ bbrgym train") == 2
    assert summary(out).equals(summary(whole))
    assert pl.read_parquet(out / "curves.parquet").equals(pl.read_parquet(whole / "curves.parquet"))


def with_programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Put programs in place of SLURM's, that do what they do."""
    (folder / "bin").mkdir()
    for name, text in programs.items():
        (folder / "bin" / name).write_text(text.format(python=sys.executable, folder=folder))
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("launcher", "cores"),
    [({"cpus_per_task": 2}, 2), ({"ray": {"remote": {"num_cpus": 3}}}, 3), ({"ray": {}}, 1), ({"n_jobs": 10_000}, 1)],
)
def test_a_job_has_the_cores_that_its_launcher_gives_it(launcher: dict[str, Any], cores: int) -> None:
    assert _cores_of(OmegaConf.create(launcher)) == cores


BBRGYM = '#!/bin/bash\nexec {python} -m bbrgym "$@"\n'
SCONTROL = '#!/bin/bash\necho "$@" >> {folder}/requeued\n'


def task(number: int, options: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """A task of the array of the shipped script, two seeds of which run at once."""
    slurm = {"SLURM_ARRAY_TASK_ID": number, "SLURM_ARRAY_JOB_ID": 7, "SLURM_CPUS_PER_TASK": 2, "SEEDS": 2}
    return subprocess.Popen(
        ["bash", str(ROOT / "examples" / "slurm_array.sh"), *options],
        cwd=folder,
        env={**os.environ, **{name: str(value) for name, value in slurm.items()}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
def test_tasks_of_an_array_share_a_multirun_and_go_on_after_their_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_launcher("joblib")
    with_programs(tmp_path, monkeypatch, bbrgym=BBRGYM, scontrol=SCONTROL)
    options, out = [scenario(tmp_path), *LONG], tmp_path / "runs" / "many"
    tasks = [task(0, options, tmp_path), task(1, options, tmp_path)]
    try:
        wait_until(lambda: step_of(out, "seed-1") > 0 or tasks[0].poll() is not None)
        tasks[0].send_signal(signal.SIGUSR1)
        errors = [one.communicate(timeout=PATIENCE_S)[1] for one in tasks]
        assert [one.returncode for one in tasks] == [0, 0], errors
        assert (tmp_path / "requeued").read_text() == "requeue 7_0\n"
        wait_until(lambda: not running_below(out))
        tasks.append(task(0, options, tmp_path))
        _, said = tasks[-1].communicate(timeout=PATIENCE_S)
        assert tasks[-1].returncode == 0, said
    finally:
        for one in tasks:
            one.kill()
            one.wait(120.0)
    assert {name: state["status"] for name, state in states(out).items()} == {
        f"seed-{seed}": "done" for seed in (1, 2, 3, 4)
    }
    assert (out / "seed-1" / "job.log").read_text().count("$ bbrgym train") == 2
    assert (out / "seed-3" / "job.log").read_text().count("$ bbrgym train") == 1
    assert main(["report", str(out)]) == 0
    assert "4 jobs, 4 done" in capsys.readouterr().out
