# SPDX-License-Identifier: GPL-2.0-only
"""RACK's reordering window: by events alone (reordering_facts.cc), and on a path of 50 ms (sender_facts.cc)."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

Steps = Callable[[str], list[int]]
Facts = Callable[[str], dict[str, float]]

PERSISTENCE = 16  # recoveries; Linux TCP_RACK_RECOVERY_THRESH


@pytest.fixture
def steps(run_program: Callable[..., str]) -> Steps:
    return lambda events: [int(line) for line in run_program("reordering_facts", events).split()]


@pytest.fixture
def facts(run_experiment) -> Facts:
    return functools.partial(run_experiment, "sender_facts", kind=float)


def test_the_window_widens_by_a_step_for_each_round_trip_with_a_duplicate(steps: Steps) -> None:
    assert steps("a" + "da" * 5)[2::2] == [2, 3, 4, 5, 6]


def test_several_duplicates_of_a_round_trip_widen_it_once(steps: Steps) -> None:
    assert steps("addda" + "ds" * 5)[-1] == 2


def test_it_widens_to_255_steps_at_most(steps: Steps) -> None:
    assert steps("a" + "da" * 300)[-1] == 255


def test_it_falls_back_after_16_recoveries_that_were_needed(steps: Steps) -> None:
    seen = steps("adadada" + "ra" * (PERSISTENCE + 1))
    assert seen[6::2] == [4] * PERSISTENCE + [1] * 2


def test_a_recovery_undone_by_duplicates_keeps_it_longer(steps: Steps) -> None:
    assert steps("ada" + "ra" * (PERSISTENCE - 1) + "u" + "ra")[-1] == 2


def test_segments_late_by_more_than_a_step_are_sent_again_until_the_window_has_widened(facts: Facts) -> None:
    """Every 40th is late by 30 ms, more than two quarters of 50 ms: a D-SACK for each step, and then none."""
    seen = facts("many_late")
    assert (seen["steps"], seen["late_half_retransmitted"]) == (3, 0)
    assert 2 <= seen["retransmitted"] == seen["duplicates"] <= 10


def test_a_stack_whose_window_does_not_widen_sends_them_again_for_ever(facts: Facts) -> None:
    seen = facts("many_late_of_4_11")
    assert seen["steps"] == 1
    assert seen["late_half_retransmitted"] >= 20


def test_with_timestamps_a_recovery_is_undone_by_the_original_not_by_its_duplicate(facts: Facts) -> None:
    """Eifel detection (RFC 3522): half a round trip sooner than the D-SACK."""
    plain, timestamped = facts("late_original"), facts("late_original_with_timestamps")
    assert timestamped["window_restored"] >= 1
    assert (timestamped["undos"], timestamped["retransmitted"], timestamped["duplicates"]) == (1, 1, 1)
    assert timestamped["undone_after_ms"] < plain["undone_after_ms"] - 10


def test_a_recovery_in_which_nothing_was_sent_again_yet_is_undone(facts: Facts) -> None:
    """Pacing holds the retransmission back until the late original has arrived."""
    seen = facts("late_before_retransmission")
    assert (seen["reductions"], seen["undos"], seen["retransmitted"]) == (1, 1, 0)


def test_with_timestamps_what_left_before_a_retransmission_in_order_is_refused(facts: Facts) -> None:
    """PAWS (RFC 7323, section 5): the receiver drops segments older by more than 1 ms, and they are sent again."""
    plain, timestamped = facts("later_original"), facts("later_original_with_timestamps")
    assert plain["refused"] == 0
    assert timestamped["refused"] == 1
    assert plain["undelivered"] == timestamped["undelivered"] == 0
