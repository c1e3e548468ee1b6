# SPDX-License-Identifier: GPL-2.0-only
"""The sender's scoreboard against a FIFO network that drops packets (scoreboard_laws.cc)."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MODEL = HERE.parents[1] / "ns3-scratch" / "model"


@pytest.fixture(scope="module")
def laws(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.fail("a C++ compiler is part of what the tests need")
    program = tmp_path_factory.mktemp("scoreboard") / "laws"
    subprocess.run(
        [
            *(compiler, "-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror"),
            *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{MODEL}"),
            *(str(HERE / "scoreboard_laws.cc"), str(MODEL / "scoreboard.cc"), "-o", str(program)),
        ],
        check=True,
        timeout=120,
    )
    return program


@pytest.mark.parametrize("seed", range(1, 9))
def test_every_drop_is_marked_lost_exactly_once(laws: Path, seed: int) -> None:
    run = subprocess.run([str(laws), str(seed), "20000"], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    assert "drops" in run.stdout
