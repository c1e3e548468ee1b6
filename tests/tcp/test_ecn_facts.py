# SPDX-License-Identifier: GPL-2.0-only
"""The receiver's echo of marks, in Linux's and in ns-3's way (ecn_facts.cc); `E` is an ACK with an echo."""

import functools
from collections.abc import Callable

import pytest

Facts = Callable[[str], dict[str, str]]


@pytest.fixture
def facts(run_experiment) -> Facts:
    return functools.partial(run_experiment, "ecn_facts")


def test_linux_echoes_a_mark_at_once_until_the_sender_has_reduced(facts: Facts) -> None:
    seen = facts("linux")
    assert seen["plain"] == ".!.!"
    assert (seen["marked"], seen["after"]) == ("E", "E.E.")  # two quick ACKs, then every second segment
    assert seen["reduced"] == "!"
    assert seen["then"] == ".!.!"
    assert (seen["both"], seen["reduced_again"]) == ("E", "!")


def test_linux_takes_no_mark_from_a_duplicate_but_from_what_was_late(facts: Facts) -> None:
    seen = facts("linux")
    assert seen["duplicate"] == "!"
    assert (seen["beyond_a_gap"], seen["late_original"]) == ("!", "E")


def test_linux_answers_what_is_not_capable_at_once(facts: Facts) -> None:
    seen = facts("linux")
    assert (seen["retransmission"], seen["after_it"]) == ("!", "!.!.")


def test_ns3_echoes_with_its_next_ack_and_takes_marks_in_order_of_sequence(facts: Facts) -> None:
    seen = facts("ns3")
    assert (seen["marked"], seen["reduced_before_an_answer"]) == (".", "E")
    assert seen["after"] == ".E"
    assert seen["reduced"] == ".!"
    assert (seen["newer"], seen["older"]) == ("E", "!")


def test_without_ecn_nothing_is_echoed(facts: Facts) -> None:
    assert facts("none")["marked"] == ".!.!"
