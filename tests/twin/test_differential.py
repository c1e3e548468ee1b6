# SPDX-License-Identifier: GPL-2.0-only
"""Random scenarios in the twin and in ns-3; `benchmarks/twin_fuzz.py --worlds` compares as many as one likes."""

import differential
import pytest

SCENARIOS = 500
BLOCK = 50


@pytest.mark.parametrize("first_seed", range(0, SCENARIOS, BLOCK))
def test_the_twin_equals_ns3(first_seed: int) -> None:
    """Every column of every ACK's record, every interval's table and the summaries are equal, bit for bit."""
    sent, differences = zip(*(differential.packets_and_difference(first_seed + i) for i in range(BLOCK)), strict=True)
    assert [sentence for sentence in differences if sentence] == []
    assert sum(sent) > BLOCK * 100, "the scenarios send next to nothing"


def test_a_late_original_does_not_end_an_echo_of_ns3s_receiver() -> None:
    """It reports the sender's reduction, below what the receiver has."""
    assert differential.packets_and_difference(9911)[1] is None
