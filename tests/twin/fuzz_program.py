# SPDX-License-Identifier: GPL-2.0-only
"""Builds fuzz.cc with the twin's sources under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import compilers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = [ROOT / name for name in ("twin", "tcp", "world", "cc")]
SOURCES = [
    HERE / "fuzz.cc",
    *(ROOT / "twin" / f"{name}.cpp" for name in ("engine", "thread_pool", "vector")),
    *(ROOT / "tcp" / f"{name}.cpp" for name in ("receiver", "scoreboard")),
    *(ROOT / "world" / f"{name}.cpp" for name in ("codel", "measurement", "red", "scenario", "stack", "tunable_table")),
]


def build(folder: Path) -> Path:
    """The program, built in `folder`, on all cores."""
    compiler = compilers.sanitizing(compilers.CXX)
    flags = ["-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Wno-missing-field-initializers"]
    includes = [f"-I{path}" for path in FOLDERS]

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        _call([*compiler, *flags, *includes, "-c", str(source), "-o", str(target)])
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [str(target) for target in pool.map(compile_one, SOURCES)]
    program = folder / "twin_fuzz"
    _call([*compiler, *objects, "-o", str(program)])
    return program


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=compilers.PATIENCE_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
