# SPDX-License-Identifier: GPL-2.0-only
"""Either side is killed at a random message."""

import gc
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver, resource_tracker

import pytest
from kills import carry_out, kills
from owners import open_files
from trees import guardians
from waiting import wait_until

KILLS = list(kills(40, seed=1))
AT_ONCE = 4  # the survivors mostly wait


@pytest.fixture(scope="module")
def outcomes():
    """All kills, by their number; nothing may be left of them."""
    forkserver.ensure_running()  # these two stay
    resource_tracker.ensure_running()
    gc.collect()
    files, earlier = open_files(), guardians()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield [threads.submit(carry_out, kill) for kill in KILLS]
    gc.collect()
    wait_until(lambda: open_files() <= files)  # what earlier tests left may be closed meanwhile
    assert set(guardians()) <= set(earlier)


@pytest.mark.parametrize("number", range(len(KILLS)), ids=[str(kill) for kill in KILLS])
def test_the_other_ends_with_a_clear_error(outcomes, number):
    outcomes[number].result(500.0)
