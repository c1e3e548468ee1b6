# SPDX-License-Identifier: GPL-2.0-only
"""Draws by cost: of a stage's simulations, and of a training's episodes."""

import itertools

import numpy as np
import polars as pl
import pytest
from tiny import SCENARIO, curve, run, weights

import bbrgym
from bbrgym.agents.training.draws import CHEAP_MBPS, DrawsByCost, training_draws
from bbrgym.scenario.distribution import SPLITS

pytestmark = pytest.mark.usefixtures("undrawn_file")

FAST = {**SCENARIO, "variables": {"rate_mbps": {"log_uniform": [1, 400]}}, "duration_s": 0.5}
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
    draws, all_draws = some(2000), some(2000, by_cost=False)
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


# ---- the episodes of a training ------------------------------------------------------------------------------


def test_draws_by_cost_are_of_slower_networks_and_repeat():
    source = bbrgym.load_distribution(FAST)
    draw = DrawsByCost(source)
    rates = np.log([draw(seed).link.rate_mbps for seed in range(1000)])
    assert np.mean(rates) < np.mean(np.log([source(seed).link.rate_mbps for seed in range(1000)])) - 0.2
    assert draw(7) == draw(7) != draw(8)
    assert np.exp(rates.max()) > CHEAP_MBPS  # fast ones are rare, not left out
    total = np.log(15) + 1 - 15 / 400  # of the density: 1 / rate up to 15 Mbit/s, from there 15 / rate^2
    parts = [(15 / mbps - 15 / 400) / total for mbps in (15, 60)]
    assert [np.mean(rates > np.log(mbps)) for mbps in (15, 60)] == pytest.approx(parts, abs=0.03)


def test_the_draws_are_what_the_training_learns_from(tmp_path):
    """All else being equal, other draws lead to other weights."""
    plain = run(tmp_path / "plain", scenario=FAST, total_steps=160, draws={"by_cost": False})
    by_cost = run(tmp_path / "by_cost", scenario=FAST, total_steps=160, draws={"by_cost": True})
    assert weights(plain) != weights(by_cost) == weights(run(tmp_path / "default", scenario=FAST, total_steps=160))
    first, other = (curve(one).filter(pl.col("step") == 32)["rollout/reward"].to_list() for one in (plain, by_cost))
    assert first != other
