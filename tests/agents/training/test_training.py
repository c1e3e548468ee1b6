# SPDX-License-Identifier: GPL-2.0-only
"""A training: what it leaves behind, that it can be repeated, and what it refuses."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tiny import FLAT, LEARNABLE, SCENARIO, SHORT, asked, curve, interrupt, run, weights

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.training import loop
from bbrgym.agents.training.curve import draw_curve
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import parse_training
from bbrgym.agents.training.train_agent import train
from bbrgym.cli.main import main
from bbrgym.envs.library import load_library, write_library
from bbrgym.envs.observation import FEATURE_LISTS
from bbrgym.errors import TrainingError
from bbrgym.evaluate.agent_entrants import Learned

pytestmark = pytest.mark.usefixtures("undrawn_file")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("trained") / "run")


def test_the_run_folder_holds_the_curve_the_checkpoints_and_what_was_asked_for(trained: Path) -> None:
    summary = json.loads((trained / "summary.json").read_text())
    rows = curve(trained)
    assert rows["step"].to_list() == sorted(set(rows["step"]))
    validations = rows.drop_nulls("validation/score")
    assert validations["step"].to_list() == [0, 128, 224, 320]  # the first steps from each multiple of 100 on
    assert (summary["step"], summary["score"]) == (320, validations["validation/score"][-1])
    assert summary["best_score"] == validations["validation/score"].max()
    assert {"rollout/reward", "train/loss", "train/value_loss"} <= set(rows.columns)
    assert {path.name for path in (trained / "checkpoints").iterdir()} == {"best.pt", "last.pt"}
    assert not list(trained.rglob("*.partial"))
    assert parse_training(TrainingFolder(trained).read_config()) == parse_training(asked())


def test_the_curve_is_drawn_from_the_first_checkpoint_on_with_the_score_to_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BBRGYM_FIGURES")
    drawn = []
    monkeypatch.setattr(loop, "draw_curve", lambda *given: drawn.append(draw_curve(*given)) or drawn[-1])
    interrupt(tmp_path / "run", 64, asked(checkpoint_steps=64))
    assert (tmp_path / "run" / "figures" / "curve.png").read_bytes().startswith(b"\x89PNG")
    upper = drawn[0].axes[0]
    names = ["middle half of the runs", "agent, mean", "to beat: bbq's preset"]
    assert [text.get_text() for text in upper.get_legend().get_texts()] == names
    preset = bbrgym.evaluate(SCENARIO, ["bbq"], world="twin", draws=3, split="validation").group_by("seed").first()
    assert upper.get_lines()[-1].get_ydata()[0] == pytest.approx(preset["score"].mean(), abs=1e-3)


def test_the_same_seed_gives_the_same_bits_and_another_one_others(trained: Path, tmp_path: Path) -> None:
    again, other = run(tmp_path / "again", threads=2), run(tmp_path / "other", seed=2)
    assert weights(again) == weights(trained)
    assert (again / "metrics.parquet").read_bytes() == (trained / "metrics.parquet").read_bytes()
    assert weights(other)[".state.policy.action_net.weight"] != weights(trained)[".state.policy.action_net.weight"]


@pytest.mark.parametrize(("agent", "num_envs"), [("ppo", 3), ("ppo", 5), ("recurrent_ppo", 5), ("torch_ppo", 3)])
def test_any_number_of_environments_will_do(agent: str, num_envs: int, tmp_path: Path) -> None:
    """The last minibatch may be smaller than the others, also a single step: 5 * 5 = 3 * 8 + 1."""
    hyperparameters = {**asked(agent)["agent"], "n_steps": 5, "batch_size": 8}
    summary = train(output_dir=tmp_path / "run", **asked(hyperparameters, num_envs=num_envs, total_steps=50))
    assert summary["step"] >= 50


def test_learning_raises_the_score(tmp_path: Path) -> None:
    agent = {"name": "ppo", "n_steps": 12, "batch_size": 96, "learning_rate": 3e-3, "learning_rate_end": 3e-3}
    run(tmp_path / "run", agent, **LEARNABLE)
    rows = curve(tmp_path / "run").drop_nulls("validation/score")
    assert rows["validation/score"][-1] > rows["validation/score"][0] + 0.1
    rewards = curve(tmp_path / "run")["rollout/reward"].drop_nulls()
    assert rewards[-1] > rewards[0]


# ---- what cannot be -----------------------------------------------------------------------------------

LIBRARY = {"variant": "bbq", "settings": {"one": {"bbq_alpha_us": 3000.0}, "other": {"bbq_alpha_us": 1000.0}}}


@pytest.mark.parametrize("agent", ["ppo", "torch_ppo"])
def test_nan_stops_the_training_and_keeps_the_last_good_checkpoint(agent: str, tmp_path: Path) -> None:
    hyperparameters = {**asked(agent)["agent"], "learning_rate": 1e30, "max_grad_norm": 1e30}
    says = rf"NaN or infinite after \d+ steps of {agent}; the last checkpoint is of step 0"
    with pytest.raises(TrainingError, match=says):
        run(tmp_path / "run", agent=hyperparameters)
    assert curve(tmp_path / "run")["step"].to_list() == [0]
    load_agent(tmp_path / "run", "last")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"observation": 3}, "observation: is 3, expected instant or memory"),
        ({"agent": {"name": "ppo", "learning_rate": "fast"}}, "agent.learning_rate: is 'fast', expected a number"),
        ({"agent": {"name": "ppo", "gamma": 2, "n_steps": 0}}, "agent.gamma: .* <= 1; agent.n_steps: is 0, .* >= 1"),
        ({"agent": {"name": "ppo", "gama": 1, "n_step": 3}}, "agent.gama: .*; agent.n_step: is not a hyperparameter"),
        ({"agent": {"name": "ppo", "hidden": 64}}, "agent.hidden: is 64, expected a list"),
        ({"agent": {"name": "ppo", "initial_std": 0}}, "agent.initial_std: is 0, expected a number > 0"),
        ({"agent": {"name": "ppo", "n_steps": 1}, "num_envs": 1}, "agent: ppo cannot be made: .*greater than 1"),
        ({"total_steps": 31}, "total_steps: is 31, expected at least 32: one rollout takes agent.n_steps = 8 steps"),
        ({"agent": {"_target_": "stable_baselines3.POPO", "name": "ppo"}}, "stable_baselines3 has no class POPO"),
        ({"agent": {"_target_": "bbrgym.agents.base.Constant", "name": "ppo"}}, "expected a class .*Trainer"),
        ({"action": {"tunabels": ["x"]}}, "action.tunabels: is not an option of actions; did you mean tunables"),
        ({"env": {"tunables": ["x"]}}, "env.tunables: is called action.tunables here"),
        ({"env": {"frame_stac": 2}}, "env.frame_stac: is not an argument .*; did you mean frame_stack"),
        ({"total_step": 5}, "total_step: is not a field; did you mean total_steps"),
        (
            {"validation": {"world": "linux"}},
            r"^validation\.world: is 'linux', which runs in real time, expected ns3 or",
        ),
        # of flows with one policy
        *(
            (
                {"agent": name, "env": "multi"},
                rf"agent\.name: is '{name}', expected one of dqn, portfolio, .*, tqc with",
            )
            for name in ("recurrent_ppo", "torch_ppo", "grid", "optuna")
        ),
        ({"env": {"name": "multi", "critic": True}}, "critic: True, allowed is False"),
        ({"env": {"name": "mutli"}}, "env: is 'mutli'; did you mean multi"),
        ({"env": {"reward_scope": "own"}}, "env.reward_scope: is not an argument of the environments"),
        ({"env": "multi", "rollouts": "ray"}, "rollouts.name: is 'ray', expected local with env=multi"),
        # of Ray
        ({"rollouts": "rey"}, "rollouts: is 'rey'; did you mean ray"),
        ({"rollouts": {"name": "ray", "actors": 0}}, "rollouts.actors: is 0"),
        ({"rollouts": {"name": "ray", "actors": 8}}, "rollouts.actors: is 8, expected at most num_envs, 4"),
        ({"rollouts": {"name": "ray", "actor": 1}}, "rollouts.actor: "),
        ({"rollouts": "ray", "agent": "grid"}, "rollouts.name: is 'ray', expected local with agent=grid"),
        # of searches, whose settings take three runs of four control intervals
        ({"agent": {"name": "optuna", "draws": 3}, "total_steps": 6}, "total_steps: is 6, expected at least 12"),
        ({"agent": {"name": "grid", "draws": 3, "levels": 1}}, "agent.levels: is 1, expected a number >= 2"),
        ({"agent": {"name": "grid", "draws": 3, "levels": 9}}, "9 levels of 8 tunables"),
        *(
            ({"agent": {"name": name, "draws": 3}, "action": action}, f"{says}.* with agent={name}: it sets whole")
            for name in ("grid", "optuna")
            for action, says in (
                ({"kind": "library", "library": LIBRARY}, "'kind': 'library', .* expected absolute ones"),
                ({"kind": "relative"}, "'kind': 'relative'.* expected absolute ones"),
                ({"hold_intervals": 2}, "'hold_intervals': 2.* expected absolute ones"),
            )
        ),
        # of networks of no machine's size
        *(
            ({"agent": {"name": name, "hidden": hidden}}, rf"^agent\.hidden{says}")
            for name in ("torch_ppo", "ppo")
            for hidden, says in (
                ([1e9], r"\[0\]: is 1000000000.0, expected a number <= 65536"),
                ([0], r"\[0\]: is 0"),
                ([65_536, 65_536], r": is \[65536, 65536\], which has 4.29e\+09 weights"),
                ([1] * 100, ": "),
                ([1e999], r"\[0\]: "),
            )
        ),
        ({"agent": {"name": "ppo", "policy_kwargs": {"net_arch": [1e9]}}}, r"^agent\."),
        ({"agent": {"name": "ppo", "policy_kwargs": {"net_arch": {"pi": [60_000, 60_000]}}}}, r"^agent\."),
        ({"agent": {"name": "recurrent_ppo", "policy_kwargs": {"lstm_hidden_size": 100_000}}}, r"^agent\."),
        # of plain PyTorch
        ({"agent": {"name": "torch_ppo", "hidden": []}}, r"agent.hidden: is \[\], expected at least 1"),
        ({"agent": "torch_ppo", "action": {"levels": 3}}, "levels: .* MultiDiscrete.*, expected continuous"),
        # of draws
        ({"draws": {"by_cots": True}}, "draws.by_cots: is not a field; did you mean by_cost"),
        ({"draws": {"by_cost": True}, "scenario": "steady"}, "draws.by_cost: is True, expected false: one scenario"),
        (
            {"draws": {"by_cost": True}, "agent": {"name": "grid", "levels": 2}, "action": {"tunables": ["bbq_beta"]}},
            "draws: is {'by_cost': True}, expected the default with agent=grid",
        ),
        # of algorithms of Stable-Baselines3
        ({"agent": "dqn", "action": {}}, "agent: dqn cannot be made: .*Box"),
        ({"agent": "dqn", "action": {"levels": 3, "tunables": ["bbr_up_gain"]}}, "dqn cannot be made: .*MultiDiscrete"),
        ({"agent": "sac", "env": {"critic": True}}, "env.critic: is true, expected false with SAC: only ppo has such"),
        (
            {"agent": {"name": "dqn", "start_at_default": True}, "action": FLAT},
            "agent.start_at_default: is true, expected false: .* no mean",
        ),
        ({"agent": {"name": "ppo", "acts": "sample", "use_sde": True}}, "agent.acts: is 'sample', expected 'mean'"),
        ({"agent": {"name": "ppo", "acts": "often"}}, "agent.acts: is 'often', expected one of 'mean' or 'sample'"),
        *(
            ({"agent": {"name": "ppo", "policy_kwargs": arguments}}, says)
            for arguments, says in (
                ({"net_arc": [8]}, "agent: ppo cannot be made: .*net_arc"),
                ({"activation_fn": "Tan"}, "activation_fn: is 'torch.nn.Tan': module torch.nn has no class"),
                ({"optimizer_class": 3}, "policy_kwargs.optimizer_class: is 3, expected the import path"),
                (
                    {"optimizer_class": "torch.nn.Linear"},
                    "'torch.nn.Linear', expected a class derived from torch.optim",
                ),
            )
        ),
        *(
            ({"agent": {"name": "other", "_target_": target, **options}}, says)
            for target, options, says in (
                ("sb3_contrib.ARS", {}, "agent._target_: is 'sb3_contrib.*ARS', expected an algorithm derived from"),
                ("stable_baselines3.A2C", {"policy": "MlpPolcy"}, "agent.policy: is 'MlpPolcy'; did you mean MlpP"),
                (
                    "stable_baselines3.A2C",
                    {"learning_rate_end": 0.0},
                    "agent.learning_rate_end: is given without agent.learning_rate, from which it falls",
                ),
                ("torch.nn.Linear", {}, "agent._target_: is 'torch.nn.Linear', .* from bbrgym.* or stable_base"),
            )
        ),
    ],
)
def test_a_wrong_setting_is_one_clear_error(settings: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says) as caught:
        train(output_dir=tmp_path / "run", **asked(**settings))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_folder_is_left_as_it_was_found(tmp_path: Path) -> None:
    wrong = asked(agent={"name": "ppo", "n_steps": 1}, num_envs=1, logger="tensorboard")
    with pytest.raises(bbrgym.ConfigError, match="cannot be made"):
        train(output_dir=tmp_path, **wrong)
    assert list(tmp_path.iterdir()) == []
    folder = run(tmp_path / "run", total_steps=32)
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for how in ({"resume": True}, {}):
        with pytest.raises(bbrgym.ConfigError, match="output_dir"):
            train(output_dir=folder, **asked(seed=9), **how)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == kept


# ---- the command --------------------------------------------------------------------------------------


def test_the_command_trains_and_says_what_came_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    hyperparameters = ("agent.n_steps=2", "agent.batch_size=4", "agent.n_epochs=1", "agent.use_sde=false")
    assert main(["train", *SHORT, *hyperparameters, "total_steps=8", f"output_dir={folder}"]) == 0
    out, err = capsys.readouterr()
    assert re.findall(r"^(\d+/8) steps  .*score -?\d", err, re.MULTILINE) == ["0/8", "8/8"]  # it is no terminal
    assert "ppo bbq on steady, 8 steps: validation score" in out
    assert f"run folder: {folder}" in out
    assert curve(folder).filter(pl.col("step") == 8)["validation/score"].null_count() == 0
    agent, arguments = load_agent(folder)
    assert (agent.name, arguments["variant"], arguments["max_tuned"]) == ("ppo", "bbq", 1)


@pytest.mark.parametrize("env", [["env=tune"], ["env=multi", "env.reward_scope=own"]])
def test_an_agent_records_the_features_that_it_was_trained_with(env: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    small = ("agent.n_steps=2", "agent.batch_size=4", "agent.n_epochs=1", "total_steps=8")
    assert main(["train", *SHORT, *small, *env, "observation=memory", f"output_dir={folder}"]) == 0
    agent, arguments = load_agent(folder)
    assert tuple(arguments["features"]) == FEATURE_LISTS["memory"]
    assert (arguments["frame_stack"], arguments["control_interval_s"]) == (1, 0.5)
    rows = bbrgym.evaluate("steady", [], agent=Learned("ppo", "bbq", "ppo bbq", arguments, agent, ""), world="twin")
    assert np.isfinite(rows["score"].to_numpy()).all()


@pytest.mark.parametrize("agent", ["ppo", "dqn", "recurrent_ppo"])
def test_an_agent_keeps_the_library_that_it_chooses_from(agent: str, tmp_path: Path) -> None:
    library, folder = tmp_path / "library.yaml", tmp_path / "run"
    settings = {"small": {"bbr_cwnd_gain": 1.2}, "preset": {}, "large": {"bbr_cwnd_gain": 2.5}}
    write_library(library, load_library({"variant": "bbq", "settings": settings}))
    run(folder, agent=agent, action={"kind": "library", "library": str(library)}, total_steps=64)
    library.unlink()
    loaded, arguments = load_agent(folder)
    assert load_library(arguments["library"]).settings == settings
    entrant = Learned(agent, "bbq", f"{agent} bbq", arguments, loaded, "")
    rows = bbrgym.evaluate("steady", [], agent=entrant, world="twin")
    assert np.isfinite(rows["score"].to_numpy()).all()


def test_an_observation_is_completed_by_its_file() -> None:
    memory = parse_training(asked(observation="memory"))
    assert (tuple(memory.env["features"]), memory.env["frame_stack"]) == (FEATURE_LISTS["memory"], 1)
    assert parse_training(asked(env={"name": "tune", "frame_stack": 2})).env["frame_stack"] == 2
    assert parse_training(memory.plain()) == memory


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["action=library"], "library: None with action_kind 'library', allowed is one with 'library' alone"),
        (["action=library", "action.library=/none/such"], "cannot read '/none/such'"),
        (["agent=oracle"], "; fixed, oracle and random need no training: bbrgym evaluate takes them"),
        (["agent.name=[1]"], "agent.name: is [1], expected letters, digits"),
        (["env=null"], "env: is None; allowed are multi, tune"),
        (["validation.draw=2"], "validation.draw: is not an option; did you mean validation.draws"),
        (["world=[ns3,twin]"], "world: is "),
        (["resume=maybe/not", "seed=3"], "resume: is 'maybe/not', a run folder with its own options"),
    ],
)
def test_a_wrong_option_is_one_clear_line(
    overrides: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *SHORT, *overrides]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.out == ""
    assert not list(tmp_path.rglob("*.yaml"))
