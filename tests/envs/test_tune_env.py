# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
import inspect
import math
import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import gymnasium
import numpy as np
import plain_envs
import pytest
from exploring import explore
from gymnasium.utils.env_checker import check_env
from vectors import Crowds, crowd

import bbrgym
from bbrgym.envs.observation import FEATURE_LISTS
from bbrgym.envs.options import Options
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.envs.tune_vector_env import TuneVectorEnv
from bbrgym.scenario.files import with_variant

pytest.importorskip("stable_baselines3", reason="the checker of Stable-Baselines3 needs it")
from stable_baselines3.common.env_checker import check_env as check_env_sb3


@pytest.fixture
def make(short_scenario, closed):
    """Makes bbrgym/Tune-v2 on the short scenario."""
    return lambda **options: closed(plain_envs.make("bbrgym/Tune-v2", **{"scenario": short_scenario, **options}))


def play(env, seed, actions=None):
    """An episode: everything that the env returned."""
    observation, info = env.reset(seed=seed)
    seen = [(observation, 0.0, info)]
    truncated = False
    while not truncated:
        action = env.unwrapped.default_action if actions is None else actions.sample()
        observation, reward, terminated, truncated, info = env.step(action)
        assert not terminated
        seen.append((observation, reward, info))
    return seen


def as_bytes(seen):
    return [(o.tobytes(), r, i["flow_stats"].tobytes(), i["link_stats"].tobytes()) for o, r, i in seen]


@pytest.mark.parametrize("checker", [check_env, check_env_sb3], ids=["gymnasium", "sb3"])
@pytest.mark.parametrize(
    "options",
    [
        {"world": "ns3"},
        {"variant": "bbr-mix", "frame_stack": 4},
        {"variant": "bbr-pg", "tunables": ["pg_trand_high_us"], "features": ["rtt_mean", "lost"]},
        {"variant": "bbr-mix", "action_kind": "relative", "max_change": 0.05},
        {"levels": 5, "reward": "goodput"},
        {"critic": True, "frame_stack": 2, "view": "pooled"},
        {"tunables": ["bbq_beta", "bbq_alpha_us"], "levels": 5, "flat": True},
        {"render_mode": "rgb_array", "isolation": "none"},
        {"scenario": Crowds()},
        {"scenario": Crowds(), "view": "pooled", "max_tuned": 6},
    ],
    ids=str,
)
def test_checkers_have_no_complaint(make, checker, options):
    env = make(**{"world": "twin", **options})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker(env.unwrapped, **({"skip_render_check": True} if options.get("isolation") == "none" else {}))


def test_an_episode_is_the_scenario(make):
    env = make(control_interval_s=0.4)
    seen = play(env, 9)
    assert [round(info["now_s"], 6) for _, _, info in seen] == [0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.4, 2.8, 3.0]
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(env.unwrapped.default_action)
    env.reset()
    env.step(env.unwrapped.default_action)


def test_the_seed_reaches_the_simulator_and_repeats_it(make):
    env, other = make(), make()
    assert env.reset(seed=5)[1]["seed"] == 5
    first = as_bytes(play(env, 5))
    assert as_bytes(play(env, 5)) == first
    assert as_bytes(play(other, 5)) == first
    assert as_bytes(play(other, 6)) != first


def test_the_default_action_changes_nothing(make, short_scenario):
    last = play(make(variant="bbq"), 3)[-1][2]
    scenario = with_variant(bbrgym.load_scenario(short_scenario), "bbq")
    with bbrgym.make_world("ns3", scenario, seed=3) as world:
        while not world.done:
            world.advance(0.1)
        assert world.flow_stats().tobytes() == last["flow_stats"].tobytes()


def test_the_action_sets_every_tuned_flow_and_no_other(make):
    env = make(variant="bbq", tunables=["bbr_cwnd_gain", "bbq_alpha_us"])
    env.reset(seed=1)
    *_, info = env.step(np.array([1.0, -1.0], np.float32))
    assert info["tunables"] == {"bbr_cwnd_gain": 4.0, "bbq_alpha_us": 500.0}
    worlds = env.unwrapped._batch.episodes.worlds
    set_to = worlds.tunables[0, :, worlds.tunable_names.index("bbr_cwnd_gain")]
    assert set_to.tolist() == [4.0, pytest.approx(np.nan, nan_ok=True), 4.0]


def test_a_relative_action_moves_the_setting_that_is_seen(make):
    env = make(variant="bbq", tunables=["bbr_cwnd_gain"], features=["active"], action_kind="relative", step_size=0.5)
    observation, info = env.reset(seed=1)
    seen = [(observation[-1], info["tunables"]["bbr_cwnd_gain"])]
    for action in (1.0, 0.5, -1.0, 0.0):
        observation, *_, info = env.step(np.array([action], np.float32))
        seen.append((observation[-1], info["tunables"]["bbr_cwnd_gain"]))
    assert [value for value, _ in seen] == pytest.approx([1 / 3, 7 / 12, 17 / 24, 11 / 24, 11 / 24])
    assert [gain for _, gain in seen] == pytest.approx([1.0 + 3.0 * value for value, _ in seen])
    assert info["reward_terms"]["change"] == 0.0
    env = make(variant="bbq", tunables=["bbr_cwnd_gain"], max_change=0.2, reward={"change": 1.0})
    env.reset(seed=1)
    assert env.step(np.array([1.0], np.float32))[1] == pytest.approx(-0.1), "what changed is paid as far as it came"


