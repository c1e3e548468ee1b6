# SPDX-License-Identifier: GPL-2.0-only
"""What the agents of Stable-Baselines3 start with, see and become, as models in zip files too."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from repository import ROOT
from stable_baselines3.common.callbacks import BaseCallback
from tiny import ACTIONS, AGENTS, FLAT, SCENARIO, SHORT, asked, curve, run, weights
from torch import nn

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.network_agents import policy_of
from bbrgym.agents.networks import SamplingNetwork, Sb3Network
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.cli.main import main
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.evaluate.agent_entrants import Learned

pytestmark = pytest.mark.usefixtures("undrawn_file")

BRIEF: dict[str, Any] = {"total_steps": 32, "checkpoint_steps": 1000}  # one rollout


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the run folder of a brief training of an agent, once."""
    return functools.cache(lambda agent: run(tmp_path_factory.mktemp("brief") / "run", agent, **BRIEF))


def first_seen(arguments: dict[str, Any]) -> tuple[Any, Any]:
    """What an agent observes first in its environment, [1, numbers], and the environment's default action."""
    batch = TuneBatch(1, Options(**{**arguments, "world": "twin"}))
    seen = batch.reset([0], [1])
    batch.episodes.close()
    return seen, batch.action.default


def first_action(folder: Path) -> tuple[Any, Any]:
    """What a loaded agent does first, and the default."""
    agent, arguments = load_agent(folder, "last")
    seen, default = first_seen(arguments)
    return agent.make_policy([1]).act(seen, np.ones(1, np.bool_))[0], default


@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_loaded_scores_in_an_evaluation_what_was_validated(agent: str, brief: Callable[[str], Path]) -> None:
    folder = brief(agent)
    loaded, arguments = load_agent(folder, "last")
    assert loaded.name == agent
    entrant = Learned(agent, "bbq", f"{agent} bbq", arguments, loaded, "")
    rows = bbrgym.evaluate(SCENARIO, [], agent=entrant, world="twin", draws=3, split="validation")
    validated = pl.read_parquet(folder / "validation.parquet")
    expected = validated.filter(pl.col("step") == validated["step"].max())["score"].to_list()
    assert rows.unique("seed", maintain_order=True)["score"].to_list() == expected


@pytest.mark.parametrize("agent", AGENTS)
def test_it_does_the_same_in_whatever_company(agent: str, brief: Callable[[str], Path]) -> None:
    """To the last bit, and for as long as it remembers."""
    loaded, arguments = load_agent(brief(agent))
    width = first_seen(arguments)[0].shape[1]
    rng = np.random.default_rng(1)
    policies, alone = loaded.make_policy(range(7)), [loaded.make_policy([index]) for index in range(7)]
    for step in range(4):
        seen, episode_starts = rng.random((7, width), np.float32), np.full(7, step == 0)
        together = policies.act(seen, episode_starts)
        for index in range(7):
            one = slice(index, index + 1)
            assert np.array_equal(alone[index].act(seen[one], episode_starts[one]), together[one])


