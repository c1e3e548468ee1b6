# SPDX-License-Identifier: GPL-2.0-only
import warnings

import gymnasium
import numpy as np
import plain_envs
import psutil
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from vectors import Crowds, assert_same, crowd, drawn, scenario

import bbrgym

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]
CROWDED = {"max_tuned": 4, "frame_stack": 2, "variant": "bbr-mix", "reward": {"throughput": 1.0, "change": 0.1}}
LIBRARY = {"variant": "bbr-mix", "settings": {"draining": {"bbr_cwnd_gain": 1.24}, "preset": {}}}


@pytest.fixture
def make(closed):
    """Makes vectors of bbrgym/Tune-v2."""

    def make_one(num_envs=3, **options):
        return closed(plain_envs.make_vec("bbrgym/Tune-v2", num_envs=num_envs, **{"world": "twin", **options}))

    return make_one


class Boundless(Crowds):
    """Scenarios that may have more tuned flows than a scenario can."""

    max_tuned = 10**7


def assert_equal_to_one_by_one(make, closed, scenarios, mode, steps, seed=5, **options):
    """Compare every bit with Gymnasium's own vector of single environments; return the number of episodes' ends."""
    options = {"world": "twin", "numeric_infos": True, "flow_capacity": 8, **options}
    ours = make(len(scenarios), scenario=scenarios, autoreset_mode=mode, **options)
    singles = [lambda one=one: plain_envs.make("bbrgym/Tune-v2", scenario=one, **options) for one in scenarios]
    theirs = closed(SyncVectorEnv(singles, autoreset_mode=mode))
    assert ours.single_observation_space == theirs.single_observation_space
    assert_same(ours.reset(seed=seed), theirs.reset(seed=seed))
    ours.action_space.seed(seed)
    ends = 0
    for _ in range(steps):
        actions = ours.action_space.sample()
        step = ours.step(actions)
        assert_same(step, theirs.step(actions))
        assert ours.observation_space.contains(step[0])
        ends += step[3].sum()
    return ends


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "bbr-mix", "frame_stack": 3},
        {"variant": "bbr-pg", "reward": {"fairness": 1.0, "loss": 0.3}},
        {"action_kind": "relative", "reward": "alpha_fair"},
        {"critic": True, "frame_stack": 2},
        {"variant": "bbr-mix", "max_change": 0.2, "levels": 4},
        {
            "tunables": ["bbq_beta", "bbq_latch"],
            "action_kind": "relative",
            "levels": 5,
            "flat": True,
            "reward": "power",
        },
        {"variant": "bbr-mix", "features": "memory", "critic": True},
        {"variant": "bbr-mix", "action_kind": "library", "library": LIBRARY},
        CROWDED,
        {**CROWDED, "view": "pooled"},
        {**CROWDED, "view": "pooled", "features": "memory", "hold_intervals": 4, "reward_horizon_s": 0.4},
    ],
    ids=str,
)
def test_a_vector_step_is_that_of_each_bit_for_bit(make, closed, mode, options):
    scenarios = [scenario(1.0), scenario(0.6, others=0), scenario(0.7, others=3, rate_mbps=3.0), drawn]
    if "max_tuned" in options:
        scenarios = [Crowds(), crowd(3, 0.6), scenario(0.4, others=3), Crowds(), drawn]
    assert assert_equal_to_one_by_one(make, closed, scenarios, mode, 25, **options) >= 3 * len(scenarios) - 4


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"world": "ns3"},
        {"max_episode_steps": 4},
        {"max_episode_steps": 3, "hold_intervals": 2, "numeric_infos": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", MODES)
def test_it_is_gymnasiums_own_vector_of_single_environments(make, mode, options):
    options = {"scenario": scenario(0.5), **options}
    ours = make(2, autoreset_mode=mode, **options)
    theirs = make(2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **options)
    assert type(ours).__name__ == "TuneVectorEnv"
    assert type(theirs).__name__ == "SyncVectorEnv"
    assert ours.metadata == theirs.metadata
    for space in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        assert getattr(ours, space) == getattr(theirs, space)
    ours.action_space.seed(3)
    assert_same(ours.reset(seed=[3, 9]), theirs.reset(seed=[3, 9]))
    for _ in range(14):
        actions = ours.action_space.sample()
        assert_same(ours.step(actions), theirs.step(actions))
    assert [g.bit_generator.state for g in ours.np_random] == [g.bit_generator.state for g in theirs.np_random]
    assert ours.np_random_seed == theirs.np_random_seed
    assert_same(ours.reset(), theirs.reset())
    mask = np.array([False, True])
    assert_same(
        ours.reset(seed=4, options={"reset_mask": mask}), theirs.reset(seed=4, options={"reset_mask": mask.copy()})
    )


def test_what_it_returns_is_the_callers(make):
    envs = make(2, scenario=scenario())
    first, infos = envs.reset(seed=1)
    kept = (first.copy(), infos["flow_stats"].copy(), infos["now_s"].copy(), infos["tunables"]["bbq_beta"].copy())
    for _ in range(3):
        envs.step(envs.action_space.sample())
    for seen, copy in zip(
        (first, infos["flow_stats"], infos["now_s"], infos["tunables"]["bbq_beta"]), kept, strict=True
    ):
        assert np.array_equal(seen, copy, equal_nan=True)


def test_a_drawn_scenario_is_drawn_once_for_each_run_from_its_seed(make):
    asked = []

    def draw(seed):
        asked.append(seed)
        return scenario(0.2)

    envs = make(2, scenario=draw)
    assert asked == [0]
    _, infos = envs.reset(seed=5)
    assert asked == [0, 5, 6]
    for _ in range(3):
        *_, infos = envs.step(envs.default_actions)
    assert asked == [0, 5, 6, *infos["seed"].tolist()]


def test_room_for_more_flows_is_made_while_others_run(make):
    def draw(seed):
        return scenario(0.2 if seed % 2 else 0.5, others=seed % 7)

    tight, roomy = (make(2, scenario=[draw, scenario(5.0)], flow_capacity=flows) for flows in (None, 9))
    for envs in (tight, roomy):
        envs.reset(seed=5)
    for _ in range(30):
        actions = tight.action_space.sample()
        (*ours, infos), (*theirs, others) = tight.step(actions), roomy.step(actions)
        assert_same(ours, theirs)
        stats, same = infos["flow_stats"], others["flow_stats"]
        assert np.array_equal(stats, same[:, : stats.shape[1]], equal_nan=True)
        assert np.isnan(same[:, stats.shape[1] :]).all()
    assert stats.shape[1] > 3


def test_options_change_the_scenarios(make):
    envs = make(2, scenario=scenario())
    envs.reset(seed=1)
    options = {"scenario": [scenario(others=2), drawn]}
    _, infos = envs.reset(seed=1, options=options)
    assert infos["scenario"].tolist() == ["with-2", drawn(2)["name"]]
    _, infos = envs.reset(seed=1, options={"scenario": scenario(others=3), "reset_mask": np.array([True, False])})
    assert infos["scenario"].tolist() == ["with-3", None]
    assert envs.reset(seed=1)[1]["scenario"].tolist() == ["with-3", drawn(2)["name"]]


def test_without_autoreset_the_caller_resets(make):
    envs = make(2, scenario=[scenario(0.2), scenario(0.4)], autoreset_mode="Disabled")
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=1)
    envs.step(envs.default_actions)
    *_, truncated, _ = envs.step(envs.default_actions)
    assert truncated.tolist() == [True, False]
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(envs.default_actions)
    envs.reset(options={"reset_mask": truncated})
    *_, truncated, infos = envs.step(envs.default_actions)
    assert infos["now_s"] == pytest.approx([0.1, 0.3])


