# SPDX-License-Identifier: GPL-2.0-only
"""tcp/ under sanitizers: each TEST of the *_facts.cc beside this file, and the random lives of *_laws.cc."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import compilers
import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FACTS = sorted(HERE.glob("*_facts.cc"))
TESTS = [name for path in FACTS for name in re.findall(r"^TEST\((\w+)\)", path.read_text("utf-8"), re.MULTILINE)]
#: A program of laws, and how much of a random life it runs.
LAWS = {"buffer_laws": 100, "receiver_laws": 100, "scoreboard_laws": 20_000, "sender_laws": 200}

Run = Callable[..., None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program, which says nothing on its standard error if it has nothing to complain about."""
    folder = tmp_path_factory.mktemp("tcp")

    @functools.cache
    def compiled(name: str) -> Path:
        own = [*FACTS, HERE / "facts.cc"] if name == "facts" else [HERE / f"{name}.cc"]
        path = [HERE / "connection.cc"] if name in ("facts", "sender_laws") else []
        tcp = [ROOT / "tcp" / "scoreboard.cpp", ROOT / "tcp" / "receiver.cpp"]
        return compilers.build(folder / name, [*own, *path, *tcp], ["tcp", "world", "cc"])

    def run(name: str, *arguments: object) -> None:
        command = [str(compiled(name)), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=compilers.PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr

    return run


@pytest.mark.parametrize("name", TESTS)
def test_facts(run: Run, name: str) -> None:
    run("facts", name)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 9))])
@pytest.mark.parametrize("program", LAWS)
def test_laws(run: Run, program: str, seed: int) -> None:
    run(program, seed, LAWS[program])
