# SPDX-License-Identifier: GPL-2.0-only
"""Either side is killed at a random message; benchmarks/ns3gym_resets.py does the same more often."""

import gc

import psutil
import pytest
from kills import carry_out, kills
from trees import guardians, open_fds


@pytest.mark.parametrize("kill", kills(40, seed=1), ids=str)
def test_the_other_ends_with_a_clear_error_and_nothing_is_left(kill):
    gc.collect()
    fds = open_fds()
    carry_out(kill)
    assert guardians() == []
    assert open_fds() <= max(fds, FDS_WITH_FORKSERVER)


FDS_WITH_FORKSERVER = 40
