# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import plain_envs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bbrgym
from bbrgym.envs.reward import Reward
from bbrgym.envs.terms import TERMS, TermInputs
from bbrgym.targets import shipped, shipped_names
from bbrgym.worlds.fields import FLOW_FIELDS
from bbrgym.worlds.score import flow_scores, run_score

PRESETS = ["alpha_fair", "goodput", "power", "proportional"]


def intervals(goodput, rtt=10.0, capacity=8.0, base_ms=10.0):
    """What a single flow got in each of many intervals, as many environments' at once."""
    goodput = np.array(goodput, float)
    tuned = dict.fromkeys([field.name for field in FLOW_FIELDS], np.zeros_like(goodput)) | {
        "active": np.ones_like(goodput),
        "goodput_mbps": goodput,
        "fair_share_mbps": np.full_like(goodput, capacity),
        "rtt_mean_ms": np.broadcast_to(np.array(rtt, float), goodput.shape),
        "sent_pkts": np.ones_like(goodput),
    }
    tuned = {name: values[None] for name, values in tuned.items()}
    moved = np.zeros((len(goodput), 1), np.float32)
    return TermInputs(tuned, tuned, np.full((1, len(goodput)), base_ms), moved)


def mean_reward(reward, *args, **kwargs):
    return float(np.mean(reward.total(reward.terms(intervals(*args, **kwargs)))))


def score_of(goodput, rtt, delta=0.5, capacity=8.0, base_ms=10.0):
    """Of a run of equal intervals with equally many RTT samples."""
    table = [np.array([value]) for value in (np.mean(goodput), capacity, 1.0, np.mean(rtt), base_ms)]
    return flow_scores(*table, mss_bytes=1448, delta=delta).item()


@given(st.dictionaries(st.sampled_from(list(TERMS)), st.floats(-10, 10), min_size=1), st.floats(0, 4))
def test_the_total_is_the_weighted_sum(weights, alpha):
    reward = Reward({**weights, "alpha": alpha})
    terms = reward.terms(intervals([2.0, 5.0], rtt=[20.0, 30.0]))
    assert list(terms) == [name for name in TERMS if name in weights]
    assert reward.total(terms) == pytest.approx(sum(weight * terms[name] for name, weight in weights.items()))


def test_the_presets():
    assert shipped_names("reward") == PRESETS
    assert Reward().weights == Reward("proportional").weights == Reward(shipped("reward", "proportional")).weights
    for name in PRESETS:
        preset = shipped("reward", name)
        assert set(preset) >= {"throughput", "delay", "loss", "fairness", "change"}, "shown whatever is paid"
        assert Reward(name).weights == {term: preset[term] for term in TERMS if term in preset}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_fair_share_without_a_queue_is_worth_0_or_1(preset):
    assert mean_reward(Reward(preset), [8.0]) == (1.0 if preset in ("goodput", "power") else 0.0)


@pytest.mark.parametrize("preset", PRESETS)
@given(goodput=st.floats(0.5, 7.0), more=st.floats(0.05, 1.0), rtt=st.floats(10.0, 300.0), longer=st.floats(1.05, 2.0))
def test_more_goodput_is_worth_more_and_a_longer_rtt_no_more(preset, goodput, more, rtt, longer):
    reward = Reward(preset)
    now = mean_reward(reward, [goodput], rtt)
    assert mean_reward(reward, [goodput + more], rtt) > now
    later = mean_reward(reward, [goodput], rtt * longer)
    assert later == now if preset == "goodput" else later < now


# ---- how far a preset's mean is from the score ---------------------------------------------------------------------

steady = st.floats(1 / 8, 8)
stretches = st.floats(10.0, 300.0)


@given(steady, stretches)
def test_where_nothing_varies_each_preset_is_a_function_of_the_score(goodput, rtt):
    assert mean_reward(Reward("proportional"), [goodput], rtt) == pytest.approx(score_of(goodput, rtt), abs=1e-9)
    assert mean_reward(Reward("power"), [goodput], rtt) == pytest.approx(2.0 ** score_of(goodput, rtt, delta=1.0))
    assert mean_reward(Reward("goodput"), [goodput], rtt) == pytest.approx(2.0 ** score_of(goodput, rtt, delta=0.0))
    with_alpha_1 = Reward({**shipped("reward", "alpha_fair"), "alpha": 1.0})
    assert mean_reward(with_alpha_1, [goodput], rtt) == pytest.approx(score_of(goodput, rtt), abs=1e-9)


@pytest.mark.parametrize("variant", ["bbr", "bbq"])
def test_on_a_steady_link_the_default_is_the_score(variant):
    """Within what docs/environments.md says."""
    env = plain_envs.make("bbrgym/Tune-v2", world="twin", scenario="steady", variant=variant).unwrapped
    scenario = bbrgym.load_scenario("steady").resolved()
    terms, truncated = [], False
    _, info = env.reset(seed=1)
    while not truncated:
        is_counted = info["now_s"] >= scenario.warmup_s - 1e-9
        *_, truncated, info = env.step(env.default_action)
        terms += [info["reward_terms"]] if is_counted else []
    flows, _ = env._batch.episodes.worlds.summary(0)
    measured = dict(zip(env._batch.episodes.worlds.flow_summary_fields, flows.T, strict=True))
    window_s = measured["stop_s"] - measured["start_s"]
    columns = [measured["goodput_mbps"], measured["fair_share_mbps"], window_s, measured["rtt_mean_ms"]]
    rtt_ms = np.array([scenario.flows[0].rtt_ms])

    def score(delta):
        return run_score(flow_scores(*columns, rtt_ms, mss_bytes=scenario.mss_bytes, delta=delta), ["tuned"])

    throughput, delay = (np.mean([each[name] for each in terms]) for name in ("throughput", "delay"))
    assert -0.04 < throughput - score(0.0) < 0.0
    assert 0.0 < 0.5 * delay - (score(0.5) - score(0.0)) < 0.01
    assert abs(throughput + 0.5 * delay - score(0.5)) < 0.04
    env.close()


