# SPDX-License-Identifier: GPL-2.0-only
"""Steps/s of training with each agent.

usage: python benchmarks/training_steps.py [--steps 16384] [--rounds 3] [--scenario wan_mix] [--variant bbr-mix]
           [--write docs/fidelity-and-speed.md]

Every agent of `bbrgym train` that learns step by step trains in turn for so many steps on the same scenario in the
twin, with the hyperparameters and the number of environments that are shipped (those that learn from a memory begin as
soon as they have a batch). Printed are medians over rounds of the steps a second without validation.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from report import Bystanders, command, measured_on, publish
from stable_baselines3 import __version__ as sb3_version
from vector_steps import timed

import bbrgym
from bbrgym.agents.rollout import Rollout
from bbrgym.report.markdown import markdown_table

FLAT = {"levels": 5, "flat": True, "tunables": ["bbr_up_gain", "bbq_alpha_us"]}  # what dqn can do
AGENTS: Mapping[str, Mapping[str, Any]] = {
    "ppo": {},
    "ppo with env=multi": {"agent": "ppo", "env": {"name": "multi"}},
    "torch_ppo": {},
    "recurrent_ppo": {},
    "sac": {"agent": {"name": "sac", "learning_starts": 512}},
    "tqc": {"agent": {"name": "tqc", "learning_starts": 512}},
    "dqn": {"agent": {"name": "dqn", "learning_starts": 512}, "action": FLAT},
}
"""Options of a training that differ from the defaults of the agent of that name."""


def main() -> None:
    """Print the table, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=16_384, help="of a training")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--scenario", default="wan_mix")
    parser.add_argument("--variant", default="bbr-mix")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    asked = parser.parse_args()
    bystanders = Bystanders()
    rounds: dict[str, list[float]] = {name: [] for name in AGENTS}
    for turn in range(asked.rounds + 1):
        for name in AGENTS:
            taken = train(name, asked)
            if turn:  # the first one warms up
                rounds[name].append(taken)
    rows = [[f"`{name}`", f"{np.median(turns):,.0f}"] for name, turns in rounds.items()]
    section = (
        f"`{command()}` on `{asked.scenario}` with `{asked.variant}`, {measured_on()}, torch {torch.__version__}, "
        f"Stable-Baselines3 {sb3_version}; {bystanders.phrase()}. Medians of {asked.rounds} rounds:\n\n"
    ) + markdown_table(["agent", "steps/s"], rows)
    publish(asked.write, "training-steps", section, "wan_mix / bbr-mix random")


def train(name: str, asked: argparse.Namespace) -> float:
    """Return the steps a second without validation."""
    with tempfile.TemporaryDirectory() as folder, timed(Rollout, "scores") as validations_s:
        begin_s = time.perf_counter()
        options = {"agent": name, **AGENTS[name], "total_steps": asked.steps, "checkpoint_steps": asked.steps}
        step = bbrgym.train(scenario=asked.scenario, variant=asked.variant, output_dir=folder, **options)["step"]
        return step / (time.perf_counter() - begin_s - sum(validations_s))


if __name__ == "__main__":
    main()
