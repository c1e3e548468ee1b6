# SPDX-License-Identifier: GPL-2.0-only
"""Builds fuzz.cc with the twin's sources under AddressSanitizer and UndefinedBehaviorSanitizer, and runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import compilers
import random_scenarios

import bbrgym

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ROOMS = ("twin", "tcp", "world")
SOURCES = [*(file for room in ROOMS for file in sorted((ROOT / room).glob("*.cpp"))), HERE / "fuzz.cc"]
TIMEOUT_S = 3600.0  # of a batch, also under load


def build(folder: Path) -> Path:
    """Return the program, built in `folder`, on all cores."""
    return compilers.build(folder / "twin_fuzz", SOURCES, [*ROOMS, "cc"])


def run(program: Path, first_seed: int, scenarios: int) -> subprocess.CompletedProcess[str]:
    """Return what the program made of random scenarios."""
    drawn = (random_scenarios.random_scenario_of_laws(seed) for seed in range(first_seed, first_seed + scenarios))
    lines = "".join(f"{bbrgym.load_scenario(mapping).resolved_json()}\n" for mapping in drawn)
    command = [str(program), str(first_seed)]
    return subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
