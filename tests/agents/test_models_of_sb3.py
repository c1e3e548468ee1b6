# SPDX-License-Identifier: GPL-2.0-only
"""Trainings as models of Stable-Baselines3: their zip file, the policy's arguments, algorithms of your own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import polars as pl
import pytest
from repository import ROOT
from tiny import ACTIONS, AGENTS, SHORT, curve, run, weights

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.networks import Sb3Network
from bbrgym.agents.training.train_agent import resume_training
from bbrgym.cli.main import main
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch

pytestmark = pytest.mark.usefixtures("undrawn_file")

BRIEF: dict[str, Any] = {"total_steps": 32, "checkpoint_steps": 1000}  # one rollout
ALGORITHMS = {"ppo": "PPO", "recurrent_ppo": "RecurrentPPO", "sac": "SAC", "tqc": "TQC", "dqn": "DQN"}
LOADING = """
import json, sys
import numpy as np
from stable_baselines3 import DQN, PPO, SAC
from sb3_contrib import TQC, RecurrentPPO

CLASSES = {"PPO": PPO, "RecurrentPPO": RecurrentPPO, "SAC": SAC, "TQC": TQC, "DQN": DQN}
actions = {}
for name, (path, algorithm, observations) in json.load(sys.stdin).items():
    model = CLASSES[algorithm].load(path)
    seen = np.array(observations, np.float32)
    actions[name] = model.predict(seen, deterministic=True)[0].tolist()
