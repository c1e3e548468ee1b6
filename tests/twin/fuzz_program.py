# SPDX-License-Identifier: GPL-2.0-only
"""Runs fuzz.cc, the twin under AddressSanitizer and UndefinedBehaviorSanitizer."""

import subprocess

import compilers
import random_scenarios

import bbrgym

TIMEOUT_S = 3600.0  # of a batch, also under load


def run(first_seed: int, scenarios: int, network: str = "link") -> subprocess.CompletedProcess[str]:
    """Return what the program made of random scenarios of a kind of network (`random_scenarios.NETWORKS`)."""
    make = random_scenarios.NETWORKS[network]
    seeds = range(first_seed, first_seed + scenarios)
    drawn = (make(random_scenarios.random_scenario_of_laws(seed), seed) for seed in seeds)
    lines = "".join(f"{bbrgym.load_scenario(mapping).resolved_json()}\n" for mapping in drawn)
    command = [compilers.program("twin_fuzz"), str(first_seed)]
    return subprocess.run(command, input=lines, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
