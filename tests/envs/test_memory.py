# SPDX-License-Identifier: GPL-2.0-only
"""The memory of flows: laws of each number, and the same numbers in every episode and after a restore."""

import math

import gymnasium
import numpy as np
import plain_envs
import pytest
from vectors import Crowds, assert_same, coming_and_going, scenario

import bbrgym
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.memory import EWMA_S, FlowMemory, Remembered
from bbrgym.envs.observation import FEATURE_LISTS, FEATURES, SenderObservation
from bbrgym.envs.smoothing import ExponentialMeans
from bbrgym.worlds import VectorWorld

FIELDS = VectorWorld.flow_fields
MEMORY = SenderObservation(1, 0, [feature.name for feature in FEATURES]).memory_terms
DELIVERY = "delivery_rate_mbps"
QUEUE = ("srtt_ms", "min_rtt_ms")


def stats_of(*columns):
    """Measurements of flows, [fields, flows]; what is not named is 0."""
    return np.array([[values.get(name, 0.0) for values in columns] for name in FIELDS])


def known(**values):
    """An interval of an active flow that has had an RTT sample."""
    return {"active": 1.0, "rtt_mean_ms": 10.0, **values}


def after(remembered, *intervals, interval_s=0.5):
    """What is remembered of one flow after some intervals."""
    memory = FlowMemory([remembered], FIELDS, interval_s, (1, 1))
    for values in intervals:
        memory.add(stats_of(values))
    extended = memory.extend(stats_of({}))
    assert memory.fields[-1] == str(remembered)
    return extended[-1, 0]


def test_each_number_of_three_intervals():
    rates = [known(**{DELIVERY: rate}) for rate in (4.0, 0.0, 2.0)]
    assert after(Remembered("max", DELIVERY), *rates) == 4.0
    assert after(Remembered("min", DELIVERY), *rates) == 0.0
    assert after(Remembered("mean", DELIVERY), *rates) == 2.0
    assert after(Remembered("total", DELIVERY), *rates) == 6.0
    assert after(Remembered("seconds", DELIVERY), *rates) == 1.0
    keep = np.exp(-0.5 / EWMA_S)
    expected = (4.0 * keep**2 + 2.0) / (keep**2 + keep + 1.0)
    assert after(Remembered("ewma", DELIVERY), *rates) == pytest.approx(expected, rel=1e-12)


def test_low_is_the_least_of_a_window_and_high_falls():
    rates = [known(**{DELIVERY: rate}) for rate in (1.0, 5.0, 4.0, 6.0, 3.0, 7.0, 8.0, 9.0)]
    low, high = Remembered("low", DELIVERY, over_s=2.0), Remembered("high", DELIVERY, over_s=2.0)
    lows = [after(low, *rates[: count + 1]) for count in range(len(rates))]
    assert lows == [1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0], "of the last three or four intervals of half a second"
    assert after(high, *rates[:2]) == 5.0
    assert after(high, *rates[:3]) == pytest.approx(4.0 + np.exp(-0.25), rel=1e-12)
    assert after(high, *rates[:4]) == 6.0


def test_a_difference():
    queues = [known(srtt_ms=srtt, min_rtt_ms=20.0) for srtt in (30.0, 25.0, 19.0)]
    assert after(Remembered("max", *QUEUE), *queues) == 10.0
    assert after(Remembered("mean", *QUEUE), *queues) == 5.0
    assert after(Remembered("min", *QUEUE), *queues) == 0.0, "a difference below 0 counts as 0"
    assert after(Remembered("min", *QUEUE), *queues[:2], known(srtt_ms=5.0)) == 5.0, "what is not known is no 0"


@pytest.mark.parametrize("kind", ["max", "min", "mean", "ewma", "total", "seconds"])
def test_only_intervals_of_an_active_flow_count(kind):
    one, other = known(srtt_ms=30.0), known(srtt_ms=10.0)
    idle = {**known(srtt_ms=99.0), "active": 0.0}
    remembered = Remembered(kind, "srtt_ms")
    assert after(remembered, idle) == 0.0
    assert after(remembered, idle, one, other) == after(remembered, one, other)
    if kind != "ewma":  # in which time passes
        assert after(remembered, one, idle, other) == after(remembered, one, other)


def test_extremes_and_means_wait_for_a_sample_and_totals_do_not():
    waiting = {"active": 1.0, "sent_pkts": 10.0, "srtt_ms": 0.0}
    for kind in ("max", "min", "mean", "ewma"):
        assert after(Remembered(kind, "srtt_ms"), waiting, known(srtt_ms=40.0)) == 40.0
    assert after(Remembered("total", "sent_pkts"), waiting, known(sent_pkts=5.0)) == 15.0
    assert after(Remembered("seconds", "active"), waiting, known()) == 1.0