@pytest.mark.parametrize(("width", "hidden"), [(300, 128), (61, 33), (7, 16)])
def test_several_environments_act_each_as_alone(width: int, hidden: int) -> None:
    torch.manual_seed(1)
    layers = nn.Sequential(nn.Linear(width, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.Tanh())
    network = SamplingNetwork(nn.Sequential(layers, nn.Linear(hidden, 3)), torch.ones(3))
    seen, starts = np.random.default_rng(2).normal(size=(64, width)).astype(np.float32), np.ones(64, np.bool_)
    together = policy_of(network, range(64)).act(seen, starts)
    alone = [policy_of(network, [seed]).act(seen[seed : seed + 1].copy(), starts[:1]) for seed in range(64)]
    assert np.array_equal(together, np.concatenate(alone))


@pytest.mark.parametrize("agent", ["ppo", "recurrent_ppo", "sac", "tqc", "torch_ppo"])
def test_training_starts_with_the_variants_own_setting(agent: str, brief: Callable[[str], Path]) -> None:
    action, default = first_action(brief(agent))
    np.testing.assert_allclose(action, np.clip(default, -0.95, 0.95), atol=0.1)


@pytest.mark.parametrize("action", [{"levels": 5}, FLAT, {"kind": "relative", "levels": 3}])
def test_discrete_agents_start_with_the_variants_own_setting(action: dict[str, Any], tmp_path: Path) -> None:
    run(tmp_path / "run", **BRIEF, action=action)
    taken, default = first_action(tmp_path / "run")
    assert np.array_equal(taken, default)


def test_the_critic_sees_more_and_the_actor_does_not(tmp_path: Path) -> None:
    run(tmp_path / "run", env={"critic": True})
    agent, arguments = load_agent(tmp_path / "run")
    assert arguments["critic"] is False
    batch = TuneBatch(1, Options(**{**arguments, "critic": True, "world": "twin"}))
    seen = {name: space.shape[0] for name, space in batch.observation_space.items()}
    layers = {name: len(value) for name, value in weights(tmp_path / "run").items() if name.endswith("net.0.weight")}
    floats = 64 * np.dtype(np.float32).itemsize
    assert layers[".state.policy.mlp_extractor.policy_net.0.weight"] == floats * seen["actor"]
    assert layers[".state.policy.mlp_extractor.value_net.0.weight"] == floats * (seen["actor"] + seen["critic"])
    both = batch.reset([0], [1])
    actions = [agent.policy.predict({**both, "critic": x * both["critic"]}, deterministic=True)[0] for x in (1, 0)]
    assert np.array_equal(actions[0], actions[1])
    assert np.array_equal(actions[0][0], agent.make_policy([1]).act(both["actor"], np.ones(1, np.bool_))[0])
    batch.episodes.close()


@pytest.mark.parametrize(
    ("acts", "hold_intervals", "is_sampling"),
    [(None, 1, True), (None, 2, False), ("sample", 2, True), ("mean", 1, False)],
)
def test_a_policy_samples_unless_its_actions_are_held_or_the_mean_is_asked_for(
    acts: str | None, hold_intervals: int, is_sampling: bool, tmp_path: Path
) -> None:
    hyperparameters = {"name": "ppo", **AGENTS["ppo"], "acts": acts, "initial_std": 0.3, "learning_rate": 1e-9}
    run(tmp_path / "run", hyperparameters, **{**BRIEF, "action": {"hold_intervals": hold_intervals}})
    agent, _ = load_agent(tmp_path / "run")
    assert isinstance(agent.network(), SamplingNetwork) == is_sampling
    assert not is_sampling or agent.network()._std.numpy() == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_noise_that_depends_on_what_is_seen_is_left_out(agent: str, tmp_path: Path) -> None:
    run(tmp_path / "run", {"name": agent, **AGENTS[agent], "use_sde": True}, **BRIEF)
    loaded, arguments = load_agent(tmp_path / "run")
    seen, _ = first_seen(arguments)
    expected, _ = loaded.policy.predict(seen, deterministic=True)
    np.testing.assert_allclose(loaded.make_policy([1]).act(seen, np.ones(1, np.bool_)), expected, atol=1e-5)


def test_training_starts_where_a_search_ended(tmp_path: Path) -> None:
    train(output_dir=tmp_path / "search", **asked({"name": "optuna", "draws": 2}, total_steps=200))
    found, _ = load_agent(tmp_path / "search")
    hyperparameters = {"name": "ppo", **AGENTS["ppo"], "start_at": str(tmp_path / "search"), "start_at_default": False}
    run(tmp_path / "run", hyperparameters, **BRIEF)
    action, _ = first_action(tmp_path / "run")
    expected = found.make_policy([1]).act(None, np.ones(1, np.bool_))[0]
    np.testing.assert_allclose(action, expected, atol=0.1)
    assert not np.allclose(expected, 0.0, atol=0.1)  # where it would have started
    with pytest.raises(bbrgym.ConfigError, match=r"agent\.start_at: .* expected \['bbq_alpha_us'\]"):
        run(tmp_path / "other", hyperparameters, **{**BRIEF, "action": {"tunables": ["bbq_alpha_us"]}})


# ---- callbacks of the caller's ------------------------------------------------------------------------


class Counting(BaseCallback):
    """Counts its calls, records a measurement and a NaN, and stops after some steps."""

    def __init__(self, last: int = 2**31) -> None:
        super().__init__()
        self.last = last
        self.started = self.ended = self.steps = 0

    def _on_training_start(self) -> None:
        self.started += 1

    def _on_step(self) -> bool:
        self.steps += 1
        self.logger.record("mine/steps", self.steps)
        self.logger.record("mine/unknown", float("nan"))
        self.logger.record("mine/note", "a text")
        return self.model.num_timesteps < self.last

    def _on_training_end(self) -> None:
        self.ended += 1


@pytest.mark.parametrize("agent", ["ppo", pytest.param("sac", marks=pytest.mark.slow)])
def test_a_callback_is_called_and_changes_no_weight(agent: str, tmp_path: Path) -> None:
    counting, calls = Counting(), []

    def called(*_: Any) -> bool:
        calls.append(1)
        return True

    run(tmp_path / "without", agent)
    train(output_dir=tmp_path / "with", callback=[counting, called], **asked(agent))
    assert (counting.started, counting.ended) == (1, 1)
    assert counting.steps == len(calls) == 320 // 4
    assert weights(tmp_path / "with") == weights(tmp_path / "without")
    recorded = curve(tmp_path / "with")
    assert recorded["mine/steps"].drop_nulls()[-1] == counting.steps
    assert not {"mine/unknown", "mine/note"} & set(recorded.columns)


def test_one_that_returns_false_ends_the_training_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    early = train(output_dir=folder, callback=Counting(100), **asked())
    assert 100 <= early["step"] < 320
    counting = Counting()
    whole = bbrgym.resume_training(folder, callback=counting)
    assert whole["step"] >= 320
    assert counting.steps == (whole["step"] - early["step"]) // 4


@pytest.mark.parametrize(
    ("agent", "callback", "says"),
    [
        ("torch_ppo", lambda *_: True, "callback: is .*, expected none with agent=torch_ppo: only agents of Stable"),
        ("ppo", "eval", "callback: is 'eval', expected a callback of Stable-Baselines3, a function, or a list"),
        ("ppo", [Counting], "callback: is .*Counting.*, expected a callback"),
    ],
)
def test_other_callbacks_are_refused_before_anything_is_written(
    agent: str, callback: Any, says: str, tmp_path: Path
) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says):
        train(output_dir=tmp_path / "run", callback=callback, **asked(agent))
    assert not (tmp_path / "run").exists()


