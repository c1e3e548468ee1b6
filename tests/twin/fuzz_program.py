# SPDX-License-Identifier: GPL-2.0-only
"""Builds fuzz.cc with the twin's sources under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from pathlib import Path

import compilers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCES = [
    *(ROOT / "twin" / f"{name}.cpp" for name in ("engine", "vector", "thread_pool")),  # the longest one first
    HERE / "fuzz.cc",
    *(ROOT / "tcp" / f"{name}.cpp" for name in ("receiver", "scoreboard")),
    *(
        ROOT / "world" / f"{name}.cpp"
        for name in ("codel", "measurement", "policy", "red", "scenario", "shared_object", "stack", "tunable_table")
    ),
]


def build(folder: Path) -> Path:
    """The program, built in `folder`, on all cores."""
    return compilers.build(folder / "twin_fuzz", SOURCES, ["twin", "tcp", "world", "cc"])
