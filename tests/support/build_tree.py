# SPDX-License-Identifier: GPL-2.0-only
"""Programs in C++ that tests run, made when they ask."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from bbrgym import _ns3

BUILD_DIR = os.environ.get("BBRGYM_BUILD_DIR")

needs_build = pytest.mark.skipif(
    BUILD_DIR is None,
    reason="BBRGYM_BUILD_DIR names no CMake build tree to make a program of the tests in; `make test` sets it",
)


def built(target: str) -> Path:
    """Return a program of the tests, made in the build tree of the project by one process at a time."""
    build = Path(str(BUILD_DIR)).resolve()
    command = ["cmake", "--build", str(build), "--target", target]
    with (build / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return build / "ns3-scratch" / target


def program(name: str) -> str:
    """Return a program of the package: as installed with it or, with BBRGYM_BUILD_DIR, as made in the build tree."""
    if BUILD_DIR is not None:
        return str(built(name))
    installed = Path(_ns3.__file__).parent / "_bin" / name
    assert installed.exists(), f"{name} is not installed beside bbrgym._ns3"
    return str(installed)
