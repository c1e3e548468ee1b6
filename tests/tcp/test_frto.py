# SPDX-License-Identifier: GPL-2.0-only
"""F-RTO's test of a timeout, and what proves a recovery needless, by events alone (frto_facts.cc)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Last = Callable[[str, str], str]


@pytest.fixture
def last(run_program: Callable[..., str]) -> Last:
    """Returns the state after the last event."""
    return lambda of, events: run_program("frto_facts", of, events).split()[-1]


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ("t", "1,0"),
        ("ta", "1,1"),  # new data is to leave before retransmissions
        ("tan", "1,1"),  # an ACK of the old says nothing more
        ("tas", "0,1"),  # new data overtook the old
        ("tau", "0,1"),
        ("tf", "1,0"),  # all arrived: there is nothing left to test
        ("tah", "0,0"),  # no test without new data
        ("tap", "1,0"),  # what counts as lost leaves first
        ("ra", "0,0"),
    ],
)
def test_a_timeout_is_tested_by_new_data(last: Last, events: str, state: str) -> None:
    """As: the test goes on, new data is to leave."""
    assert last("frto", events) == state


@pytest.mark.parametrize(
    ("events", "proofs"),
    [
        ("x", "0,0,0"),  # without a recovery there is nothing to undo
        ("b", "0,1,1"),  # nothing was retransmitted yet: what arrives is an original
        ("bx", "0,1,0"),  # what left before the first retransmission is one
        ("bxd", "1,1,0"),
        ("bxxd", "0,1,0"),  # each has to be reported
        ("bxo", "0,1,0"),  # of before the recovery
        ("bxg", "0,1,1"),
        ("bxde", "0,0,0"),
    ],
)
def test_a_recovery_is_undone_by_reports_of_duplicates_or_by_what_was_delayed(
    last: Last, events: str, proofs: str
) -> None:
    """As: by D-SACKs, by an echo of before the first retransmission, by one of its time."""
    assert last("undo", events) == proofs
