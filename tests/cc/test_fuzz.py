# SPDX-License-Identifier: GPL-2.0-only
"""fuzz_cc.c for a bounded number of operations under ASan and UBSan."""

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
CC = HERE.parents[1] / "cc"


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("fuzz") / "fuzz_cc"
    subprocess.run(
        [
            *("gcc", "-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
            *(f"-I{CC}", str(HERE / "fuzz_cc.c"), "-o", str(program)),
        ],
        check=True,
        timeout=120,
    )
    return program


@pytest.mark.parametrize("seed", range(1, 5))
def test_no_life_breaks_an_invariant(fuzzer: Path, seed: int) -> None:
    run = subprocess.run(
        [str(fuzzer), str(seed), "400000"], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "400000 operations\n"
