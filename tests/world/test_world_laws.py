# SPDX-License-Identifier: GPL-2.0-only
"""The parts that the C++ worlds share, by their laws and against brute force (laws.cc)."""

import subprocess
from pathlib import Path

import compilers
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES = [
    HERE / "laws.cc",
    *(ROOT / "world" / f"{name}.cpp" for name in ("codel", "measurement", "red", "scenario", "stack")),
]


@pytest.fixture(scope="module")
def laws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compilers.build(tmp_path_factory.mktemp("world") / "laws", SOURCES, ["world", "cc"])


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_laws(laws: Path, seed: int) -> None:
    run = subprocess.run(
        [str(laws), str(seed)], capture_output=True, text=True, timeout=compilers.PATIENCE_S, check=False
    )
    assert run.returncode == 0, run.stderr
