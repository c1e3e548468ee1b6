# SPDX-License-Identifier: GPL-2.0-only
"""The facts of ns-3.28's sender, each beside its other value (ns3_facts.cc)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

Facts = Callable[[str], dict[str, float]]


@pytest.fixture
def facts(run_experiment) -> Facts:
    return functools.partial(run_experiment, "ns3_facts", kind=float)


# ---- losses ----------------------------------------------------------------------------------------------


def test_segments_are_lost_once_three_beyond_them_are_sacked(facts: Facts) -> None:
    seen = facts("counting")
    assert [seen[f"lost_by_{sacked}"] for sacked in (1, 2, 3, 4)] == [0, 0, 5, 0]
    assert seen["has_a_timer"] == 0


@pytest.mark.parametrize(("experiment", "extra"), [("counting", 0), ("counting_sacked_retransmissions", 2)])
def test_a_sacked_retransmission_may_count_as_in_flight_until_acknowledged(
    facts: Facts, experiment: str, extra: int
) -> None:
    seen = facts(experiment)
    assert seen["in_flight_with_two_sacked"] == 2 + extra, "the first retransmission and the last segment"
    assert seen["lost_retransmit"] == 0
    assert seen["in_flight_with_two_acknowledged"] == 1
    assert seen["in_flight_after_a_timeout"] == 0


def test_no_retransmission_is_found_lost_but_by_the_timer(facts: Facts) -> None:
    assert facts("lost_retransmission") == {"timeouts": 1, "undelivered": 0}


def test_a_partial_ack_sends_the_next_hole_again_though_that_is_on_its_way(facts: Facts) -> None:
    plain, seen = facts("holes"), facts("holes_partial_ack_sends")
    assert (plain["transmissions_of_holes"], plain["duplicates"]) == (8, 0)
    assert (seen["transmissions_of_holes"], seen["duplicates"]) == (8 + 3, 3)
    assert plain["undelivered"] == seen["undelivered"] == 0


def test_losses_by_change_count_what_is_repaired_too(facts: Facts) -> None:
    assert facts("holes")["lost_pkts"] == 4
    assert facts("holes_change")["lost_pkts"] == 8


def test_in_a_recovery_the_first_partial_ack_alone_restarts_the_timer(facts: Facts) -> None:
    assert facts("holes")["deadlines"] == 3, "three of the four holes' repairs leave another"
    assert facts("holes_without_restarts")["deadlines"] == 1


# ---- RTTs and the timer ----------------------------------------------------------------------------------


def test_an_rtt_is_of_each_segment_or_of_the_head_in_steps_of_the_clock(facts: Facts) -> None:
    names = ("by_sack_us", "newest_us", "oldest_us")
    assert [facts("rtts")[name] for name in names] == [89_900, 99_900, 109_900]
    assert [facts("rtts_of_the_head")[name] for name in names] == pytest.approx([-0.001, 109_900, 109_900])
    assert [facts("rtts_in_ms")[name] for name in names] == [90_000, 100_000, 110_000]


def test_the_smallest_rtt_may_be_of_the_smoothed_one(facts: Facts) -> None:
    assert facts("rtts")["smallest_us"] == 89_900
    assert facts("rtts_smoothed")["smallest_us"] == 95_000


def test_the_least_time_bounds_the_variation_or_the_whole(facts: Facts) -> None:
    assert facts("first_timeout")["at_ms"] == 50 + 200
    assert facts("first_timeout_of_a_second")["at_ms"] == 1000
    assert facts("first_timeout_of_a_tenth")["at_ms"] == 50 + 4 * 25


# ---- the delivery rate -----------------------------------------------------------------------------------


def test_a_kept_sample_counts_what_a_later_ack_delivers_over_its_own_interval(facts: Facts) -> None:
    fresh, kept = facts("rates"), facts("rates_kept")
    assert (fresh["first_pkts"], fresh["first_ms"]) == (2, 100)
    assert (kept["first_pkts"], kept["first_ms"]) == (-1, pytest.approx(0, abs=1e-5)), "nothing was delivered before"
    assert (fresh["second_pkts"], fresh["second_ms"]) == (kept["second_pkts"], kept["second_ms"]) == (1, 100)
    assert (fresh["third_pkts"], fresh["third_ms"]) == (2, 110)
    assert (kept["third_pkts"], kept["third_ms"]) == (2, 100)


def test_an_interval_below_the_smallest_rtt_gives_no_rate_or_the_last_one(facts: Facts) -> None:
    assert facts("rates")["fourth_ms"] == pytest.approx(0, abs=1e-5)
    kept = facts("rates_kept")
    assert (kept["fourth_pkts"], kept["fourth_ms"]) == (2, 100)
