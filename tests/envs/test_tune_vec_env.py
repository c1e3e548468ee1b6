# SPDX-License-Identifier: GPL-2.0-only
import subprocess
import sys

import gymnasium
import numpy as np
import plain_envs
import pytest
from plain_envs import PLAIN
from vectors import Crowds, assert_same, drawn, scenario

pytest.importorskip("stable_baselines3", reason="what is tested is made for it")
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from bbrgym.envs.tune_vec_env import TuneVecEnv


@pytest.fixture
def make(closed):
    """Makes vectors in the twin."""

    def make_one(num_envs=3, **options):
        return closed(TuneVecEnv(num_envs, **{**PLAIN, "world": "twin", "scenario": scenario(0.5), **options}))

    return make_one


@pytest.mark.parametrize(("full_infos", "critic"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("third", [drawn, Crowds()], ids=["drawn", "crowds"])
def test_it_is_sb3s_own_vector_of_single_environments(make, full_infos, critic, third):
    scenarios = [scenario(0.5), scenario(0.8, others=3), third]
    ours = make(3, scenario=scenarios, frame_stack=2, critic=critic, full_infos=full_infos)
    options = {"world": "twin", "frame_stack": 2, "critic": critic, "max_tuned": 2 if third is drawn else 4}
    theirs = DummyVecEnv(
        [lambda each=each: plain_envs.make("bbrgym/Tune-v2", scenario=each, **options) for each in scenarios]
    )
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    rng = np.random.default_rng(1)
    for seed in (4, None):
        if seed is not None:
            assert ours.seed(seed) == theirs.seed(seed)
        assert_same(ours.reset(), theirs.reset())
        for _ in range(20):
            actions = rng.uniform(-1, 1, (3, *ours.action_space.shape)).astype(np.float32)
            seen, expected = ours.step(actions), theirs.step(actions)
            assert_same(seen[:3], expected[:3])
            for info, other in zip(seen[3], expected[3], strict=True):
                if full_infos or "terminal_observation" in other:
                    assert_same(info, other)
                else:
                    assert info == {"TimeLimit.truncated": False}
            assert_same(ours.reset_infos, theirs.reset_infos)
    theirs.close()


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
    assert envs.spec == envs.get_attr("spec")[0]
    assert gymnasium.make(envs.get_attr("spec", 2)[0]).observation_space == envs.observation_space
    (saved,) = envs.env_method("save", indices=1)
    step = envs.step(np.stack([envs.default_action] * 3))
    envs.restore(1, saved)
    assert envs.step(np.stack([envs.default_action] * 3))[0][1].tobytes() == step[0][1].tobytes()
    assert envs.env_method("render", indices=0)[0].shape == (720, 960, 3)
    assert envs.render().shape == (2 * 720, 2 * 960, 3)


@pytest.mark.parametrize(
    ("module", "extra"), [("tune_vec_env", "stable-baselines3"), ("multi", "pettingzoo")], ids=["sb3", "pettingzoo"]
)
def test_without_its_extra_it_says_what_to_install(module, extra):
    code = f"import sys; sys.modules['{extra.replace('-', '_')}'] = None; import bbrgym; import bbrgym.envs.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"bbrgym.envs.{module} needs {extra}: pip install {extra}, or in a checkout of bbrgym " in done.stderr
