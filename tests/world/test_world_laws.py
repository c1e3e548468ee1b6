# SPDX-License-Identifier: GPL-2.0-only
"""What the C++ worlds share, against brute force (world_laws.cc)."""

import subprocess
from pathlib import Path

import compilers
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def laws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("world") / "laws"
    subprocess.run(
        [
            *compilers.sanitizing(compilers.CXX),
            *("-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"),
            *(f"-I{ROOT / 'world'}", f"-I{ROOT / 'cc'}"),
            *(str(HERE / "world_laws.cc"), "-o", str(program)),
        ],
        check=True,
        timeout=120,
    )
    return program


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_laws(laws: Path, seed: int) -> None:
    run = subprocess.run([str(laws), str(seed)], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
