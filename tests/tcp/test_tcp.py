# SPDX-License-Identifier: GPL-2.0-only
"""tcp/ under sanitizers: each TEST of the *_facts.cc beside this file, and the random lives of *_laws.cc."""

import re
from pathlib import Path

import compilers
import pytest

FACTS = sorted(Path(__file__).parent.glob("*_facts.cc"))
TESTS = [name for path in FACTS for name in re.findall(r"^TEST\((\w+)\)", path.read_text("utf-8"), re.MULTILINE)]
#: A program of laws, and how much of a random life it runs.
LAWS = {"buffer_laws": 100, "receiver_laws": 100, "scoreboard_laws": 20_000, "sender_laws": 200}


@pytest.mark.parametrize("name", TESTS)
def test_facts(name: str) -> None:
    compilers.run_program("facts", name)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 9))])
@pytest.mark.parametrize("program", LAWS)
def test_laws(program: str, seed: int) -> None:
    compilers.run_program(program, seed, LAWS[program])
