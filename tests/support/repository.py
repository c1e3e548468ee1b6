# SPDX-License-Identifier: GPL-2.0-only
"""Files of the repository."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked(folder: Path = ROOT) -> list[str]:
    """Return the files below a folder that git knows, relative to it; skip the test outside of a checkout."""
    # A checkout may belong to another user than the one who runs the tests.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "."]
    try:
        listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=120)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no git checkout: {error}")
    return [name for name in listed.stdout.split("\0") if name]
