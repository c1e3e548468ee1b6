# SPDX-License-Identifier: GPL-2.0-only
"""Compilers for the programs of the tests, and the sanitizers that work with them on this machine."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

C = ("gcc", "cc", "clang")
CXX = ("g++", "c++", "clang++")
CXX_FLAGS = ("-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PATIENCE_S = 500.0  # to compile or run a program; beside a load of 20, a file takes four minutes
ROOT = Path(__file__).resolve().parents[2]
_LANGUAGE = {**dict.fromkeys(C, "c"), **dict.fromkeys(CXX, "c++")}


def compiler(names: tuple[str, ...]) -> str:
    """Return the first installed compiler of `names`."""
    for name in names:
        if shutil.which(name):
            return name
    raise RuntimeError(f"none of {', '.join(names)} is in the PATH: the tests need a compiler")


def sanitizing(names: tuple[str, ...]) -> list[str]:
    """Return the first compiler of `names` whose sanitizers work, with their flags; else the first one alone."""
    for name in names:
        if works(name, *SANITIZERS):
            return [name, *SANITIZERS]
    return [compiler(names)]


def build(program: Path, sources: Iterable[Path], includes: Iterable[str]) -> Path:
    """Compile a C++ program with the sanitizers on.

    Args:
        program: the file to write.
        sources: its sources.
        includes: folders of the repository whose headers they include.

    Raises:
        CalledProcessError: it does not compile.
    """
    folders = [ROOT / "tests" / "support", *(ROOT / name for name in includes)]
    command = [*sanitizing(CXX), *CXX_FLAGS, *(f"-I{folder}" for folder in folders), *map(str, sources)]
    subprocess.run([*command, "-o", str(program)], check=True, timeout=PATIENCE_S)
    return program


@functools.cache
def works(name: str, *flags: str) -> bool:
    """Return whether a compiler is installed, links an empty program with `flags`, and the program runs.

    A sanitizer needs its runtime library, which is a package of its own beside some compilers.
    """
    if shutil.which(name) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "empty"
        command = [name, *flags, "-x", _LANGUAGE[name], "-", "-o", str(program)]
        made = subprocess.run(
            command,
            input="int main(void) { return 0; }\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        return made.returncode == 0 and subprocess.run([program], check=False, timeout=PATIENCE_S).returncode == 0