def test_the_starting_setting_is_the_scenarios(make, short_scenario):
    short_scenario["flows"][0] |= {"cc": "bbq", "tunables": {"bbq_alpha_us": 1500.0}}
    env = make(scenario=short_scenario, variant="bbq", tunables=["bbq_alpha_us"], features=["active"])
    observation, info = env.reset(seed=1)
    assert info["tunables"] == {"bbq_alpha_us": 1500.0}
    assert observation[-1] == pytest.approx(np.log(3) / np.log(100))
    assert env.unwrapped.default_action[0] == pytest.approx(2 * np.log(6) / np.log(100) - 1)


def test_options_change_the_scenario(make, short_scenario):
    env = make()
    env.reset(seed=1)
    faster = {**short_scenario, "name": "faster", "link": {**short_scenario["link"], "rate_mbps": 20.0}}
    _, info = env.reset(seed=1, options={"scenario": faster})
    assert info["scenario"] == "faster"
    assert env.reset(seed=1)[1]["scenario"] == "faster"


def test_absent_tuned_flows_are_not_seen_and_leave_the_rest_as_it_is(make):
    options = {"world": "twin", "scenario": crowd(2), "variant": "bbr-mix"}
    fitting, roomy = make(**options), make(**options, max_tuned=5)
    features, tunables = len(FEATURE_LISTS["instant"]), len(fitting.unwrapped.tunables)
    fitting.action_space.seed(1)
    actions = [fitting.action_space.sample() for _ in range(5)]
    both = [[(env.reset(seed=2)[0],), *(env.step(action) for action in actions)] for env in (fitting, roomy)]
    for (observation, *paid), (roomy_observation, *roomy_paid) in zip(*both, strict=True):
        flows, setting = np.split(observation, [-tunables])
        roomy_flows, absent, roomy_setting = np.split(roomy_observation, [2 * features, 5 * features])
        assert len(setting) == tunables
        assert flows.tobytes() == roomy_flows.tobytes()
        assert setting.tobytes() == roomy_setting.tobytes()
        assert not absent.any()
        if paid:
            *rewards, info = paid
            *roomy_rewards, roomy_info = roomy_paid
            assert rewards == roomy_rewards
            assert info["flow_stats"].tobytes() == roomy_info["flow_stats"].tobytes()
            assert info["reward_terms"] == roomy_info["reward_terms"]


@pytest.mark.parametrize(
    ("action", "flaw"),
    [
        ([0.0] * 3, r"its shape is \(3,\), not \(8,\)$"),
        ([[0.0] * 8], r"its shape is \(1, 8\), not \(8,\)$"),
        ([0.0] * 7 + [math.nan], r"it is nan at \[7\]$"),
        (np.full(8, -np.inf), r"it is -inf at \[0\]$"),
        ([10**400] * 8, r"its type is object$"),
        (np.ma.masked_array([0.0] * 8, True), r"it is masked$"),
        ([0.0] * 7 + [1.5], r"gymnasium.wrappers.ClipAction makes them so$"),
    ],
)
def test_a_wrong_action_says_what_is_wrong_and_the_episode_goes_on(make, action, flaw):
    env, undisturbed = make(world="twin").unwrapped, make(world="twin").unwrapped
    for one in (env, undisturbed):
        one.reset(seed=4)
    with pytest.raises(bbrgym.ConfigError, match=flaw):
        env.step(action)
    with pytest.raises(bbrgym.ConfigError, match=r"snapshot: 5, allowed is what save\(\) returned"):
        env.restore(5)
    for wrong in ({"options": 5}, {"seed": 1, "options": {"scenario": 5}}, {"seed": 10**5000}):
        with pytest.raises(bbrgym.ConfigError):
            env.reset(**wrong)
    assert env.step(env.default_action)[0].tobytes() == undisturbed.step(env.default_action)[0].tobytes()
    assert env.reset()[1]["seed"] == undisturbed.reset()[1]["seed"]


def test_an_episode_is_explored_from_one_snapshot_by_several_processes(make):
    env = make(world="twin", scenario="wan_mix").unwrapped
    env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(5):
        env.step(env.action_space.sample())
    snapshot, actions = pickle.dumps(env.save()), [env.action_space.sample() for _ in range(4)]
    expected = [env.step(action)[0].tobytes() for action in actions]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        found = [pool.submit(explore, snapshot, actions) for _ in range(2)]
        assert [one.result(timeout=120) for one in found] == [expected] * 2


@pytest.mark.parametrize("kind", [TuneEnv, TuneVectorEnv])
def test_a_constructor_shows_the_arguments_that_are_declared_once(kind):
    shown = inspect.signature(kind).parameters
    for field in dataclasses.fields(Options):
        assert shown[field.name].default == field.default
    text = rf"{kind.__name__}.__init__\(\) got an unexpected keyword argument 'frame_stac'; did you mean frame_stack"
    with pytest.raises(bbrgym.ConfigError, match=text):
        kind(frame_stac=1)