def test_a_class_stands_for_its_name(tmp_path: Path) -> None:
    agent = {"name": "ppo", **AGENTS["ppo"], "activation": "relu", "n_steps": np.int64(8)}
    agent["policy_kwargs"] = {"optimizer_class": torch.optim.SGD}
    agent["hidden"] = np.array([64])
    run(tmp_path / "run", agent, total_steps=np.int64(32))
    kept = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text(encoding="utf-8"))["agent"]
    assert kept["policy_kwargs"] == {"optimizer_class": "torch.optim.sgd.SGD"}
    assert kept["hidden"] == [64]
    loaded, _ = load_agent(tmp_path / "run", "last")
    kinds = [type(layer) for layer in loaded.policy.mlp_extractor.policy_net]
    assert kinds == [torch.nn.Linear, torch.nn.ReLU]


# ---- their zip files ----------------------------------------------------------------------------------


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
def acted(brief: Callable[[str], Path]) -> dict[str, tuple[Any, Any]]:
    """Of each algorithm, actions of its model in a process without bbrgym, and the agent's of the same."""
    asked_of, taken = {}, {}
    for agent, algorithm in ALGORITHMS.items():
        loaded, arguments = load_agent(brief(agent))
        seen = np.random.default_rng(1).random((5, first_seen(arguments)[0].shape[1]), np.float32)
        asked_of[agent] = (str(brief(agent) / "model.zip"), algorithm, seen.tolist())
        taken[agent] = loaded.make_policy(range(5)).act(seen, np.ones(5, np.bool_))
    done = subprocess.run(
        [sys.executable, "-c", LOADING],
        input=json.dumps(asked_of),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        cwd=brief("ppo"),
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


def test_a_device_that_is_not_there_is_one_clear_error(brief: Callable[[str], Path], tmp_path: Path) -> None:
    hyperparameters = {"name": "ppo", **AGENTS["ppo"]}
    here = run(tmp_path / "auto", {**hyperparameters, "device": "auto"}, **BRIEF)
    if torch.cuda.is_available():
        run(tmp_path / "cuda", {**hyperparameters, "device": "cuda"}, **BRIEF)
        return
    assert weights(here) == weights(brief("ppo"))
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
