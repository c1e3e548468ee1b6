# SPDX-License-Identifier: GPL-2.0-only
"""Compiles the C++ programs beside this file against tcp/, with the sanitizers on, and runs them."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compilers
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def run_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a program by its name; its output, if it has nothing to complain about."""
    folder = tmp_path_factory.mktemp("tcp")

    @functools.cache
    def compiled(name: str) -> Path:
        sources = [HERE / f"{name}.cc", ROOT / "tcp" / "scoreboard.cpp", ROOT / "tcp" / "receiver.cpp"]
        return compilers.build(folder / name, sources, ["tcp", "world", "cc"])

    def run(name: str, *arguments: object) -> str:
        command = [str(compiled(name)), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=compilers.PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def run_experiment(run_program: Callable[..., str]) -> Callable[..., dict[str, Any]]:
    """Runs an experiment of a program, which prints a name and a value a line; the values, read by `kind`, by name."""

    def run(program: str, experiment: str, *, kind: Callable[[str], Any] = str) -> dict[str, Any]:
        lines = (line.partition(" ") for line in run_program(program, experiment).splitlines())
        return {name: kind(value) for name, _, value in lines}

    return run
