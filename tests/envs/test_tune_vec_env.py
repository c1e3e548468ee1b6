# SPDX-License-Identifier: GPL-2.0-only
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from vectors import Crowds, drawn, scenario

import bbrgym

pytest.importorskip("stable_baselines3", reason="what is tested is made for it")
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan, VecMonitor, VecNormalize

from bbrgym.envs.tune_vec_env import TuneVecEnv


@pytest.fixture
def make():
    """Makes vectors in the twin and closes them."""
    made = []

    def make_one(num_envs=3, **options):
        made.append(TuneVecEnv(num_envs, **{"world": "twin", "scenario": scenario(0.5), **options}))
        return made[-1]

    yield make_one
    for envs in made:
        envs.close()


def assert_same_info(seen, expected):
    assert seen.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert seen[name].tobytes() == value.tobytes()
            assert seen[name].dtype == value.dtype
        else:
            assert seen[name] == value


@pytest.mark.parametrize("full_infos", [True, False])
@pytest.mark.parametrize("third", [drawn, Crowds()], ids=["drawn", "crowds"])
def test_it_is_sb3s_own_vector_of_single_environments(make, full_infos, third):
    scenarios = [scenario(0.5), scenario(0.8, others=3), third]
    ours = make(3, scenario=scenarios, stack=2, full_infos=full_infos)
    options = {"world": "twin", "stack": 2, "max_learners": 2 if third is drawn else 4}
    theirs = DummyVecEnv(
        [lambda each=each: gymnasium.make("bbrgym/Tune-v0", scenario=each, **options) for each in scenarios]
    )
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    rng = np.random.default_rng(1)
    for seed in (4, None):
        if seed is not None:
            assert ours.seed(seed) == theirs.seed(seed)
        assert ours.reset().tobytes() == theirs.reset().tobytes()
        for _ in range(20):
            actions = rng.uniform(-1, 1, (3, *ours.action_space.shape)).astype(np.float32)
            seen, expected = ours.step(actions), theirs.step(actions)
            for one, other in zip(seen[:3], expected[:3], strict=True):
                assert (one.tobytes(), one.dtype, one.shape) == (other.tobytes(), other.dtype, other.shape)
            for info, other in zip(seen[3], expected[3], strict=True):
                if full_infos or "terminal_observation" in other:
                    assert_same_info(info, other)
                else:
                    assert info == {"TimeLimit.truncated": False}
            for info, other in zip(ours.reset_infos, theirs.reset_infos, strict=True):
                assert_same_info(info, other)
    theirs.close()


def test_the_end_of_a_run_is_a_truncation(make):
    envs = make(2)
    envs.reset()
    for _ in range(5):
        observations, _, done, infos = envs.step(np.zeros((2, 9), np.float32))
    assert done.all()
    for observation, info in zip(observations, infos, strict=True):
        assert info["TimeLimit.truncated"]
        assert info["now_s"] == pytest.approx(0.5)
        assert info["terminal_observation"].shape == observation.shape
        assert not np.array_equal(info["terminal_observation"], observation)
        assert set(info["reward_terms"]) == {"throughput", "delay", "loss", "fairness", "change"}


def test_a_seed_repeats_everything(make):
    def play(seed):
        envs = make(scenario=drawn)
        envs.seed(seed)
        seen = [envs.reset()]
        for _ in range(12):
            seen += envs.step(np.zeros((3, 9), np.float32))[:2]
        return [each.tobytes() for each in seen]

    first = play(3)
    assert play(3) == first
    assert play(4) != first


def test_a_critic_s_observations_are_those_of_single_environments(make):
    ours = make(2, critic=True, stack=2)
    theirs = DummyVecEnv(
        [lambda: gymnasium.make("bbrgym/Tune-v0", scenario=scenario(0.5), world="twin", stack=2, critic=True)] * 2
    )
    assert ours.observation_space == theirs.observation_space
    for envs in (ours, theirs):
        envs.seed(3)
    seen, expected = ours.reset(), theirs.reset()
    for _ in range(12):
        for name in ("actor", "critic"):
            assert (seen[name].tobytes(), seen[name].shape) == (expected[name].tobytes(), expected[name].shape)
        actions = np.random.default_rng(1).uniform(-1, 1, (2, *ours.action_space.shape)).astype(np.float32)
        seen, _, done, infos = ours.step(actions)
        expected, *_, others = theirs.step(actions)
        for info, other in zip(infos, others, strict=True):
            if done.any():
                last, same = info["terminal_observation"], other["terminal_observation"]
                assert {name: last[name].tobytes() for name in last} == {name: same[name].tobytes() for name in same}
    theirs.close()


