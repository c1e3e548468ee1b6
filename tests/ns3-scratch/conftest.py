# SPDX-License-Identifier: GPL-2.0-only
"""Fixtures that run scenarios on the ns-3 world's native module and on the standalone program."""

import subprocess
from collections.abc import Callable, Iterator

import build_tree
import pytest
from native_simulation import Summary
from ns3_harness import Scenario, Simulation


@pytest.fixture
def simulate() -> Iterator[Callable[..., Simulation]]:
    """Makes simulations, one alive at a time, and closes the last one at the end of the test."""
    alive: list[Simulation] = []

    def make(resolved: Scenario, seed: int = 1) -> Simulation:
        if alive:
            alive.pop().native.close()
        alive.append(Simulation(resolved, seed))
        return alive[-1]

    yield make
    if alive:
        alive.pop().native.close()


@pytest.fixture
def run(simulate: Callable[..., Simulation]) -> Callable[..., Summary]:
    """Runs a scenario to its end, at once or in steps, and returns the summary."""

    def to_end(resolved: Scenario, seed: int = 1, step_s: float = 1e6) -> Summary:
        simulation = simulate(resolved, seed)
        while not simulation.done:
            simulation.advance(step_s)
        return simulation.summary()

    return to_end


@pytest.fixture
def program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the standalone program on a scenario given as text."""
    path = build_tree.program("bbrgym-scenario")

    def call(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [path, "-", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)

    return call
