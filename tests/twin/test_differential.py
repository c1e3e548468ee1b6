# SPDX-License-Identifier: GPL-2.0-only
"""Random scenarios in the twin and in ns-3; `benchmarks/twin_fuzz.py --worlds` compares as many as one likes."""

import json

import differential
import pytest
from equal_worlds import compared
from random_scenarios import random_scenario_of_laws

import bbrgym
from bbrgym.scenario.distribution import split_seeds

SCENARIOS = 500
NETWORK_SCENARIOS = 200
BLOCK = 50


@pytest.mark.parametrize("first_seed", range(0, SCENARIOS, BLOCK))
def test_the_twin_equals_ns3(first_seed: int) -> None:
    """Every column of every ACK's record, every interval's table and the summaries are equal, bit for bit."""
    sent, differences = zip(*(differential.packets_and_difference(first_seed + i) for i in range(BLOCK)), strict=True)
    assert [sentence for sentence in differences if sentence] == []
    assert sum(sent) > BLOCK * 100, "the scenarios send next to nothing"


@pytest.mark.parametrize("network", ["reverse", "links", "parts", "delays"])
@pytest.mark.parametrize("first_seed", range(0, NETWORK_SCENARIOS, BLOCK))
def test_the_twin_equals_ns3_in_networks(first_seed: int, network: str) -> None:
    seeds = range(first_seed, first_seed + BLOCK)
    sent, differences = zip(*(differential.packets_and_difference(seed, network) for seed in seeds), strict=True)
    assert [sentence for sentence in differences if sentence] == []
    assert sum(sent) > BLOCK * 100, "the scenarios send next to nothing"


@pytest.mark.parametrize("number", [2, 25])
def test_draws_of_commons_are_equal(number: int) -> None:
    """Five flows beside five of BBR v3, with a step; a flow beside five of BBR v1 and four of Reno; both with loss."""
    (seed,) = split_seeds("test", 1, number)
    mapping = json.loads(bbrgym.load_distribution("commons")(seed).resolved_json())
    assert len(mapping["flows"]) == 10
    assert compared(mapping, seed, step_s=1.0)[1] is None


def test_a_late_original_does_not_end_an_echo_of_ns3s_receiver() -> None:
    """It reports the sender's reduction, below what the receiver has."""
    assert differential.packets_and_difference(9911)[1] is None


def test_timestamps_measure_round_trips_of_minutes() -> None:
    mapping = random_scenario_of_laws(2180)
    columns, difference = compared(mapping, 2180, mapping["duration_s"] / 7)
    assert difference is None
    rtt_us = columns["flow 0, ACKs' rtt_us"]
    assert rtt_us.max() > 65_536_000
    assert rtt_us[rtt_us >= 0].min() > 1e3 * (mapping["flows"][0]["rtt_ms"] - 1)
