# SPDX-License-Identifier: GPL-2.0-only
import dataclasses
import inspect
import warnings

import gymnasium
import numpy as np
import plain_envs
import psutil
import pytest
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
    """Makes bbrgym/Tune-v1 on the short scenario."""
    return lambda **options: closed(plain_envs.make("bbrgym/Tune-v1", **{"scenario": short_scenario, **options}))


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


@pytest.mark.parametrize("variant", [name for name, variant in bbrgym.VARIANTS.items() if variant.preset])
def test_observations_are_in_bounds_whatever_is_done(make, variant):
    env = make(world="twin", variant=variant, frame_stack=2, control_interval_s=0.05)
    env.action_space.seed(1)
    for observation, reward, _ in play(env, 1, env.action_space):
        assert env.observation_space.contains(observation)
        assert np.isfinite(reward)


def test_the_shapes(make):
    env = make(variant="bbq", frame_stack=2)
    tunables = len(bbrgym.VARIANTS["bbq"].preset)
    assert env.action_space.shape == (tunables,)
    assert env.observation_space.shape == (2 * (2 * len(FEATURE_LISTS["instant"]) + tunables),)
    assert make(tunables=["bbq_beta"], features=["cwnd"]).observation_space.shape == (3,)


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


def test_without_a_seed_each_run_has_its_own_drawn_from_the_last_one(make):
    drawn = []
    for _ in range(2):
        env = make()
        env.reset(seed=5)
        drawn.append([env.reset()[1]["seed"] for _ in range(3)])
    assert drawn[0] == drawn[1]
    assert len({5, *drawn[0]}) == 4


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
    worlds = env.unwrapped._batch.worlds
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


def test_what_changed_is_paid_as_far_as_it_came(make):
    env = make(variant="bbq", tunables=["bbr_cwnd_gain"], max_change=0.2, reward={"change": 1.0})
    env.reset(seed=1)
    _, reward, *_ = env.step(np.array([1.0], np.float32))
    assert reward == pytest.approx(-0.1)


def test_the_starting_setting_is_the_scenarios(make, short_scenario):
    short_scenario["flows"][0] |= {"cc": "bbq", "tunables": {"bbq_alpha_us": 1500.0}}
    env = make(scenario=short_scenario, variant="bbq", tunables=["bbq_alpha_us"], features=["active"])
    observation, info = env.reset(seed=1)
    assert info["tunables"] == {"bbq_alpha_us": 1500.0}
    assert observation[-1] == pytest.approx(np.log(3) / np.log(100))
    assert env.unwrapped.default_action[0] == pytest.approx(2 * np.log(6) / np.log(100) - 1)


def test_the_reward_is_the_weighted_sum_of_its_terms(make):
    weights = {"throughput": 1.0, "delay": 0.25, "loss": 10.0, "fairness": 2.0, "change": 0.5}
    env = make(reward=weights)
    env.action_space.seed(2)
    paid = play(env, 2, env.action_space)[1:]
    for _, reward, info in paid:
        assert reward == pytest.approx(sum(weight * info["reward_terms"][name] for name, weight in weights.items()))
    for name in weights:
        assert len({info["reward_terms"][name] for _, _, info in paid}) > 3


def test_options_change_the_scenario(make, short_scenario):
    env = make()
    env.reset(seed=1)
    faster = {**short_scenario, "name": "faster", "link": {**short_scenario["link"], "rate_mbps": 20.0}}
    _, info = env.reset(seed=1, options={"scenario": faster})
    assert info["scenario"] == "faster"
    assert env.reset(seed=1)[1]["scenario"] == "faster"
    crowded = {**short_scenario, "flows": [{"name": "tuned", "count": 3, "rtt_ms": 20.0}]}
    with pytest.raises(bbrgym.ConfigError, match=r"'short' has up to 3 .* at most 2: make one with max_tuned=3"):
        env.reset(options={"scenario": crowded})
    with pytest.raises(bbrgym.ConfigError, match=r"reset options: \['scenrio'\], allowed is scenario"):
        env.reset(options={"scenrio": "steady"})
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


