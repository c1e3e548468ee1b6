# SPDX-License-Identifier: GPL-2.0-only
"""Draws sampled by cost."""

import itertools

import numpy as np
import pytest

import bbrgym
from bbrgym.agents.training.draws import CHEAP_MBPS, training_draws
from bbrgym.scenario.distribution import SPLITS

MIX = {
    "name": "mix",
    "variables": {"rate_mbps": {"log_uniform": [1, 200]}},
    "duration_s": 2.0,
    "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_packets": 30}},
    "flows": [{"name": "flow", "rtt_ms": 20}],
}


def some(count: int, **how):
    return list(itertools.islice(training_draws(bbrgym.load_distribution(MIX), 3, **how), count))


def test_weighted_means_are_those_of_the_distribution():
    draws, all_draws = some(4000), some(4000, by_cost=False)
    logs = [np.log(draw.scenario.link.rate_mbps) for draw in draws]
    expected = np.mean([np.log(draw.scenario.link.rate_mbps) for draw in all_draws])
    assert np.average(logs, weights=[draw.weight for draw in draws]) == pytest.approx(expected, abs=0.1)
    assert np.mean(logs) < expected - 0.2  # the fast ones are rare
    assert {draw.weight for draw in all_draws} == {1.0}


def test_only_fast_draws_weigh_more():
    for draw in some(200):
        assert (draw.weight > 1.0) == (draw.scenario.link.rate_mbps > CHEAP_MBPS)


def test_draws_are_of_the_training_split_and_repeat():
    one, two = some(50), some(50)
    assert [draw.seed for draw in one] == [draw.seed for draw in two]
    assert all(draw.seed in SPLITS["train"] for draw in one)
    assert len({draw.run_seed(number) for draw in one for number in range(3)}) == 150


def test_a_plain_scenario_is_every_draw():
    scenario = bbrgym.load_scenario("steady")
    draws = list(itertools.islice(training_draws(scenario, 1, by_cost=False), 3))
    assert all(draw.scenario is scenario for draw in draws)
    assert len({draw.seed for draw in draws}) == 3
