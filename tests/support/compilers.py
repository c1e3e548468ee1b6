# SPDX-License-Identifier: GPL-2.0-only
"""Programs of the tests, compilers for what they compile themselves, and the sanitizers that work on this machine.

usage: python tests/support/compilers.py: compiles what tests run, as `make test` does first
"""

import fcntl
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

C = ("gcc", "cc", "clang")
CXX = ("g++", "c++", "clang++")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PATIENCE_S = 500.0  # to compile or run a program; beside a load of 20, a file takes four minutes
ROOT = Path(__file__).resolve().parents[2]
#: Of the programs of tests/CMakeLists.txt, compiled with the headers of this Python.
PROGRAMS = ROOT / "build" / "tests" / str(sys.implementation.cache_tag)
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
def program(name: str, timeout_s: float = PATIENCE_S) -> Path:
    """Return a program of tests/CMakeLists.txt, compiled by one process at a time if a source changed since."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    with (PROGRAMS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (PROGRAMS / "build.ninja").exists():
            python = f"-DPython_EXECUTABLE={sys.executable}"
            _call(["cmake", "-S", str(ROOT / "tests"), "-B", str(PROGRAMS), "-G", "Ninja", python])
        _call(["cmake", "--build", str(PROGRAMS), "--target", name], timeout_s)
    return PROGRAMS / name


def run_program(name: str, *arguments: object) -> str:
    """Run a program of tests/CMakeLists.txt; return its output.

    Raises:
        RuntimeError: it ended with an error.
    """
    return _call([str(program(name)), *map(str, arguments)])


def _call(command: list[str], timeout_s: float = PATIENCE_S) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


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


if __name__ == "__main__":
    program("all", timeout_s=3600.0)
