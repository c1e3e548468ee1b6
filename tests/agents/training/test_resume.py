# SPDX-License-Identifier: GPL-2.0-only
"""An interrupted training goes on as if there had been no interruption."""

import functools
import json
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from tiny import AGENTS, SHORT, asked, curve, interrupt, kill, run, weights
from waiting import wait_until

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.training import checkpoints
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.train_agent import TrainingProgress, resume_training, train
from bbrgym.cli.main import main

pytestmark = pytest.mark.usefixtures("undrawn_file")


def assert_same(one: Path, other: Path) -> None:
    assert curve(one).equals(curve(other))
    for checkpoint in ("last", "best"):
        assert weights(one, checkpoint) == weights(other, checkpoint)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.parametrize("by", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_killed_training_goes_on_with_the_same_curve_and_weights(by: int, whole: Path, tmp_path: Path) -> None:
    folder = kill(tmp_path / "run", 130, by, asked())
    assert curve(folder)["step"].max() < 320  # it did not get to its end
    assert resume_training(folder)["step"] == 320
    assert_same(folder, whole)


@pytest.mark.parametrize(
    "agent", [pytest.param(one, marks=[pytest.mark.slow] if one == "tqc" else []) for one in AGENTS]
)
def test_every_agent_goes_on_as_if_nothing_had_happened(agent: str, tmp_path: Path) -> None:
    draws = {"by_cost": agent in ("ppo", "torch_ppo")}
    whole = run(tmp_path / "whole", agent, draws=draws)
    broken = interrupt(
        tmp_path / "broken", 230, asked(agent, draws=draws)
    )  # after the second checkpoint, with things learned
    assert curve(broken)["step"].max() < 230
    resume_training(broken)
    assert_same(broken, whole)
    names = set(weights(whole))
    assert any("exp_avg_sq" in name for name in names)  # the optimiser's state is among what is the same


def test_a_kill_between_the_files_of_a_checkpoint_is_made_good(whole: Path, tmp_path: Path) -> None:
    """The curve and the best agent may be ahead of `last`, which is written at the end."""
    folder = interrupt(tmp_path / "run", 130, asked())
    shutil.copy(whole / "metrics.parquet", folder)
    shutil.copy(whole / "checkpoints" / "best.pt", folder / "checkpoints")
    resume_training(folder)
    assert_same(folder, whole)


def test_a_training_interrupted_before_its_first_checkpoint_begins_again(whole: Path, tmp_path: Path) -> None:
    folder = interrupt(tmp_path / "run", -1, asked())
    assert not list(folder.rglob("*.pt"))
    train(output_dir=folder, resume=True, **asked())
    assert_same(folder, whole)


def test_a_resume_from_step_0_records_the_rows_of_a_fresh_start(tmp_path: Path) -> None:
    """An update has fewer steps than `log_steps`, and the first checkpoint is of step 0."""
    steps = {"total_steps": 512, "checkpoint_steps": 512, "log_steps": 256, "num_envs": 8}
    for agent in ("torch_ppo", "ppo"):
        hyperparameters = {"name": agent, "n_steps": 16, "batch_size": 64, "n_epochs": 1}
        whole = run(tmp_path / f"whole-{agent}", hyperparameters, **steps)
        broken = interrupt(tmp_path / f"broken-{agent}", 0, asked(hyperparameters, **steps))
        assert curve(broken)["step"].to_list() == [0]
        resume_training(broken)
        assert_same(broken, whole)


def test_resuming_what_is_finished_changes_nothing(whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert resume_training(folder) == json.loads((folder / "summary.json").read_text())
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


# ---- the command --------------------------------------------------------------------------------------

STEPS = ("agent.n_steps=2", "agent.batch_size=4", "agent.n_epochs=1", "total_steps=40", "checkpoint_steps=8")


def terminated(folder: Path, *program: str) -> tuple[int, str]:
    """Send SIGTERM to a long training of the command after its first checkpoint; return exit code and errors."""
    options = ["train", *SHORT, *STEPS, "total_steps=4000000", f"output_dir={folder}"]
    process = subprocess.Popen([sys.executable, *program, *options], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: (folder / "summary.json").exists() or process.poll() is not None)
        process.terminate()
        code = process.wait(120.0)
    finally:
        process.kill()
        said = process.communicate()[1].decode()
    assert "Traceback" not in said
    return code, said


def test_the_command_ends_in_order_when_asked_to_and_goes_on(tmp_path: Path) -> None:
    """Even where its parent ignores SIGINT, as shells do for what runs in the background."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code, said = terminated(tmp_path / "run", "-m", "bbrgym")
    finally:
        signal.signal(signal.SIGINT, previous)
    assert code == 130
    assert said.endswith(f"what is finished is kept; bbrgym train resume={tmp_path}/run goes on\n")


IMPATIENT = """
import os, signal, sys
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.cli.main import program

def close(run):
    os.kill(os.getpid(), signal.SIGTERM)
    print("still there", file=sys.stderr)

TrainingRun.close = close
program()
"""


@pytest.mark.slow
def test_a_second_request_to_end_ends_the_command_at_once(tmp_path: Path) -> None:
    """It comes while the training is closed after the first one."""
    folder = tmp_path / "run"
    code, said = terminated(folder, "-c", IMPATIENT)
    assert code == -signal.SIGTERM  # 143 in a shell
    assert all(" steps  " in line for line in said.splitlines())
    step = json.loads((folder / "summary.json").read_text())["step"]
    assert not list(folder.rglob("*.partial"))
    assert curve(folder)["step"].max() == step
    load_agent(folder, "last")
    folder_again = TrainingFolder(folder)
    folder_again.open(resume=True)  # nobody owns it
    folder_again.close()


def test_the_command_resumes_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert main(["train", *SHORT, *STEPS, f"output_dir={folder}"]) == 0
    once = capsys.readouterr().out
    assert main(["train", f"resume={folder}"]) == 0
    assert main(["train", *SHORT, *STEPS, f"output_dir={folder}", "resume=true"]) == 0
    assert capsys.readouterr().out == once * 2
    assert main(["train", *SHORT, *STEPS, f"output_dir={folder}"]) == 2
    assert "is not empty, expected a new one, or resume=true to go on" in capsys.readouterr().err


# ---- what cannot be -----------------------------------------------------------------------------------


def test_another_training_cannot_go_on_in_its_folder(whole: Path) -> None:
    says = r"holds another training, seed: is 2, was 1; expected a new folder, or resume="
    with pytest.raises(bbrgym.ConfigError, match=says):
        train(output_dir=whole, resume=True, **asked(seed=2))


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the run folder of a brief training of an agent, once."""
    return functools.cache(lambda agent: run(tmp_path_factory.mktemp("brief") / "run", agent, total_steps=32))


@pytest.mark.parametrize("agent", ["ppo", "torch_ppo"])
@pytest.mark.parametrize("kept", [[1], {"state": {"x": 1}, "about": {}}, "about", "sac", "other"])
def test_a_checkpoint_that_holds_something_else_is_one_clear_error(
    agent: str, kept: Any, brief: Callable[[str], Path], tmp_path: Path
) -> None:
    """Numbers, a state that a training does not have, another agent's checkpoint, networks of other widths."""
    folder = shutil.copytree(brief(agent), tmp_path / "run")
    if kept == "about":
        last = torch.load(folder / "checkpoints" / "last.pt", weights_only=True)
        checkpoints._save({**last, "about": {"stp": 3}}, folder / "checkpoints" / "last.pt")
    elif isinstance(kept, str):
        narrow = {**asked(agent)["agent"], "hidden": [3]}
        other = brief("sac") if kept == "sac" else run(tmp_path / "other", narrow, total_steps=32)
        shutil.copy(other / "checkpoints" / "last.pt", folder / "checkpoints")
    else:
        checkpoints._save(kept, folder / "checkpoints" / "last.pt")
    for use in (lambda: load_agent(folder, "last"), lambda: resume_training(folder)):
        with pytest.raises(bbrgym.ConfigError, match=r"last\.pt' holds something else than config.yaml says") as caught:
            use()
        assert "\n" not in str(caught.value)


LOST = bytes(range(256))


@pytest.mark.parametrize("name", ["metrics.parquet", "validation.parquet", "summary.json"])
def test_a_damaged_file_is_one_clear_error_and_loses_no_rows(name: str, whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "run")
    for damaged in (b"", LOST, (whole / name).read_bytes()[:-5]):
        (folder / name).write_bytes(damaged)
        with pytest.raises(bbrgym.ConfigError, match=f"cannot read '.*{name}'") as caught:
            resume_training(folder)
        assert "\n" not in str(caught.value)
    if name != "summary.json":
        pl.read_parquet(whole / name).filter(pl.col("step") < 320).write_parquet(folder / name)
        with pytest.raises(bbrgym.ConfigError, match=f"{name}' has no row of step 320"):
            resume_training(folder)
    (folder / name).unlink()
    if name == "summary.json":  # it says nothing that is not in the checkpoint
        resume_training(folder)
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    else:
        with pytest.raises(bbrgym.ConfigError, match=f"cannot read '.*{name}'"):
            resume_training(folder)


def test_a_full_disk_is_one_error_and_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    """The disk is as good as full when the first checkpoint has been written."""
    folder = tmp_path / "run"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(progress: TrainingProgress) -> None:
        if progress.step > 130:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))

    try:
        with pytest.raises(OSError, match=r"File too large: '.*/checkpoints/(best|last).pt'"):
            train(output_dir=folder, on_progress=fill, **asked())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    load_agent(folder, "last")
    assert not list(folder.rglob("*.partial"))
    assert resume_training(folder)["step"] == 320
