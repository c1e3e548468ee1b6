# SPDX-License-Identifier: GPL-2.0-only
"""The tail loss probe: when it leaves, and what an ACK tells of it (probe_facts.cc; RFC 8985, section 7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Experiment = Callable[..., dict[str, str]]


def test_it_waits_two_round_trips_and_longer_for_a_lone_packet(run_experiment: Experiment) -> None:
    assert run_experiment("probe_facts", "waits", kind=float) == {"no_sample": 1000, "one": 300, "several": 102}


def test_a_timeout_of_the_head_comes_first_where_the_stack_says_so_and_it_is_not_over(
    run_experiment: Experiment,
) -> None:
    expected = {"free": 300, "free_late": 300, "limited": 100, "limited_late": 300}
    assert run_experiment("probe_facts", "deadline", kind=float) == expected


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("below", "0,0,1"),
        ("up_to_it", "0,1,1"),  # it or its original
        ("up_to_it_then_duplicate", "0,0,0"),  # both arrived
        ("beyond", "1,0,0"),  # it repaired a loss
        ("d_sack", "1,0,0"),
        ("d_sack_of_another", "0,0,1"),
    ],
)
def test_what_tells_of_a_retransmission(run_experiment: Experiment, event: str, expected: str) -> None:
    """As: it repaired a loss (of a D-SACK: it is the probe's), the ACK is of it, it is still out."""
    assert run_experiment("probe_facts", "retransmission")[event] == expected


@pytest.mark.parametrize("event", ["up_to_it", "beyond"])
def test_a_new_segment_repairs_nothing(run_experiment: Experiment, event: str) -> None:
    assert run_experiment("probe_facts", "new")[event] == "0,0,0"
