# SPDX-License-Identifier: GPL-2.0-only
import warnings

import gymnasium
import numpy as np
import plain_envs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_envs import PLAIN
from vectors import Crowds, coming_and_going, crowd, scenario

import bbrgym
from bbrgym.envs.observation import FEATURE_LISTS
from bbrgym.envs.terms import TERMS

pytest.importorskip("pettingzoo", reason="what is tested is made for it")
from pettingzoo.test import parallel_api_test, parallel_seed_test

from bbrgym.envs.multi import parallel_env


@pytest.fixture
def make(closed):
    """Makes environments in the twin."""
    return lambda **options: closed(parallel_env(**{**PLAIN, "world": "twin", "scenario": crowd(4), **options}))


def sampled(env):
    return {agent: env.action_space(agent).sample() for agent in env.agents}


def play(env, seed=1, act=sampled):
    """The steps of a run: who acted, and what came back."""
    for number, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(number)
    env.reset(seed=seed)
    steps = []
    while env.agents:
        acted = env.agents
        steps.append((acted, *env.step(act(env))))
    return steps


FLAT = {"tunables": ["bbq_beta", "bbq_latch"], "levels": 3, "flat": True}


@pytest.mark.parametrize(
    "options",
    [{"world": "ns3"}, {"scenario": coming_and_going()}, {"frame_stack": 3, "reward_scope": "own"}, FLAT],
    ids=str,
)
def test_pettingzoos_test_has_no_complaint(make, options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(make(**options), 100)


def test_a_seed_repeats_everything(make):
    parallel_seed_test(lambda: make(scenario=Crowds(), reward_scope="own"))


TIMES = st.tuples(st.integers(0, 59), st.integers(1, 40))


@given(st.lists(TIMES, min_size=1, max_size=5), st.sampled_from([0.05, 0.1, 0.07]))
@settings(max_examples=50)
def test_whenever_flows_run_their_agents_act_and_no_others(times, control_interval_s):
    flows = [
        {"name": f"flow-{i}", "rtt_ms": 20.0, "start_s": start / 100, "stop_s": (start + length) / 100}
        for i, (start, length) in enumerate(times)
    ]
    link = {"rate_mbps": 8.0, "queue": {"size_bdp": 1.0}}
    network = {"name": "any", "duration_s": 0.6, "link": link, "flows": flows}
    env = parallel_env(**{**PLAIN, "world": "twin", "scenario": network, "control_interval_s": control_interval_s})
    have_acted = set()
    for acted, *_, infos in play(env):
        info = infos[acted[0]]
        is_active = info["flow_stats"][:, env.flow_fields.index("active")] > 0
        assert acted == [agent for agent, is_it in zip(env.possible_agents, is_active, strict=True) if is_it]
        end_s = info["now_s"] - 1e-9
        begin_s = end_s // control_interval_s * control_interval_s + 1e-9
        assert acted == [flow["name"] for flow in flows if flow["start_s"] < end_s and flow["stop_s"] > begin_s]
        have_acted |= set(acted)
    assert have_acted == set(env.possible_agents)
    env.close()


def test_agents_join_and_leave(make):
    steps = play(make(scenario=coming_and_going()))
    acted, observations, rewards, terminated, truncated, infos = (list(each) for each in zip(*steps, strict=True))
    assert acted == [["first"], ["first"], ["first", "second"], ["second"], ["third"], ["third"], ["third"]]
    assert [set(each) for each in observations] == [
        *({"first"}, {"first", "second"}, {"first", "second"}, {"second", "third"}, {"third"}, {"third"}, {"third"})
    ]
    for several in zip(observations, rewards, terminated, truncated, infos, strict=True):
        assert len({frozenset(each) for each in several}) == 1
    assert [[agent for agent, ends in each.items() if ends] for each in truncated] == [
        *([], [], ["first"], ["second"], [], [], ["third"])
    ]
    assert not any(any(each.values()) for each in terminated)
    assert rewards[1]["second"] == rewards[3]["third"] == 0.0
    assert infos[3]["second"]["now_s"] == pytest.approx(0.4)
    assert infos[3]["third"]["now_s"] == pytest.approx(0.6)
    assert infos[-1]["third"]["now_s"] == pytest.approx(0.9), "with nobody left the run has ended"


@pytest.mark.parametrize("reward", ["proportional", dict.fromkeys(TERMS, 0.5)], ids=str)
def test_agents_that_act_alike_are_one_controller(make, reward):
    staying = crowd(4, 0.8)
    del staying["flows"][-1]["stop_s"]  # what is sent after it is beyond an agent's reach, but not beyond the one's
    options = {"scenario": staying, "variant": "bbr-mix", "reward": reward}
    many = make(**options)
    one = plain_envs.make("bbrgym/Tune-v2", world="twin", **options)
    features, tunables = len(FEATURE_LISTS["instant"]), len(many.tunables)
    one.action_space.seed(1)
    one.reset(seed=3)
    many.reset(seed=3)
    while many.agents:
        acted, action = many.agents, one.action_space.sample()
        seen, paid, _, _, info = one.step(action)
        observations, rewards, *_, infos = many.step(dict.fromkeys(acted, action))
        flows = seen[:-tunables].reshape(4, features)
        has_joined_lately = len(acted) == 4 and info["now_s"] < 0.3  # what it moved is another distance
        for agent in acted:
            assert infos[agent]["flow_stats"].tobytes() == info["flow_stats"].tobytes()
            assert infos[agent]["tunables"] == info["tunables"]
            assert observations[agent].tobytes() == np.append(flows[int(agent[-1])], seen[-tunables:]).tobytes()
            assert reward != "proportional" or rewards[agent] == paid
            terms = infos[agent]["reward_terms"]
            assert has_joined_lately or terms == info["reward_terms"]
    one.close()


def test_own_rewards_are_of_ones_own_flow(make):
    weights = {"throughput": 1.0, "delay": 0.25, "loss": 2.0, "fairness": 0.5, "change": 0.1}
    options = {"scenario": crowd(4, 0.8), "reward": weights}
    team, own = play(make(**options)), play(make(**options, reward_scope="own"))
    for (acted, _, rewards, *_, infos), (_, _, own_rewards, *_, own_infos) in zip(team, own, strict=True):
        assert len({rewards[agent] for agent in acted}) == 1
        for name in weights:
            own_terms = [own_infos[agent]["reward_terms"][name] for agent in acted]
            assert np.mean(own_terms) == pytest.approx(infos[acted[0]]["reward_terms"][name])
            assert len(set(own_terms)) == 1 or name != "fairness"
        for agent in acted:
            terms = own_infos[agent]["reward_terms"]
            assert own_rewards[agent] == pytest.approx(sum(weights[name] * value for name, value in terms.items()))
    assert len({tuple(rewards.values()) for _, _, rewards, *_ in own}) > 3
    assert any(len(set(rewards.values())) > 2 for _, _, rewards, *_ in own)


def test_an_agent_sets_its_own_flow_and_no_other(make):
    env = make(scenario=scenario(), tunables=["bbr_cwnd_gain", "bbq_alpha_us"])
    env.reset(seed=1)
    *_, infos = env.step({"near": np.array([1.0, -1.0], np.float32), "far": np.array([-1.0, 1.0], np.float32)})
    assert infos["near"]["tunables"] == {"bbr_cwnd_gain": 4.0, "bbq_alpha_us": 500.0}
    assert infos["far"]["tunables"] == {"bbr_cwnd_gain": 1.0, "bbq_alpha_us": 50_000.0}
    worlds = env._batch.episodes.worlds
    gains = worlds.tunables[0, :, worlds.tunable_names.index("bbr_cwnd_gain")]
    assert np.array_equal(gains, [4.0, 1.0, np.nan], equal_nan=True) or np.array_equal(
        gains, [4.0, np.nan, 1.0], equal_nan=True
    )


def test_an_agent_moves_its_own_flows_setting(make):
    env = make(scenario=scenario(), tunables=["bbr_cwnd_gain"], action_kind="relative", step_size=0.5)
    env.reset(seed=1)
    moves = {"near": np.array([1.0], np.float32), "far": np.array([0.0], np.float32)}
    gains = []
    for _ in range(3):
        *_, infos = env.step(moves)
        gains.append([infos[agent]["tunables"]["bbr_cwnd_gain"] for agent in ("near", "far")])
    assert np.array(gains) == pytest.approx(np.array([[2.75, 2.0], [3.5, 2.0], [4.0, 2.0]]))


def test_a_flow_that_has_not_started_keeps_its_own_setting(make):
    late = crowd(3)
    late["flows"][-1] |= {"cc": "bbq", "tunables": {"bbq_alpha_us": 1234.0}}
    env = make(scenario=late, tunables=["bbq_alpha_us"], features=["active"])
    env.reset(seed=1)
    column = bbrgym.worlds.TUNABLE_COLUMNS["bbq_alpha_us"]
    assert env.agents == ["tuned-0", "tuned-1"]
    observations, *_, infos = env.step(dict.fromkeys(env.agents, np.ones(1, np.float32)))
    assert env._batch.episodes.worlds.tunables[0, -1, column] == 1234.0
    assert infos["tuned-2"]["tunables"] == {"bbq_alpha_us": 1234.0}
    assert observations["tuned-2"][-1] == pytest.approx(np.log(1234 / 500) / np.log(100))
    assert observations["tuned-1"].tolist() == [1.0, 1.0]


def test_what_an_agent_sees_first_stands_for_what_was_before(make):
    env = make(scenario=crowd(3), frame_stack=3)
    first, _ = env.reset(seed=1)
    second, *_ = env.step(sampled(env))
    third, *_ = env.step(sampled(env))
    for seen in (first["tuned-0"], second["tuned-2"]):
        old, older, oldest = np.split(seen, 3)
        assert old.tobytes() == older.tobytes() == oldest.tobytes()
    intervals = np.split(third["tuned-2"], 3)
    assert intervals[0].tobytes() == intervals[1].tobytes() != intervals[2].tobytes()


def test_drawn_scenarios_fill_the_first_agents(make):
    env = make(scenario=Crowds(), max_tuned=5)
    assert env.possible_agents == [f"tuned-{slot}" for slot in range(5)]
    seen = set()
    for seed in range(12):
        _, infos = env.reset(seed=seed)
        agents = set(env.agents)
        while env.agents:
            *_, infos = env.step(sampled(env))
            agents |= set(env.agents)
            assert all(info["flow"] == agent for agent, info in infos.items())
        assert agents == {f"tuned-{slot}" for slot in range(len(agents))}
        seen.add(len(agents))
    assert seen == {1, 2, 3, 4}


def test_options_change_the_scenario(make):
    env = make(scenario=crowd(3))
    _, infos = env.reset(seed=1, options={"scenario": crowd(2), "whatever": 1})
    assert infos["tuned-0"]["scenario"] == "crowd-of-2"
    assert env.agents == ["tuned-0", "tuned-1"]
    with pytest.raises(bbrgym.ConfigError, match="scenario: tuned flow 'near': allowed are tuned-0, tuned-1"):
        env.reset(options={"scenario": scenario()})
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step({})
    with pytest.raises(bbrgym.ConfigError, match=r"'crowd-of-4' has up to 4 .* at most 3"):
        env.reset(options={"scenario": crowd(4)})
    with pytest.raises(bbrgym.ConfigError, match="reset options: 'scenrio', did you mean scenario"):
        env.reset(options={"scenrio": crowd(3)})
    env.reset(options={"scenario": crowd(3)})
    env.step(sampled(env))


def test_wrong_actions(make):
    env = make(scenario=scenario(), tunables=["bbq_beta"])
    env.reset(seed=1)
    fine = np.zeros(1, np.float32)
    for wrong in ({}, {"near": fine}, {"near": fine, "far": fine, "other-0": fine}):
        with pytest.raises(bbrgym.ConfigError, match=r"actions: of .*, allowed is one of each agent .*'near', 'far'"):
            env.step(wrong)
    for wrong in (np.array([1.1]), 0.0):
        with pytest.raises(bbrgym.ConfigError, match=r"allowed are 1 numbers in \[-1, 1\]"):
            env.step({"near": fine, "far": wrong})
    env.step({"near": fine, "far": fine})


def test_the_state_is_what_a_critic_sees(make):
    env = make(scenario=scenario())
    one = plain_envs.make("bbrgym/Tune-v2", world="twin", scenario=scenario(), critic=True)
    seen, _ = one.reset(seed=1)
    env.reset(seed=1)
    for _ in range(4):
        assert env.state_space == one.observation_space["critic"]
        assert env.state().tobytes() == seen["critic"].tobytes()
        seen, *_ = one.step(one.unwrapped.default_action)
        env.step(dict.fromkeys(env.agents, env.default_action))
    one.close()


@pytest.mark.parametrize("options", [{}, {"reward_scope": "own", "frame_stack": 2}], ids=str)
@pytest.mark.parametrize("scene", [coming_and_going(), crowd(3), scenario()], ids=lambda scene: scene["name"])
def test_agents_that_idle_see_and_get_what_those_that_leave_do(make, scene, options):
    """While their flows run; but for the last observation of one that leaves before the end."""

    def defaults(env):
        return dict.fromkeys(env.agents, env.default_action)

    leaving, idling = (make(scenario=scene, absent_agents=kind, **options) for kind in ("leave", "idle"))
    seen = {kind: {agent: [] for agent in leaving.possible_agents} for kind in ("leave", "idle")}
    got = {kind: {agent: [] for agent in leaving.possible_agents} for kind in ("leave", "idle")}
    for agent, observation in leaving.reset(seed=1)[0].items():
        seen["leave"][agent].append(observation)
    while leaving.agents:
        acted = leaving.agents
        observations, rewards, _, truncated, _ = leaving.step(defaults(leaving))
        for agent in observations:
            if not truncated[agent] or not leaving.agents:
                seen["leave"][agent].append(observations[agent])
            got["leave"][agent] += [rewards[agent]] if agent in acted else []

    observations, infos = idling.reset(seed=1)
    truncated, steps = {"": False}, 0
    while True:
        assert list(observations) == list(infos) == idling.possible_agents
        for agent, info in infos.items():
            if info["active"] or (any(truncated.values()) and observations[agent].any()):
                seen["idle"][agent].append(observations[agent])
            else:
                assert not observations[agent].any()
        if any(truncated.values()):
            break
        active = [agent for agent, info in infos.items() if info["active"]]
        observations, rewards, _, truncated, infos = idling.step(defaults(idling))
        steps += 1
        for agent, reward in rewards.items():
            got["idle"][agent] += [reward] if agent in active else []
            assert agent in active or reward == 0.0
    assert all(truncated.values())
    assert idling.agents == []
    assert steps == round(scene["duration_s"] / 0.1)
    assert got["idle"] == got["leave"]
    for agent, expected in seen["leave"].items():
        whole = seen["idle"][agent]
        assert [each.tobytes() for each in whole] == [each.tobytes() for each in expected[: len(whole)]]
        assert len(expected) - len(whole) <= 1


@pytest.mark.parametrize("numeric_infos", [False, True])
def test_pettingzoos_tests_have_no_complaint_of_agents_that_idle(make, numeric_infos):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scene in (coming_and_going(), Crowds()):
            options = {"scenario": scene, "absent_agents": "idle", "numeric_infos": numeric_infos}
            parallel_api_test(make(**options), 40)
    parallel_seed_test(lambda: make(**options), 10)


def test_infos_of_numbers_have_the_same_names_always(make):
    env = make(scenario=Crowds(), absent_agents="idle", numeric_infos=True)
    names, shapes = set(), set()
    for seed in range(4):
        _, infos = env.reset(seed=seed)
        for _ in range(3):
            names |= {frozenset(info) for info in infos.values()}
            shapes |= {np.shape(info["link_stats"]) for info in infos.values()}
            assert all(np.asarray(value).dtype.kind in "biuf" for info in infos.values() for value in info.values())
            *_, infos = env.step(sampled(env))
    assert len(names) == len(shapes) == 1
    assert {"active", "now_s", "reward_terms.delay", "tunables.bbq_beta"} <= set(next(iter(names)))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"absent_agents": "away"}, "absent_agents: 'away', allowed are 'leave' and 'idle'"),
        ({"critic": True}, r"critic: True, allowed is False: .* TuneMultiEnv.state\(\) has it"),
        ({"reward_scope": "mine"}, "reward_scope: 'mine', allowed are team and own"),
        ({"view": "pooled"}, "view: 'pooled', allowed is 'each': an agent observes its"),
        ({"reward_scop": "own"}, "keyword argument 'reward_scop'; did you mean reward_scope"),
    ],
)
def test_wrong_arguments(make, options, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        make(**options)
