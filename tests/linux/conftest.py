# SPDX-License-Identifier: GPL-2.0-only
"""Compiles the C++ programs beside this file against linux/, with the sanitizers on, and runs them."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path

import compilers
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES = [
    "linux/path.cpp",
    "linux/flow_tap.cpp",
    "world/measurement.cpp",
    "world/codel.cpp",
    "world/red.cpp",
    "world/scenario.cpp",
]


@pytest.fixture(scope="session")
def run_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a program by its name; its output, if it has nothing to complain about."""
    folder = tmp_path_factory.mktemp("linux")

    @functools.cache
    def compiled(name: str) -> Path:
        sources = [HERE / f"{name}.cc", *(ROOT / source for source in SOURCES)]
        return compilers.build(folder / name, sources, ["linux", "world", "cc"])

    def run(name: str, *arguments: object) -> str:
        command = [str(compiled(name)), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