assert "bbrgym" not in sys.modules
print(json.dumps(actions))
"""


@pytest.fixture(scope="module")
def acted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """Of each algorithm, actions of its model in a process without bbrgym, and the agent's of the same."""
    folder = tmp_path_factory.mktemp("models")
    asked_of, taken = {}, {}
    for agent, algorithm in ALGORITHMS.items():
        run(folder / agent, agent, **BRIEF)
        loaded, arguments = load_agent(folder / agent)
        (width,) = TuneBatch(1, Options(**{**arguments, "world": "twin"})).observation_space.shape
        seen = np.random.default_rng(1).random((5, width), np.float32)
        asked_of[agent] = (str(folder / agent / "model.zip"), algorithm, seen.tolist())
        taken[agent] = loaded.make_policy(range(5)).act(seen, np.ones(5, np.bool_))
    done = subprocess.run(
        [sys.executable, "-c", LOADING],
        input=json.dumps(asked_of),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return {agent: (actions, taken[agent]) for agent, actions in json.loads(done.stdout).items()}


@pytest.mark.parametrize("agent", ALGORITHMS)
def test_the_zip_opens_without_bbrgym_and_acts_as_the_run(agent: str, acted: dict[str, tuple[Any, Any]]) -> None:
    actions, taken = acted[agent]
    np.testing.assert_allclose(actions, taken, atol=1e-6)


def test_the_zip_of_a_policy_for_all_flows_needs_no_environments(tmp_path: Path) -> None:
    """Nor the buffers of flows, which do."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.buffers import RolloutBuffer

    run(tmp_path / "run", env={"name": "multi"}, **BRIEF)
    model = PPO.load(tmp_path / "run" / "model.zip")
    agent, _ = load_agent(tmp_path / "run")
    seen = np.random.default_rng(1).random((3, *model.observation_space.shape), np.float32)
    taken = agent.make_policy(range(3)).act(seen, np.ones(3, np.bool_))
    np.testing.assert_allclose(model.predict(seen, deterministic=True)[0], taken, atol=1e-6)
    assert model.rollout_buffer_class is RolloutBuffer


@pytest.mark.parametrize("critic", [False, True])
def test_an_evaluation_takes_the_zip_with_the_run_s_environment(critic: bool, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", scenario="steady", total_steps=64, env={"frame_stack": 2, "critic": critic})
    agents = [str(folder), str(folder / "model.zip")]
    with pytest.raises(bbrgym.ConfigError, match=r"model.zip' holds pickles.* trust=true if you trust it"):
        bbrgym.evaluate("steady", ["bbq"], world="twin", agent=agents)
    rows = bbrgym.evaluate("steady", ["bbq"], world="twin", trust=True, agent=agents)
    scores = rows.filter(pl.col("agent") != "fixed")
    assert scores["variant"].unique().to_list() == ["bbq"]
    assert scores["score"][0] == pytest.approx(scores["score"][1], abs=1e-3)


def test_a_model_of_other_observations_is_one_clear_error(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", scenario="steady", env={"frame_stack": 2}, **BRIEF)
    with ZipFile(folder / "model.zip") as made, ZipFile(tmp_path / "plain.zip", "w") as plain:
        for name in set(made.namelist()) - {"bbrgym.json"}:
            plain.writestr(name, made.read(name))
    with pytest.raises(bbrgym.ConfigError, match=r"plain.zip' acts on observations of shape \(.*\), expected \("):
        bbrgym.evaluate("steady", ["bbq"], world="twin", trust=True, agent=str(tmp_path / "plain.zip"))


# ---- arguments of the policy and the device -----------------------------------------------------------


def test_arguments_of_the_policy_are_the_users(tmp_path: Path) -> None:
    own = {"net_arch": {"pi": [12], "vf": [20]}, "activation_fn": "GELU", "optimizer_class": "AdamW"}
    folder = run(tmp_path / "run", {"name": "ppo", **AGENTS["ppo"], "policy_kwargs": own}, **BRIEF)
    agent, _ = load_agent(folder)
    layers = [type(layer).__name__ for layer in agent.policy.mlp_extractor.policy_net]
    assert layers == ["Linear", "GELU"]
    assert len(weights(folder)[".state.policy.mlp_extractor.value_net.0.bias"]) == 20 * 4
    assert ".state.policy.optimizer.param_groups.0.weight_decay" in weights(folder)
    assert weights(folder)[".state.policy.optimizer.param_groups.0.weight_decay"] == b"0.01"  # AdamW's own


EXTRACTOR = """
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

class Squeezed(BaseFeaturesExtractor):
    def __init__(self, space, width=4):
        super().__init__(space, width)
        self.layer = nn.Linear(space.shape[0], width)

    def forward(self, observations):
        return self.layer(observations).tanh()
"""


def test_features_of_one_s_own_are_made_where_the_agent_acts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_squeezed.py").write_text(EXTRACTOR)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = {"features_extractor_class": "my_squeezed.Squeezed", "features_extractor_kwargs": {"width": 6}}
    hyperparameters = {"name": "ppo", **AGENTS["ppo"], "policy_kwargs": own}
    with pytest.raises(bbrgym.ConfigError, match=r"features_extractor_class: is .* BBRGYM_TRUSTED_MODULES=my_squeezed"):
        run(tmp_path / "run", hyperparameters, **BRIEF)
    monkeypatch.setenv("BBRGYM_TRUSTED_MODULES", "my_squeezed")
    folder = run(tmp_path / "run", hyperparameters, **BRIEF)
    agent, _ = load_agent(folder)
    seen = np.random.default_rng(1).random((2, *agent.policy.observation_space.shape), np.float32)
    taken = agent.make_policy([1, 2]).act(seen, np.ones(2, np.bool_))
    np.testing.assert_allclose(taken, agent.policy.predict(seen, deterministic=True)[0], atol=1e-6)
    monkeypatch.delenv("BBRGYM_TRUSTED_MODULES")
    del sys.modules["my_squeezed"]
    with pytest.raises(bbrgym.ConfigError, match="BBRGYM_TRUSTED_MODULES"):
        load_agent(folder)


def test_a_device_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    import torch

    hyperparameters = {"name": "ppo", **AGENTS["ppo"]}
    here = run(tmp_path / "auto", {**hyperparameters, "device": "auto"}, **BRIEF)
    if torch.cuda.is_available():
        run(tmp_path / "cuda", {**hyperparameters, "device": "cuda"}, **BRIEF)
        return
    assert weights(here) == weights(run(tmp_path / "cpu", hyperparameters, **BRIEF))
    with pytest.raises(bbrgym.ConfigError, match=r"agent.device: is 'cuda', but PyTorch finds no such device here"):
        run(tmp_path / "cuda", {**hyperparameters, "device": "cuda"}, **BRIEF)
    assert not (tmp_path / "cuda").exists()


# ---- algorithms of your own --------------------------------------------------------------------------

EXAMPLE = ROOT / "examples" / "own_algorithm"


def test_the_example_of_an_algorithm_trains_and_evaluates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    folder = tmp_path / "run"
    own = ["--config-dir", str(EXAMPLE / "conf"), "agent=clipped_value", "agent.n_steps=8", "agent.batch_size=8"]
    assert main(["train", *SHORT, *own, "total_steps=32", f"output_dir={folder}"]) == 0, capsys.readouterr().err
    assert json.loads((folder / "summary.json").read_text())["agent"] == "clipped_value"
    assert "train/largest_advantage" in curve(folder).columns  # which only this algorithm measures
    assert resume_training(folder)["step"] == 32
    rows = bbrgym.evaluate("steady", ["bbq"], agent=str(folder), world="twin")
    assert rows["agent"].unique(maintain_order=True).to_list() == ["fixed", "clipped_value"]
    monkeypatch.delitem(sys.modules, "clipped_value_ppo")
    with pytest.raises(bbrgym.ConfigError, match="BBRGYM_TRUSTED_MODULES=clipped_value_ppo"):
        load_agent(folder)


OTHERS = {
    "stable_baselines3.A2C": {"n_steps": 8},
    "stable_baselines3.TD3": {**AGENTS["sac"], "start_at_default": True},
    "sb3_contrib.CrossQ": {**AGENTS["sac"]},
    "sb3_contrib.TRPO": {"n_steps": 8, "batch_size": 32},
    "sb3_contrib.QRDQN": {**AGENTS["dqn"]},
}


@pytest.mark.parametrize("target", OTHERS)
def test_flows_share_a_policy_of_other_algorithms_and_act_by_it(target: str, tmp_path: Path) -> None:
    action = ACTIONS["dqn"] if target.endswith("DQN") else {}
    agent = {"_target_": target, "name": "other", **OTHERS[target]}
    folder = run(tmp_path / "run", agent, action=action, env={"name": "multi"}, total_steps=96)
    agent, _ = load_agent(folder)
    assert agent.is_per_flow
    seen = np.random.default_rng(1).random((4, *agent.policy.observation_space.shape), np.float32)
    taken = agent.make_policy(range(4)).act(seen, np.ones(4, np.bool_))
    np.testing.assert_allclose(taken, agent.policy.predict(seen, deterministic=True)[0], atol=1e-6)
    assert isinstance(agent.network(), Sb3Network) == (target in ("stable_baselines3.TD3", "sb3_contrib.QRDQN"))
