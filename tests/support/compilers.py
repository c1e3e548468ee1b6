# SPDX-License-Identifier: GPL-2.0-only
"""Compilers for the programs of the tests, and the sanitizers that work with them on this machine."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

C = ("gcc", "cc", "clang")
CXX = ("g++", "c++", "clang++")
CXX_FLAGS = ("-std=c++20", "-Og", "-g1", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PATIENCE_S = 500.0  # to compile or run a program; beside a load of 20, a file takes four minutes
ROOT = Path(__file__).resolve().parents[2]
#: Folders whose headers the sources of a folder include.
_INCLUDES = {
    "world": ("world", "cc"),
    "tcp": ("tcp", "world", "cc"),
    "twin": ("twin", "tcp", "world", "cc"),
    "linux": ("linux", "world", "cc"),
}
_objects: Path | None = None
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
    """Compile a C++ program with the sanitizers on, on all cores, and what `keep_objects` keeps only once.

    Args:
        program: the file to write.
        sources: its sources.
        includes: folders of the repository whose headers those of them include that are among the tests.

    Raises:
        RuntimeError: it does not compile.
    """
    compiler = sanitizing(CXX)
    folder = _objects or program.parent / f"{program.name}.objects"
    folder.mkdir(exist_ok=True)

    def made(source: Path) -> str:
        room = source.relative_to(ROOT).parts[0]
        names = ["tests/support", *includes] if room == "tests" else _INCLUDES[room]
        flags = [*(f"-I{ROOT / name}" for name in names), *_json_headers()]
        return str(_object(folder, [*compiler, *CXX_FLAGS, *flags, "-c", str(source)]))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(made, sources))
    _call([*compiler, *objects, "-o", str(program)])
    return program


def _json_headers() -> list[str]:
    """Return where nlohmann/json.hpp is, as cmake/NlohmannJson.cmake finds it; the system's needs no flag."""
    package = importlib.util.find_spec("nlohmann_json")
    return [f"-isystem{path}/include" for path in (package and package.submodule_search_locations) or []]


def keep_objects(folder: Path | None) -> None:
    """Keep objects in a folder, where all programs and processes find them; None: each program has its own."""
    global _objects
    _objects = folder


def _object(folder: Path, command: list[str]) -> Path:
    """Return the object that a command makes, by one process at a time; the others take what it left."""
    name = hashlib.sha256("\0".join(command).encode()).hexdigest()
    done = folder / f"{name}.o"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            partial = folder / f"{name}.partial"
            _call([*command, "-o", str(partial)])
            partial.rename(done)
    return done


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


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