def test_after_a_limit_of_steps_a_reset_is_needed_and_a_snapshot_has_its_steps(make):
    envs = make(2, scenario=scenario(), autoreset_mode="Disabled", max_episode_steps=3)
    envs.reset(seed=1)
    envs.step(envs.default_actions)
    snapshots = [envs.save(index) for index in range(2)]
    ends = [envs.step(envs.default_actions)[3].all() for _ in range(2)]
    assert ends == [False, True]
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(envs.default_actions)
    for index, snapshot in enumerate(snapshots):
        envs.restore(index, snapshot)
    assert [envs.step(envs.default_actions)[3].all() for _ in range(2)] == [False, True]


def test_attributes_and_methods_of_each_are_as_of_gymnasiums_own_vector(make, closed):
    scenarios = [scenario(), scenario(others=2)]
    options = {"world": "twin", "max_tuned": 2, "numeric_infos": True, "flow_capacity": 4}
    ours = make(2, scenario=scenarios, **options)
    singles = [lambda one=one: plain_envs.make("bbrgym/Tune-v2", scenario=one, **options) for one in scenarios]
    theirs = closed(SyncVectorEnv(singles))
    for envs in (ours, theirs):
        envs.reset(seed=1)
        envs.step(envs.action_space.sample() * 0.0)
        saved = envs.call("save")
        steps = [envs.step(envs.action_space.sample() * 0.0)[0] for _ in range(8)]  # beyond the ends
        envs.call("restore", saved[1])
        assert envs.step(envs.action_space.sample() * 0.0)[0][0].tobytes() == steps[0][1].tobytes()
        envs.set_attr("note", [1, 2])
        assert envs.get_attr("note") == (1, 2)
        with pytest.raises(ValueError, match="values for 2 environments"):
            envs.set_attr("note", [1, 2, 3])
        with pytest.raises(AttributeError):
            envs.call("tunabels")
    for name in ("tunables", "action_space", "observation_names", "render_mode", "render", "max_tuned"):
        assert ours.call(name) == theirs.call(name)
    assert [one.kwargs["scenario"] for one in ours.get_attr("spec")] == scenarios