def test_ppo_takes_a_critic_s_observations(make):
    model = PPO("MultiInputPolicy", make(2, critic=True), n_steps=8, batch_size=16, n_epochs=1, seed=1)
    model.learn(16)


def test_dqn_takes_flat_actions(make):
    envs = make(2, tunables=["bbq_beta", "bbq_latch"], action_kind="relative", levels=3, flat=True)
    model = DQN("MlpPolicy", envs, learning_starts=8, train_freq=4, seed=1, policy_kwargs={"net_arch": [8]})
    model.learn(40)
    action, _ = model.predict(envs.reset(), deterministic=True)
    assert envs.action_space.n == 9
    assert action.shape == (2,)


def test_options_change_the_scenario(make):
    envs = make(2)
    envs.set_options({"scenario": scenario(others=3)})
    envs.reset()
    assert [info["scenario"] for info in envs.reset_infos] == ["with-3"] * 2
    envs.set_options([{}, {"scenario": scenario(others=2)}])
    envs.reset()
    assert [info["scenario"] for info in envs.reset_infos] == ["with-3", "with-2"]


def test_attributes_and_methods_of_each(make):
    envs = make(3, render_mode="rgb_array")
    assert envs.render_mode == "rgb_array"
    assert envs.has_attr("tunables")
    assert not envs.has_attr("tunabels")
    envs.reset()
    assert envs.get_attr("default_action")[0].shape == envs.action_space.shape
    assert envs.get_attr("flow_fields", 1)[0][0] == "active"
    assert [each.name for each in envs.get_attr("scenario")] == ["with-1"] * 3
    envs.set_attr("scenario", scenario(others=2), indices=[0, 2])
    envs.reset()
    assert [each["scenario"] for each in envs.env_method("info")] == ["with-2", "with-1", "with-2"]
    envs.set_attr("note", "mine", indices=1)
    assert envs.get_attr("note", [1]) == ["mine"]
    assert envs.env_is_wrapped(Monitor) == [False] * 3
    assert envs.env_is_wrapped(Monitor, 0) == [False]
    assert envs.unwrapped is envs
    assert envs.env_method("render", indices=0)[0].shape == (720, 960, 3)
    assert envs.render().shape == (2 * 720, 2 * 960, 3)


def test_close_may_come_again_and_a_step_needs_a_reset(make):
    envs = make()
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros((3, 9), np.float32))
    envs.reset()
    envs.close()
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.step(np.zeros((3, 9), np.float32))


def test_wrong_arguments(make):
    with pytest.raises(bbrgym.ConfigError, match="scenario: 1 for 2 environments"):
        make(2, scenario=[scenario()])


def test_ppo_learns_on_it_and_repeats(make):
    def learnt():
        envs = VecNormalize(VecCheckNan(VecMonitor(make(8, scenario=drawn)), raise_exception=True))
        model = PPO("MlpPolicy", envs, n_steps=16, batch_size=64, n_epochs=2, seed=1, device="cpu")
        model.learn(512)
        assert len(model.ep_info_buffer) > 20
        assert {episode["l"] for episode in model.ep_info_buffer} == {5, 8}
        mean, _ = evaluate_policy(model, VecMonitor(make(2)), n_eval_episodes=4)
        assert np.isfinite(mean)
        return [weights.detach().numpy().tobytes() for weights in model.policy.parameters()]

    assert learnt() == learnt()


def test_without_stable_baselines3_it_says_what_to_install():
    code = "import sys; sys.modules['stable_baselines3'] = None; import bbrgym; import bbrgym.envs.tune_vec_env"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "bbrgym.envs.tune_vec_env needs Stable-Baselines3: pip install 'bbrgym[train]'" in done.stderr