# ---- the flows that count -------------------------------------------------------------------------------------------

BESIDE = [
    {"name": "flow", "rtt_ms": 20.0},
    {"name": "cubic", "cc": "cubic", "rtt_ms": 30.0},
    {"name": "web", "cc": "cubic", "rtt_ms": 30.0, "role": "background"},
    {"name": "call", "cc": "reno", "rtt_ms": 30.0, "app": {"kind": "cbr", "rate_mbps": 1.0}},
]
CROWDED = {"duration_s": 6.0, "link": {"rate_mbps": 12.0, "queue": {"size_packets": 100}}, "flows": BESIDE}


def steps(scenario, number=8, **options):
    env = plain_envs.make("bbrgym/Tune-v2", world="twin", scenario=scenario, variant="bbr", **options).unwrapped
    env.reset(seed=1)
    found = [env.step(env.default_action) for _ in range(number)]
    env.close()
    return [(reward, dict(zip(env.flow_fields, info["flow_stats"].T, strict=True))) for _, reward, *_, info in found]


def test_the_reward_counts_tuned_and_fixed_flows():
    taken = steps(CROWDED, reward_horizon_s=None, control_interval_s=0.5)
    rest_mbps = (12.0 * 1448 / 1488 - 1.0) / 3  # of each flow beside the call, which has its 1 Mbit/s
    for reward, of in taken:
        shares = np.log2(np.clip(of["goodput_mbps"] / [rest_mbps, rest_mbps, rest_mbps, 1.0], 1 / 64, 64))
        shares[3] = min(shares[3], 0.0)  # it asks for no more
        delays = np.log2(np.maximum(of["rtt_mean_ms"] / [20.0, 30.0, 30.0, 30.0], 1.0))
        assert reward == pytest.approx((shares - 0.5 * delays)[[0, 1, 3]].mean())


def test_the_own_score_rewards_the_tuned_flows_alone():
    taken = steps(CROWDED, reward_horizon_s=None, control_interval_s=0.5, score="own")
    for reward, of in taken:
        share = np.log2(np.clip(of["goodput_mbps"][0] / (12.0 * 1448 / 1488 / 4), 1 / 64, 64))
        assert reward == pytest.approx(share - 0.5 * np.log2(max(of["rtt_mean_ms"][0] / 20.0, 1.0)))


def test_without_other_flows_both_scores_reward_the_same():
    alone = {**CROWDED, "flows": [BESIDE[0], {**BESIDE[0], "name": "second", "rtt_ms": 50.0}]}
    network, own = (steps(alone, score=score) for score in ("network", "own"))
    assert [reward for reward, _ in network] == [reward for reward, _ in own]


def test_a_snapshot_fits_where_there_is_room_for_other_numbers_of_flows():
    options = {"world": "twin", "variant": "bbr", "reward_horizon_s": 5.0}
    crowd = {**CROWDED, "flows": [BESIDE[0], {**BESIDE[1], "count": 9}]}
    first, second = (
        plain_envs.make("bbrgym/Tune-v2", scenario=scenario, **options).unwrapped for scenario in (CROWDED, crowd)
    )
    for env in (first, second):
        env.reset(seed=1)
        for _ in range(4):
            env.step(env.default_action)
    for one, other in ((first, second), (second, first)):
        snapshot = one.save()
        rewards = [one.step(one.default_action)[1] for _ in range(3)]
        other.restore(snapshot)
        assert [other.step(other.default_action)[1] for _ in range(3)] == rewards
        other.reset(seed=1)
    first.close()
    second.close()


# ---- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("powr", "reward: is 'powr'; did you mean power[?] allowed are alpha_fair, goodput, power, proportional"),
        ({"delai": 1.0}, "reward: 'delai': did you mean delay"),
        ({"delay": float("nan")}, "reward.delay: nan, allowed is a finite number"),
        ({"delay": "much"}, "reward.delay: 'much', allowed is a finite number"),
        ({"delay": True}, "reward.delay: True, allowed is a finite number"),
        ({}, "reward: {}, allowed are weights of one term at least"),
        ({"alpha": 2.0}, "allowed are weights of one term at least"),
        ({"alpha": -1.0}, "reward.alpha: -1.0, allowed are numbers from 0"),
        (7, "reward: 7, allowed is a preset's name or weights by term"),
    ],
)
def test_wrong_rewards(source, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        Reward(source)


def test_a_score_is_one_of_two():
    with pytest.raises(bbrgym.ConfigError, match="score: 'mine', allowed are network and own"):
        plain_envs.make("bbrgym/Tune-v2", score="mine")