def test_absent_tuned_flows_tunables_are_nobodys(make):
    env = make(world="twin", scenario=crowd(1), max_tuned=3, tunables=["bbr_cwnd_gain"])
    env.reset(seed=1)
    env.step(np.ones(1, np.float32))
    worlds = env.unwrapped._batch.worlds
    set_to = worlds.tunables[0, :, worlds.tunable_names.index("bbr_cwnd_gain")]
    assert np.array_equal(set_to, [np.nan, 4.0], equal_nan=True)


def test_pooled_is_what_each_shows_put_together(make):
    options = {"world": "twin", "scenario": crowd(4), "max_tuned": 5}
    each, pooled = make(**options), make(**options, view="pooled")
    features = len(FEATURE_LISTS["instant"])
    assert pooled.observation_space.shape == (3 * features + 1 + len(pooled.unwrapped.tunables),)
    each.action_space.seed(1)
    seen = set()
    one, other = each.reset(seed=3)[0], pooled.reset(seed=3)[0]
    for _ in range(5):
        flows = one[: 5 * features].reshape(5, features)
        active = flows[flows[:, 0] == 1.0].astype(float)
        seen.add(len(active))
        if len(active):
            expected = np.concatenate([active.mean(axis=0), active.min(axis=0), active.max(axis=0)])
        else:
            expected = np.zeros(3 * features)
        assert other[: 3 * features] == pytest.approx(expected, abs=1e-6)
        assert other[3 * features] == pytest.approx(len(active) / 5)
        assert other[3 * features + 1 :].tobytes() == one[5 * features :].tobytes()
        action = each.action_space.sample()
        one, other = each.step(action)[0], pooled.step(action)[0]
    assert seen == {0, 3, 4}


def worker_of(env):
    return psutil.Process(env.unwrapped._batch.worlds._engines[0]._process.pid)


def test_a_broken_world_is_an_error_and_a_reset_goes_on(make):
    env = make()
    first = as_bytes(play(env, 4))
    env.reset(seed=4)
    env.step(env.unwrapped.default_action)
    worker_of(env).kill()
    with pytest.raises(
        bbrgym.WorldError, match=r"scenario 'short', seed 4, at 0\.1 s: the worker was killed by SIGKILL"
    ):
        env.step(env.unwrapped.default_action)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(env.unwrapped.default_action)
    assert as_bytes(play(env, 4)) == first
    worker_of(env).kill()
    with pytest.raises(bbrgym.WorldError, match="seed 8, at 0 s: the worker was killed by SIGKILL"):
        env.reset(seed=8)
    assert as_bytes(play(env, 4)) == first


def test_the_picture_grows_with_the_run(make):
    env = make(render_mode="rgb_array")
    env.reset(seed=1)
    pictures = [env.render()]
    for _ in range(5):
        env.step(env.unwrapped.default_action)
    pictures.append(env.render())
    for picture in pictures:
        assert picture.shape == (720, 960, 3)
        assert picture.dtype == np.uint8
    assert (pictures[0] != pictures[1]).any(axis=2).mean() > 0.001
    env.reset(seed=1)
    assert np.array_equal(env.render(), pictures[0])


def test_a_vector_of_them(make):
    envs = plain_envs.make_vec(
        "bbrgym/Tune-v1", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"}, scenario="steady"
    )
    observations, _ = envs.reset(seed=[3, 4])
    assert observations.shape == (2, *envs.single_observation_space.shape)
    *_, info = envs.step(envs.action_space.sample())
    assert info["seed"].tolist() == [3, 4]
    assert set(info["reward_terms"]) >= {"throughput", "delay"}
    envs.close()


@pytest.mark.parametrize("kind", [TuneEnv, TuneVectorEnv])
def test_a_constructor_shows_the_arguments_that_are_declared_once(kind):
    shown = inspect.signature(kind).parameters
    for field in dataclasses.fields(Options):
        assert shown[field.name].default == field.default
    text = rf"{kind.__name__}.__init__\(\) got an unexpected keyword argument 'frame_stac'; did you mean frame_stack"
    with pytest.raises(bbrgym.ConfigError, match=text):
        kind(frame_stac=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scenario": "stedy"}, "did you mean steady"),
        ({"scenario": {**crowd(1), "flows": [{"name": "a", "cc": "cubic", "rtt_ms": 9}]}}, "no flow with role tuned"),
        ({"world": "ns4"}, "world 'ns4': did you mean ns3"),
    ],
    ids=str,
)
def test_wrong_arguments(make, options, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        make(**options)
