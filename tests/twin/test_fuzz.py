# SPDX-License-Identifier: GPL-2.0-only
"""fuzz.cc for a bounded number of scenarios; `benchmarks/twin_fuzz.py` runs as many as one likes."""

import fuzz_program
import pytest
from random_scenarios import NETWORKS

SCENARIOS = 150  # for each seed
#: Of scenarios that broke a law once.
SEEDS = {
    "round trips above 65 s by timestamps": 7588,
    "a packet begins its transmission at a step's end": 749,
    "pacing's event comes before its deadline": 8615,
}
# Under sanitizers the engine takes a minute of two cores to compile, and twelve times as long beside a load of 25.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("first_seed", [1, 1_000_000])
def test_every_law_holds(first_seed: int, network: str) -> None:
    done = fuzz_program.run(first_seed, SCENARIOS, network)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{SCENARIOS} scenarios, ")


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_a_law_that_was_broken_holds(seed: int) -> None:
    done = fuzz_program.run(seed, 1)
    assert done.returncode == 0, done.stderr
