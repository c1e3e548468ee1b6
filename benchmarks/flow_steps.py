# SPDX-License-Identifier: GPL-2.0-only
"""Steps with one controller per world and with one per flow, on a distribution of scenarios.

usage: python benchmarks/flow_steps.py [--worlds 64] [--scenario wan_mix] [--steps 200] [--rounds 3] [--variant bbr-mix]
           [--write docs/vectors.md]

`TuneVecEnv` (pooled view) and `FlowVecEnv` in the twin, random actions, in turn. Printed are medians over rounds: steps
a second of worlds, and of flows that act; the part of rows that act; and what Python takes of a step: all but the call
in which the worlds run.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from report import Bystanders, command, measured_on, replace_section
from vector_steps import PARTS, Clock

from bbrgym.envs.flow_vec_env import FlowVecEnv
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.envs.tune_vec_env import TuneVecEnv


def main() -> None:
    """Print the section, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--scenario", default="wan_mix")
    parser.add_argument("--steps", type=int, default=200, help="of a round")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--variant", default="bbr-mix")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    asked = parser.parse_args()
    bystanders = Bystanders()
    options = {"world": "twin", "scenario": asked.scenario, "variant": asked.variant}
    both = {
        "each world (`TuneVecEnv`, pooled)": TuneVecEnv(asked.worlds, view="pooled", **options),
        "each flow (`FlowVecEnv`)": FlowVecEnv(asked.worlds, **options),
    }
    rounds: dict[str, list[list[float]]] = {name: [] for name in both}
    for envs in both.values():
        envs.seed(1)
        envs.reset()
    for turn in range(asked.rounds + 1):
        for name, envs in both.items():
            measured = play(envs, asked.steps, asked.worlds)
            if turn:  # the first one warms up
                rounds[name].append(measured)
    section = (
        f"{asked.worlds} worlds of `{asked.scenario}` with `{asked.variant}`, {len(os.sched_getaffinity(0))} threads; "
        f"`{command()}`, {measured_on()}; "
        f"{bystanders.phrase()}. Medians of {asked.rounds} rounds:\n\n"
        "| one controller for | rows | worlds/s | actions/s | rows that act | Python, us per step |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    for name, envs in both.items():
        worlds, flows, acting, python_us = np.median(rounds[name], axis=0)
        section += (
            f"| {name} | {envs.num_envs} | {worlds:,.0f} | {flows:,.0f} | {100.0 * acting:.0f} % | {python_us:,.0f} |\n"
        )
        envs.close()
    print(section, end="")
    if asked.write is not None:
        replace_section(asked.write, "flow-steps", section)


class Counted:
    """Environments, with a count of the rows that acted."""

    def __init__(self, envs: TuneVecEnv | FlowVecEnv) -> None:
        self._envs = envs
        self.acted = 0

    def step(self, actions: NormalisedAction) -> None:
        self._envs.step(actions)
        self.acted += int(self._envs.row_is_active.sum()) if isinstance(self._envs, FlowVecEnv) else len(actions)


def play(envs: TuneVecEnv | FlowVecEnv, steps: int, worlds: int) -> list[float]:
    """Return steps/s of worlds and of acting rows, the share of acting rows, and microseconds of Python per step."""
    actions = np.random.default_rng(1).uniform(-1, 1, (16, envs.num_envs, *envs.action_space.shape)).astype(np.float32)
    counted = Counted(envs)
    with Clock({"engine": PARTS["engine"]}) as clock:
        taken_us = clock.time(counted, steps, actions)
    per_s = 1e6 / taken_us["all"]
    acted = counted.acted / steps
    return [worlds * per_s, acted * per_s, acted / envs.num_envs, taken_us["rest"]]


if __name__ == "__main__":
    main()
