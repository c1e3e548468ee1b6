# SPDX-License-Identifier: GPL-2.0-only
"""Environment steps a second of training with each library, side by side in one run, and where the time goes.

usage: python benchmarks/training_speed.py [--steps 20000] [--rounds 3] [--agents ppo sac ...]

`bbrgym train` on wan_mix in the twin with each agent's own hyperparameters, checkpoints left out. World: the call in
which the simulations run, in C++ threads. Environments: the rest of their steps and resets, in Python. Learning: all
else, networks and updates. Shown are medians over rounds, all agents in turn.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import bbrgym
from bbrgym.agents.run import TrainingRun
from bbrgym.agents.training import train
from bbrgym.envs.batch import TuneBatch
from bbrgym.worlds import VectorWorld

AGENTS = ("ppo", "torch_ppo", "recurrent_ppo", "sac", "tqc", "dqn")
FLAT = {"levels": 5, "flat": True, "tunables": ["bbr_up_gain", "bbr_cwnd_gain", "use_probe_cap"]}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="of each training")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--agents", nargs="+", default=AGENTS, choices=AGENTS)
    asked = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} cores, bbrgym", end=" ")
    print(f"{bbrgym.__version__}, Python {platform.python_version()}, {asked.steps} steps, {asked.rounds} rounds\n")
    rounds: dict[str, list[dict[str, float]]] = {agent: [] for agent in asked.agents}
    for _ in range(asked.rounds):
        for agent in asked.agents:
            rounds[agent].append(measured(agent, asked.steps))
    print("| agent | steps/s | us a step | world | environments | learning |")
    print("| --- | --- | --- | --- | --- | --- |")
    for agent, times in rounds.items():
        total, world, env = (median(one[part] for one in times) for part in ("total", "world", "env"))
        parts = " | ".join(f"{100 * part / total:.0f} %" for part in (world, env - world, total - env))
        print(f"| {agent} | {asked.steps / total:.0f} | {1e6 * total / asked.steps:.0f} | {parts} |", flush=True)


def measured(agent: str, steps: int) -> dict[str, float]:
    """Seconds of a training: in all, in the worlds, and in the environments with the worlds."""
    spent = dict.fromkeys(("total", "world", "env"), 0.0)
    with (
        tempfile.TemporaryDirectory() as folder,
        timed(VectorWorld, "advance", spent, "world"),
        timed(TuneBatch, "step", spent, "env"),
        timed(TuneBatch, "reset", spent, "env"),
        not_timed(TrainingRun, "checkpoint", spent),
    ):
        began_s = time.perf_counter()
        settings: dict[str, Any] = {"agent": agent, "total_steps": steps, "checkpoint_steps": steps}
        train(output_dir=Path(folder) / "run", env=FLAT if agent == "dqn" else {}, validation={"draws": 1}, **settings)
        spent["total"] += time.perf_counter() - began_s
    return spent


@contextmanager
def timed(owner: type, name: str, spent: dict[str, float], part: str) -> Iterator[None]:
    """Adds the time in a method to a part."""

    def add(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            began_s = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                spent[part] += time.perf_counter() - began_s

        return wrapper

    method = getattr(owner, name)
    setattr(owner, name, add(method))
    try:
        yield
    finally:
        setattr(owner, name, method)


@contextmanager
def not_timed(owner: type, name: str, spent: dict[str, float]) -> Iterator[None]:
    """Takes the time in a method out of every part."""
    method = getattr(owner, name)

    def wrapper(*arguments: Any, **options: Any) -> Any:
        before, began_s = dict(spent), time.perf_counter()
        result = method(*arguments, **options)
        spent.update(before)
        spent["total"] -= time.perf_counter() - began_s
        return result

    setattr(owner, name, wrapper)
    try:
        yield
    finally:
        setattr(owner, name, method)


if __name__ == "__main__":
    main()
