# SPDX-License-Identifier: GPL-2.0-only
"""Means over some seconds, from which rewards are computed."""

import math

import numpy as np
import plain_envs
import pytest

import bbrgym
from bbrgym.envs.smoothing import ExponentialMeans

FIELDS = ("active", "goodput_mbps", "fair_share_mbps", "rtt_mean_ms", "rtt_samples", "cwnd_pkts")


def interval(active, goodput, fair_share, rtt, samples):
    return np.array([active, goodput, fair_share, rtt, samples, 7.0]).reshape(-1, 1, 1)


def test_a_mean_weighs_intervals_by_their_age():
    averages = ExponentialMeans(FIELDS, 2.0, 0.5, (1, 1))
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
    averages = ExponentialMeans(FIELDS, 2.0, 0.5, (1, 1))
    averages.update(interval(0.0, 9.0, 9.0, 9.0, 9.0))
    assert averages.update(interval(1.0, 4.0, 8.0, 20.0, 3.0))[1:4, 0, 0].tolist() == [4.0, 8.0, 20.0]
    averages.reset([0])
    assert averages.update(interval(1.0, 1.0, 2.0, 30.0, 3.0))[1:4, 0, 0].tolist() == [1.0, 2.0, 30.0]


def rewards(horizon_s, steps, **others):
    options = {"world": "twin", "scenario": "congested", "variant": "bbr", "reward_horizon_s": horizon_s, **others}
    env = plain_envs.make("bbrgym/Tune-v1", **options)
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