def test_its_spec_makes_it_again(make):
    envs = make(2, scenario=scenario())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = gymnasium.make_vec(envs.spec)
    assert (again.num_envs, type(again)) == (2, type(envs))
    again.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_broken_world_is_an_error_and_a_reset_goes_on(make, threads):
    envs = make(2, world="ns3", isolation="process", scenario=scenario(), threads=threads)
    first = envs.reset(seed=4)[0]
    envs.step(envs.default_actions)
    psutil.Process(envs._batch.episodes.worlds._engines[1]._process.pid).kill()
    with pytest.raises(bbrgym.WorldError, match=r"seed 5, at 0\.1 s: the worker was killed by SIGKILL"):
        envs.step(envs.default_actions)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(envs.default_actions)
    assert envs.reset(seed=4)[0].tobytes() == first.tobytes()
    envs.step(envs.default_actions)


@pytest.mark.parametrize("bad", [np.nan, 1.1])
def test_a_wrong_action_is_refused_but_not_one_that_is_left_aside(make, bad):
    envs = make(2, scenario=[scenario(0.1), scenario(1.0)])
    envs.reset(seed=1)
    actions = envs.default_actions
    actions[0, 0] = bad
    with pytest.raises(bbrgym.ConfigError, match=rf"allowed are {actions.shape[1]} numbers in \[-1, 1\]"):
        envs.step(actions)
    envs.step(envs.default_actions)
    envs.step(actions)  # resets the first one
    for wrong in (envs.default_actions[:1], envs.default_actions[:, 1:], envs.default_actions[0]):
        with pytest.raises(bbrgym.ConfigError, match="action: array"):
            envs.step(wrong)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_envs": 0}, "num_envs: 0, allowed are numbers from 1"),
        ({"scenario": [scenario()]}, "scenario: 1 for 2 environments, allowed are one or one for each"),
        ({"scenario": [scenario(), "steady"], "max_tuned": 1}, r"'with-1' has up to 2 .* 1: .*max_tuned=2"),
        ({"scenario": [Crowds(), scenario()], "max_tuned": 3}, r"Crowds .* has up to 4 flows .* at most 3"),
        ({"max_tuned": 0}, "max_tuned: 0, allowed are whole numbers from 1"),
        ({"scenario": Boundless()}, "max_tuned: 10000000, allowed are whole numbers from 1 to 1000"),
        ({"autoreset_mode": "Never"}, "autoreset_mode: 'Never', allowed are NextStep, SameStep, Disabled"),
        *(
            ({"max_episode_steps": wrong}, f"max_episode_steps: {wrong!r}, allowed are whole numbers from 1")
            for wrong in (0, -1, 1.5, True, "3")
        ),
    ],
)
def test_wrong_arguments(make, options, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        make(**{"num_envs": 2, **options})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"seed": [1]}, "seed: 1 seeds for 2 environments"),
        ({"seed": 2**63 - 1}, r"seed: 9223372036854775808, allowed are integers from 0 to 2\*\*63 - 1"),
        ({"options": {"reset_mask": [True, True]}}, "allowed is an array of 2 bool"),
        ({"options": {"reset_mask": np.zeros(2, bool)}}, "has no True"),
        ({"options": {"scenrio": "steady"}}, r"reset options: \['scenrio'\], allowed is scenario"),
        ({"options": {"scenario": crowd(3)}}, "'crowd-of-3' has up to 3 .* at most 2: make one with max_tuned=3"),
        ({"options": {"scenario": ["steady"]}}, "scenario: 1 for 2 environments"),
    ],
)
def test_wrong_resets(make, arguments, text):
    envs = make(2, scenario=scenario())
    envs.reset(seed=1)
    with pytest.raises(bbrgym.ConfigError, match=text):
        envs.reset(**arguments)
    envs.reset(seed=1)
    envs.step(envs.default_actions)


def test_room_is_made_for_the_most_tuned_flows_of_any(make):
    def rooms(*scenarios, **options):
        return make(len(scenarios), scenario=scenarios, **options).unwrapped.max_tuned

    assert rooms("steady", scenario(), crowd(3)) == 3
    assert rooms("steady", Crowds(), crowd(3)) == 4
    assert rooms("steady", lambda seed: crowd(5)) == 5
    assert rooms("steady", crowd(3), max_tuned=7) == 7
    with pytest.raises(bbrgym.ConfigError, match=r"'with-1' has up to 2 flows with role tuned, .* at most 1"):
        make(1, scenario=lambda seed: scenario() if seed == 3 else "steady").reset(seed=3)
