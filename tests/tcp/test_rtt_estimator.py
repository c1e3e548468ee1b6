# SPDX-License-Identifier: GPL-2.0-only
"""How long the retransmission timer waits beside the smoothed RTT: rtt_facts.cc, ten RTTs a round trip, in ms."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

Waits = Callable[..., list[float]]

STEADY = [50] * 40  # the deviation of the first RTT is forgotten
LEAST_MS = 200
TOLERANCE_MS = 0.01


@pytest.fixture
def waits(run_program: Callable[..., str]) -> Waits:
    """Returns the wait after each RTT that follows STEADY."""

    def run(variation: str, *rtts_ms: object) -> list[float]:
        lines = run_program("rtt_facts", variation, *STEADY, *rtts_ms).split()
        return [float(line) for line in lines][len(STEADY) :]

    return run


@pytest.mark.parametrize("variation", ["largest", "mean"])
def test_a_late_ack_lengthens_the_wait_by_as_much(waits: Waits, variation: str) -> None:
    assert waits(variation, "=", 50 + 400) == pytest.approx([LEAST_MS, 400], abs=TOLERANCE_MS)


def test_the_wait_outlasts_the_acks_of_its_round_and_then_falls_by_a_quarter_each_round(waits: Waits) -> None:
    """As Linux's tcp_rtt_estimator: a burst of ACKs does not hide that its first one was late."""
    after = waits("largest", 50 + 400, *["="] * 60)
    falls = [round(before - now, 3) for before, now in itertools.pairwise(after) if now != before]
    assert after[9] == pytest.approx(400, abs=TOLERANCE_MS)
    assert falls == pytest.approx([(400 - LEAST_MS) / 4 * 0.75**n for n in range(len(falls))], abs=0.1)
    assert len(falls) >= 3


def test_a_mean_deviation_is_forgotten_within_the_acks_of_a_burst(waits: Waits) -> None:
    assert waits("mean", 50 + 400, *["="] * 9)[-1] == pytest.approx(LEAST_MS, abs=TOLERANCE_MS)


def test_an_rtt_far_below_the_expected_one_counts_for_an_eighth(waits: Waits) -> None:
    """The path was 4 s long and is no longer: the wait is as a mean deviation's would be of an eighth."""
    assert waits("mean", *[4000] * 80, 50)[-1] == pytest.approx(4000 - 50, rel=0.01)
    assert waits("largest", *[4000] * 400, 50)[-1] == pytest.approx((4000 - 50) / 8, rel=0.05)