def test_a_reset_forgets_an_environment_and_no_other():
    memory = FlowMemory(MEMORY, FIELDS, 0.1, (1, 2))
    fresh = memory.extend(stats_of({}, {}))
    assert not fresh.any()
    stats = stats_of(*[known(**dict.fromkeys(FIELDS[3:], 7.0))] * 2)
    memory.add(stats)
    kept = memory.extend(stats)[:, 1].copy()
    memory.reset([0])
    assert memory.extend(stats_of({}, {}))[:, 0].tobytes() == fresh[:, 0].tobytes()
    assert memory.extend(stats)[:, 1].tobytes() == kept.tobytes()
    memory.add(stats, starting=[1])
    assert not memory.extend(stats_of({}, {}))[:, 1].any(), "what is measured at the beginning is no interval"


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind: 'median', expected one of max, min, mean, ewma, total, seconds"):
        Remembered("median", "srtt_ms")  # type: ignore[arg-type]
    for kind, over_s in (("low", None), ("max", 1.0), ("high", 0.0)):
        with pytest.raises(ValueError, match=r"over_s: .*, expected"):
            Remembered(kind, "srtt_ms", over_s=over_s)


# ---- in environments -----------------------------------------------------------------------------------


def test_a_new_episode_begins_without_a_memory():
    env = plain_envs.make("bbrgym/Tune-v2", world="twin", features="memory", scenario=scenario(0.6)).unwrapped
    first, _ = env.reset(seed=1)
    begin = first.copy()
    remembered = slice(len(FEATURE_LISTS["instant"]), len(FEATURE_LISTS["memory"]))
    assert not first[remembered].any()
    steps = [env.step(env.default_action)[0] for _ in range(4)]
    assert (steps[-1][remembered] > 0).sum() >= 10
    again, _ = env.reset(seed=1)
    assert again.tobytes() == begin.tobytes()
    assert [env.step(env.default_action)[0].tobytes() for _ in range(4)] == [step.tobytes() for step in steps]
    env.close()


# ---- snapshots -----------------------------------------------------------------------------------------

SHAPES = [
    {"features": "memory", "frame_stack": 2},
    {"features": "memory", "view": "pooled", "reward_horizon_s": 0.5, "critic": True},
    {"action_kind": "relative", "max_change": 0.3, "variant": "bbr-mix"},
]


@pytest.mark.parametrize("options", SHAPES, ids=str)
def test_a_restored_episode_goes_on_bit_for_bit(options):
    env = plain_envs.make("bbrgym/Tune-v2", world="twin", scenario=coming_and_going(), **options).unwrapped
    env.reset(seed=4)
    env.action_space.seed(4)
    actions = [env.action_space.sample() for _ in range(10)]
    for action in actions[:4]:
        at_save = env.step(action)
    snapshot = env.save()
    rest = [env.step(action) for action in actions[4:]]
    for _ in range(2):  # any number of times
        observation, info = env.restore(snapshot)
        assert_same(observation, at_save[0])
        assert info["now_s"] == at_save[4]["now_s"]
        for expected, action in zip(rest, actions[4:], strict=True):
            seen = env.step(action)
            assert_same(seen[0], expected[0])
            assert seen[1:4] == expected[1:4]
            assert_same(seen[4]["reward_terms"], expected[4]["reward_terms"])
    env.close()


def test_a_vector_takes_snapshots_of_a_single_environment():
    options = {"world": "twin", "features": "memory", "variant": "bbr-mix", "max_tuned": 4}
    one = plain_envs.make("bbrgym/Tune-v2", scenario=Crowds(), **options).unwrapped
    many = plain_envs.make_vec("bbrgym/Tune-v2", num_envs=3, scenario=Crowds(), **options).unwrapped
    one.reset(seed=8)
    many.reset(seed=1)
    for _ in range(2):
        one.step(one.default_action)
        many.step(many.default_actions)
    snapshot, others = one.save(), many.save(1)
    for index in (0, 2):
        many.restore(index, snapshot)
    assert many.save(1).arrays[0].tobytes() == others.arrays[0].tobytes()
    expected, *_, info = one.step(one.default_action)
    observations, *_, infos = many.step(many.default_actions)
    for index in (0, 2):
        assert observations[index].tobytes() == expected.tobytes()
        assert (infos["seed"][index], infos["now_s"][index]) == (8, info["now_s"])
    one.close()
    many.close()


