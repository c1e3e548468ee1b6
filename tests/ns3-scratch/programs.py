# SPDX-License-Identifier: GPL-2.0-only
"""Programs in C++ that only tests want, made when they ask."""

import os
import subprocess
from pathlib import Path

import pytest

BUILD_DIR = os.environ.get("BBRGYM_BUILD_DIR")

needs_build = pytest.mark.skipif(
    BUILD_DIR is None,
    reason="BBRGYM_BUILD_DIR names no CMake build tree to make a program of the tests in; `make test` sets it",
)


def built(target: str) -> Path:
    """A program of the tests, made in the build tree of the project."""
    build = Path(str(BUILD_DIR)).resolve()
    made = subprocess.run(
        ["cmake", "--build", str(build), "--target", target], capture_output=True, text=True, timeout=600, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return build / "ns3-scratch" / target
