# SPDX-License-Identifier: GPL-2.0-only
"""The sender's scoreboard against a FIFO network that drops packets (scoreboard_laws.cc)."""

import pytest


@pytest.mark.parametrize("seed", range(1, 9))
def test_every_drop_is_marked_lost_exactly_once(run_program, seed: int) -> None:
    assert "drops" in run_program("scoreboard_laws", seed, 20000)