def test_flows_with_a_controller_each_are_restored_too():
    options = FlowOptions(**{**plain_envs.PLAIN, "world": "twin", "features": "memory", "scenario": coming_and_going()})
    batch = FlowBatch(2, options, runs_to_the_end=True)
    batch.reset([0, 1], [1, 2])
    actions = np.stack([np.stack([batch.action.default] * batch.max_tuned)] * 2)
    for _ in range(4):
        batch.simulate(actions)
    snapshot = batch.save(0)
    batch.restore(1, snapshot)
    for _ in range(4):
        batch.simulate(actions)
        observations = batch.observe()
        assert observations[0].tobytes() == observations[1].tobytes()
        assert batch.will_act[0].tolist() == batch.will_act[1].tolist()
    batch.episodes.close()


def test_a_snapshot_of_another_environment_is_refused():
    one, other = (
        plain_envs.make("bbrgym/Tune-v2", world="twin", scenario=scenario(), **options).unwrapped
        for options in ({"features": "memory"}, {"features": "instant"})
    )
    with pytest.raises(gymnasium.error.ResetNeeded):
        one.save()
    one.reset(seed=1)
    other.reset(seed=1)
    with pytest.raises(bbrgym.ConfigError, match=r"snapshot: of an environment with features \('active', .*allowed is"):
        other.restore(one.save())
    other.step(other.default_action)
    one.close()
    other.close()


# ---- means over some seconds, from which rewards are computed ----------------------------------------


SMOOTHING_FIELDS = ("active", "goodput_mbps", "fair_share_mbps", "rtt_mean_ms", "rtt_samples", "cwnd_pkts")


def interval(active, goodput, fair_share, rtt, samples):
    return np.array([active, goodput, fair_share, rtt, samples, 7.0]).reshape(-1, 1, 1)


def test_a_mean_weighs_intervals_by_their_age():
    averages = ExponentialMeans(SMOOTHING_FIELDS, 2.0, 0.5, (1, 1))
    rows = [(1.0, 4.0, 8.0, 20.0, 10.0), (1.0, 2.0, 8.0, 60.0, 1.0), (1.0, 0.0, 4.0, 30.0, 0.0)]
    for row in rows:
        averaged = averages.update(interval(*row))[:, 0, 0]
    ages = np.exp(-0.5 * np.array([2, 1, 0]) / 2.0)
    goodput, fair_share, rtt, samples = np.array(rows).T[1:]
    assert averaged[1] == pytest.approx(np.average(goodput, weights=ages))
    assert averaged[2] == pytest.approx(np.average(fair_share, weights=ages))
    assert averaged[3] == pytest.approx(np.average(rtt, weights=ages * samples))
    assert averaged[[0, 4, 5]].tolist() == [1.0, 0.0, 7.0]


def test_what_was_before_a_flow_or_a_run_does_not_count():
    averages = ExponentialMeans(SMOOTHING_FIELDS, 2.0, 0.5, (1, 1))
    averages.update(interval(0.0, 9.0, 9.0, 9.0, 9.0))
    assert averages.update(interval(1.0, 4.0, 8.0, 20.0, 3.0))[1:4, 0, 0].tolist() == [4.0, 8.0, 20.0]
    averages.reset([0])
    assert averages.update(interval(1.0, 1.0, 2.0, 30.0, 3.0))[1:4, 0, 0].tolist() == [1.0, 2.0, 30.0]


def rewards(horizon_s, steps, **others):
    options = {"world": "twin", "scenario": "congested", "variant": "bbr", "reward_horizon_s": horizon_s, **others}
    env = plain_envs.make("bbrgym/Tune-v2", **options)
    env.reset(seed=1)
    gained = [env.step(env.unwrapped.default_action)[1] for _ in range(steps)]
    env.close()
    return np.array(gained)


def test_a_short_horizon_is_none_and_a_longer_one_smooths():
    alone, short, longer = (
        rewards(horizon_s, steps=150, reward={"throughput": 1.0}) for horizon_s in (None, 1e-3, 5.0)
    )
    np.testing.assert_allclose(short, alone, rtol=1e-12)
    assert np.std(longer[50:]) < 0.25 * np.std(alone[50:])  # from a horizon on


@pytest.mark.slow
def test_the_longer_the_horizon_the_nearer_the_mean_reward_is_to_the_score():
    """Up to some seconds: from then on the gap is that of a mean of logarithms, whatever the horizon."""
    score = bbrgym.evaluate("congested", ["bbr"], seeds=[1], world="twin")["score"][0]
    scenario = bbrgym.load_scenario("congested")
    steps = math.ceil(scenario.duration_s / 0.1)
    warmup = math.ceil(scenario.resolved().warmup_s / 0.1)
    gaps = [abs(rewards(horizon_s, steps=steps)[warmup:].mean() - score) for horizon_s in (None, 0.3, 3.0)]
    assert gaps[0] > gaps[1] > gaps[2]
