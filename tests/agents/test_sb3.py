# SPDX-License-Identifier: GPL-2.0-only
"""What the agents of Stable-Baselines3 start with, see and become."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from stable_baselines3.common.callbacks import BaseCallback
from tiny import AGENTS, FLAT, SCENARIO, asked, curve, run, weights

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.networks import SamplingNetwork
from bbrgym.agents.training.train_agent import train
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
    batch.close()
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
    batch.close()


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
