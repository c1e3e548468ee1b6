# SPDX-License-Identifier: GPL-2.0-only
"""Window validation: when ACKs may raise the window, and when one that is not used falls (cwnd_facts.cc; RFC 2861)."""

from __future__ import annotations

from collections.abc import Callable

Experiment = Callable[..., dict[str, int]]


def test_acks_raise_a_window_that_held_the_sender_back(run_experiment: Experiment) -> None:
    rises = run_experiment("cwnd_facts", "rises", kind=int)
    assert rises["full"] == 1
    assert rises["half"] == 0


def test_slow_start_raises_it_to_twice_the_largest_flight(run_experiment: Experiment) -> None:
    rises = run_experiment("cwnd_facts", "rises", kind=int)
    assert rises["slow_start_half"] == 0
    assert rises["slow_start_more_than_half"] == 1


def test_in_ns3_acks_of_what_was_sent_below_a_full_window_raise_it(run_experiment: Experiment) -> None:
    rises = run_experiment("cwnd_facts", "rises", kind=int)
    assert rises["ns3_below"] == 1
    assert rises["ns3_beyond"] == 0


def test_until_linux_5_10_only_what_leaves_tells(run_experiment: Experiment) -> None:
    rises = run_experiment("cwnd_facts", "rises", kind=int)
    assert rises["held_without_sending"] == 1
    assert rises["largest_without_sending"] == 0


def test_a_window_unused_for_a_timeout_falls_to_the_largest_flight(run_experiment: Experiment) -> None:
    assert run_experiment("cwnd_facts", "falls", kind=int) == {
        "before_a_timeout": -1,
        "after_a_timeout": 8,
        "for_another_reason": -1,
        "after_a_change": -1,
        "largest_flight": 12,
        "largest_flight_since_use": 8,
    }
