# SPDX-License-Identifier: GPL-2.0-only
"""fuzz_cc.c for a bounded number of operations under sanitizers."""

import subprocess
from pathlib import Path

import compilers
import pytest

HERE = Path(__file__).resolve().parent
CC = HERE.parents[1] / "cc"
# Where it works: it sees more than gcc's sanitizers, unsigned results that wrap and conversions that lose bits, which
# cc/ lets happen on purpose only.
CLANG = (
    "clang",
    "-fsanitize=address,undefined,unsigned-integer-overflow,implicit-conversion",
    f"-fsanitize-ignorelist={HERE / 'wraps_on_purpose.txt'}",
    "-fno-sanitize-recover=all",
)


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = list(CLANG) if compilers.works(*CLANG) else compilers.sanitizing(compilers.C)
    program = tmp_path_factory.mktemp("fuzz") / "fuzz_cc"
    compiled = subprocess.run(
        [*compiler, "-std=c11", "-O1", "-g1", f"-I{CC}", str(HERE / "fuzz_cc.c"), "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=compilers.PATIENCE_S,
    )
    assert compiled.returncode == 0, compiled.stderr
    return program


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_no_life_breaks_an_invariant(fuzzer: Path, seed: int) -> None:
    run = subprocess.run(
        [str(fuzzer), str(seed), "400000"], capture_output=True, text=True, timeout=compilers.PATIENCE_S, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "400000 operations\n"
