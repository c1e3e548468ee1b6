# SPDX-License-Identifier: GPL-2.0-only
"""Either side is killed at a random message; benchmarks/ns3gym_resets.py does it more often."""

import gc
from multiprocessing import forkserver, resource_tracker

import pytest
from kills import carry_out, kills
from trees import guardians, open_fds


@pytest.fixture(autouse=True)
def _nothing_is_left():
    forkserver.ensure_running()  # these two stay
    resource_tracker.ensure_running()
    gc.collect()
    fds = open_fds()
    yield
    assert open_fds() == fds
    assert guardians() == []


@pytest.mark.parametrize("kill", list(kills(40, seed=1)), ids=str)
def test_the_other_ends_with_a_clear_error(kill):
    carry_out(kill)
