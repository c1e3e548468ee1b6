# SPDX-License-Identifier: GPL-2.0-only
"""When the receiver answers and with which blocks (receiver_facts.cc), and against a std::set (receiver_laws.cc).

Arrivals come a millisecond apart; `!` stands for an answer at once, `.` for none, `@` for one that came later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

Facts = Callable[[str], dict[str, str]]


@pytest.fixture
def facts(run_experiment) -> Facts:
    return functools.partial(run_experiment, "receiver_facts")


def test_linux_answers_sixteen_at_once_then_every_second_and_a_lone_one_after_40_ms(facts: Facts) -> None:
    seen = facts("linux")
    assert seen["first_16"] == "!" * 16
    assert seen["next_5"] == ".!.!."
    assert (seen["after_a_pause"], seen["delayed_ms"]) == ("@", "40")


def test_linux_answers_at_once_while_its_window_grows(facts: Facts) -> None:
    seen = facts("window_growth")
    # 131072 bytes less a segment of 2304, of which 160/256 are payload: six times two segments above the first 44.
    ceiling_bytes = (131_072 - 2304) * 160 // 256
    growths = -(-(ceiling_bytes - 44 * 1448) // (2 * 1448))
    assert int(seen["first"]) == 16 + growths
    # A window has arrived, the buffer follows what was read in that time, and the window grows to it.
    assert seen["answers"].count("!" * 400) == 1
    assert set(seen["answers"][-1000:].strip("!").replace(".!", "")) <= {"."}, "then every second one"


def test_the_window_grows_with_segments_behind_a_gap_too(facts: Facts) -> None:
    """Linux's tcp_data_queue_ofo: by four of them, then what they take of the buffer stands against it."""
    seen = facts("window_growth_behind_a_gap")
    assert seen["gap"] == "!" * 41
    # Of the six growths four came behind the gap and one with the segment that filled it.
    assert seen["answers"].startswith("!.!.!.")


def test_the_delay_of_an_ack_follows_a_slow_pace_and_a_pause_brings_quick_ones(facts: Facts) -> None:
    seen = facts("adaptive_delay")
    # 40 ms, then half of it and the 30 ms since the segment before, twice.
    assert float(seen["delayed_ms"]) == (40 / 2 + 30) / 2 + 30
    assert seen["at_a_slow_pace"] == ".!.@"
    assert int(seen["quick_after_a_pause"]) == 16


@pytest.mark.parametrize(("experiment", "delay_ms"), [("", 160), ("_on_a_shorter_path", 100)])
def test_each_lone_segment_doubles_the_delay_up_to_a_round_trip(facts: Facts, experiment: str, delay_ms: int) -> None:
    """As Linux's tcp_delack_timer_handler; the delay of the third is printed last."""
    assert float(facts(f"lone_segments{experiment}")["delayed_ms"]) == delay_ms


def test_acks_of_a_gap_are_compressed_from_the_fourth_on(facts: Facts) -> None:
    seen = facts("compression")
    # The window grows by the first one, whose ACK does not count.
    assert seen["gap"] == "!" + "!!!" + ".....@" * 3 + ".", "1.1 ms hold five segments a quarter of a millisecond apart"
    assert (seen["ack"], seen["filled"]) == ("1500 1501-1520", "!")
    assert facts("compression_of_three")["gap"] == "!" + "!!!" + "...!" * 4


def test_ns3_answers_the_first_at_once_then_every_second(facts: Facts) -> None:
    seen = facts("ns3")
    assert seen["first_16"] == "!" + ".!" * 7 + "."
    assert seen["next_5"] == "!.!.!"


def test_a_gap_is_answered_at_once_until_it_is_filled(facts: Facts) -> None:
    seen = facts("gap")
    assert (seen["beyond_the_gap"], seen["ack_of_the_gap"]) == ("!!!!", "20 21-25")
    assert (seen["the_gap"], seen["ack_of_all"]) == ("!", "25")
    assert seen["after"] == ".!.!"


def test_blocks_stand_in_the_order_of_rfc_2018(facts: Facts) -> None:
    seen = facts("blocks")
    assert seen["five_stretches"] == "0 9-10 7-8 5-6 3-4", "the newest first, as many as fit"
    assert seen["two_joined"] == "0 3-6 9-10 7-8"
    assert seen["first_gap_filled"] == "2 3-6 9-10 7-8"
    assert seen["joined_again"] == "2 3-8 9-10"


def test_a_duplicate_is_reported_first_and_once(facts: Facts) -> None:
    seen = facts("linux_duplicates")
    assert seen["of_the_past"] == "20 5-6"
    assert seen["of_the_past_and_after"] == "!" * 16 + ".!.!.", "sixteen at once again"
    assert seen["beyond_the_gap"] == "40 43-44 43-44 47-48 45-46", "RFC 2883: the block it lies in follows"
    assert seen["the_next"] == "40 49-50 43-44 47-48 45-46"


def test_ns3_reports_no_duplicates(facts: Facts) -> None:
    seen = facts("ns3_duplicates")
    assert seen["of_the_past"] == "20"
    assert seen["beyond_the_gap"] == "40 47-48 45-46 43-44 41-42"


@pytest.mark.parametrize("seed", range(1, 9))
def test_laws(run_program, seed: int) -> None:
    assert "duplicates" in run_program("receiver_laws", seed, 100)
