# SPDX-License-Identifier: GPL-2.0-only
"""Compilers for the programs of the tests, and the sanitizers that work with them on this machine."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

C = ("gcc", "cc", "clang")
CXX = ("g++", "c++", "clang++")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
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
            command, input="int main(void) { return 0; }\n", capture_output=True, text=True, check=False, timeout=120
        )
        return made.returncode == 0 and subprocess.run([program], check=False, timeout=120).returncode == 0
