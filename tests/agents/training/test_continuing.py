# SPDX-License-Identifier: GPL-2.0-only
"""A finished training goes on with more steps, in a run folder of its own."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml
from tiny import AGENTS, asked, curve, interrupt, run, weights

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.cli.main import main

pytestmark = pytest.mark.usefixtures("undrawn_file")

Files = dict[Path, bytes]


def files(folder: Path) -> Files:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def updates(folder: Path) -> float:
    """Updates that the optimiser of a training counts."""
    kept: Any = torch.load(folder / "checkpoints" / "last.pt", weights_only=True)
    state = kept["state"]
    optimisers = [state.get("policy.optimizer"), state.get("optimizer"), state.get("actor.optimizer")]
    (optimiser,) = (one for one in optimisers if one is not None)
    return float(optimiser["state"][0]["step"])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("first") / "run")


@pytest.mark.parametrize("agent", ["ppo", "torch_ppo", "sac"])
def test_curve_weights_and_optimiser_are_taken_over(agent: str, tmp_path: Path) -> None:
    before = run(tmp_path / "before", agent)
    was = files(before)
    summary = train(output_dir=tmp_path / "after", continue_from=str(before), total_steps="+160")
    step = json.loads((before / "summary.json").read_text())["step"]
    assert (summary["step"] >= step + 160, summary["total_steps"]) == (True, step + 160)
    assert (
        curve(tmp_path / "after")
        .filter(pl.col("step") < step)
        .equals(curve(before).filter(pl.col("step") < step).select(curve(tmp_path / "after").columns))
    )
    assert updates(tmp_path / "after") > updates(before) > 0
    assert weights(tmp_path / "after") != weights(before)
    assert files(before) == was
    assert load_agent(tmp_path / "after")[0].name == agent


def test_it_works_twice_says_from_where_and_repeats_itself_but_no_episode(first: Path, tmp_path: Path) -> None:
    """The segment of the last checkpoint had steps 300 to 320; the one that goes on there must not repeat them."""
    one, two, again = tmp_path / "one", tmp_path / "two", tmp_path / "again"
    for folder in (one, again):
        train(output_dir=folder, continue_from=first, total_steps="+64")
    train(output_dir=two, continue_from=one, total_steps=448, agent={"learning_rate": 1e-4}, checkpoint_steps=32)
    config = yaml.safe_load((two / "config.yaml").read_text())
    assert config["continue_from"] == {"folder": str(one), "step": 384}
    assert (config["total_steps"], config["agent"]["learning_rate"]) == (448, 1e-4)
    assert config["agent"]["n_steps"] == AGENTS["ppo"]["n_steps"]
    assert curve(two)["step"].max() == 448
    assert updates(two) > updates(one) > updates(first)
    assert weights(one) == weights(again)
    assert curve(one).equals(curve(again))
    longer = run(tmp_path / "longer", total_steps=384)
    assert weights(one) != weights(longer)


def test_an_interrupted_one_goes_on_as_if_nothing_had_happened(first: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"continue_from": str(first), "total_steps": "+160"}
    train(output_dir=tmp_path / "whole", **how)
    interrupt(tmp_path / "broken", 420, how)
    resume_training(tmp_path / "broken")
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")
    interrupt(tmp_path / "again", 420, how)
    train(output_dir=tmp_path / "again", resume=True, **how)
    assert weights(tmp_path / "again") == weights(tmp_path / "whole")


def test_a_search_tries_more_settings(tmp_path: Path) -> None:
    action = {"tunables": ["bbr_cwnd_gain"]}
    search = {"name": "optuna", "draws": 2}
    before = run(tmp_path / "before", search, action=action, total_steps=32, num_envs=1)
    train(output_dir=tmp_path / "after", continue_from=before, total_steps="+32")
    tried = [len(curve(tmp_path / name).drop_nulls("search/score")) for name in ("before", "after")]
    assert tried[1] == 2 * tried[0]


# ---- the command --------------------------------------------------------------------------------------


@pytest.mark.parametrize("multirun", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_command_goes_on_with_the_options_of_the_run(
    multirun: bool, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["agent.learning_rate=1e-5", "logger=csv", "total_steps=+3.2e1"]
    where = ["-m", f"hydra.sweep.dir={tmp_path}"] if multirun else [f"output_dir={tmp_path / '0'}"]
    assert main(["train", f"continue_from={first}", *own, *where]) == 0, capsys.readouterr().err
    (summary,) = tmp_path.glob("*/summary.json")
    config = yaml.safe_load(summary.with_name("config.yaml").read_text())
    assert (config["agent"]["hidden"], config["scenario"]["name"]) == ([64], "tiny")
    assert (config["agent"]["learning_rate"], config["logger"]["name"]) == (1e-5, "csv")
    assert json.loads(summary.read_text())["total_steps"] == 352


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["total_steps=+0"], "total_steps: is '+0', expected a whole number above 320, the last step of"),
        ([], "total_steps: is None, expected a whole number above 320"),
        (["total_steps=+64", "variant=bbr"], "variant: is 'bbr', was 'bbq' in"),
        (["total_steps=+64", "agent=sac"], "agent._target_: is 'stable_baselines3.SAC', was 'stable_baselines3.PPO"),
        (["total_steps=+64", "observation=memory"], "observation: is given with continue_from"),
        (["total_steps=+64", "env.frame_stack=2"], "env.frame_stack: is 2, was 3 in"),
        (["total_steps=+64", "scenario.duration_s=3"], "scenario.duration_s: is 3, was 2.0 in"),
        (["total_steps=+64", "experiment=wan_ppo"], "experiment: is given with continue_from"),
    ],
)
def test_what_must_not_differ_is_refused_by_name(
    options: list[str], says: str, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", f"continue_from={first}", *options, f"output_dir={tmp_path / 'run'}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"bbrgym: {says}")
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_bad_folder_is_one_clear_error(first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut, unfinished = shutil.copytree(first, tmp_path / "cut"), interrupt(tmp_path / "unfinished", 130, asked())
    (cut / "checkpoints" / "last.pt").write_bytes((cut / "checkpoints" / "last.pt").read_bytes()[:-100])
    for folder, says in (
        (tmp_path / "missing", r"continue_from: '.*missing' is not a run folder of bbrgym train"),
        (cut, r"cannot read checkpoint '.*cut/checkpoints/last.pt'"),
        (unfinished, r"continue_from: '.*unfinished' holds a training of 320 steps that is not finished.* resume="),
    ):
        with pytest.raises(bbrgym.ConfigError, match=says):
            train(output_dir=tmp_path / "run", continue_from=folder, total_steps="+64")
        assert not (tmp_path / "run").exists()
    assert main(["train", "total_steps=+64", f"output_dir={tmp_path / 'run'}"]) == 2
    assert "total_steps: is '+64', expected a whole number" in capsys.readouterr().err
