# SPDX-License-Identifier: GPL-2.0-only
"""fuzz.cc for a bounded number of scenarios; `benchmarks/twin_fuzz.py` runs as many as one likes."""

import subprocess
from pathlib import Path

import compilers
import fuzz_program
import pytest

SCENARIOS = 150  # for each seed
# Under sanitizers the engine takes a minute of two cores to compile, and twelve times as long beside a load of 25.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fuzz_program.build(tmp_path_factory.mktemp("twin_fuzz"))


@pytest.mark.parametrize("first_seed", [1, 1_000_000])
def test_every_law_holds(program: Path, first_seed: int) -> None:
    command = [str(program), str(first_seed), str(SCENARIOS)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=compilers.PATIENCE_S, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"{SCENARIOS} scenarios, ")


def test_the_program_says_how_to_use_it(program: Path) -> None:
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=compilers.PATIENCE_S, check=False)
    assert run.returncode == 2
    assert "FIRST_SEED SCENARIOS" in run.stderr
