# SPDX-License-Identifier: GPL-2.0-only
"""Steps/s of training with each agent, and the parts of a step.

usage: python benchmarks/training_steps.py [--steps 16384] [--rounds 3] [--scenario wan_mix] [--variant bbr-mix]
           [--write docs/results.md]

Every agent of `bbrgym train` that learns trains in turn for so many steps on the same scenario in the
twin, with the hyperparameters and the number of environments that are shipped (those that learn from a memory begin to
as soon as they have a batch). Printed are medians over rounds: steps and simulated seconds a second without validation,
and the microseconds of a step by part. Engine: the worlds, in C++. Environment: all else of a step in the environments.
Update: the learning itself. Validation: as often as it is by default, a step's part of it. Rest: choosing actions,
remembering what happened, the curve, checkpoints.
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
from report import Bystanders, command, measured_on, replace_section
from stable_baselines3 import __version__ as sb3_version
from vector_steps import Clock

import bbrgym
from bbrgym.agents import torch_ppo
from bbrgym.agents.sb3 import Dqn, Ppo, RecurrentPpo, Sac, Tqc
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.validation import Validation
from bbrgym.envs.flow_vec_env import FlowVecEnv
from bbrgym.envs.tune_vec_env import TuneVecEnv
from bbrgym.envs.tune_vector_env import TuneVectorEnv
from bbrgym.worlds import VectorWorld

HELD = 5
FLAT = {"levels": 5, "flat": True, "tunables": ["bbr_up_gain", "bbq_alpha_us"]}  # what dqn can do
AGENTS: Mapping[str, Mapping[str, Any]] = {
    "ppo": {},
    "ppo-by-cost": {"agent": {"name": "ppo"}, "draws": {"by_cost": True}},
    "ppo-held": {"agent": {"name": "ppo"}, "action": {"hold_intervals": HELD}},
    "torch_ppo": {},
    "recurrent_ppo": {},
    "sac": {"agent": {"name": "sac", "learning_starts": 512}},
    "tqc": {"agent": {"name": "tqc", "learning_starts": 512}},
    "dqn": {"agent": {"name": "dqn", "learning_starts": 512}, "action": FLAT},
    "ppo-multi": {"agent": {"name": "ppo"}, "env": {"name": "multi"}},
}
"""What differs from the defaults of a training with the agent of that name."""

CONTROL_INTERVAL_S = 0.5
PARTS: dict[str, list[tuple[Any, str]]] = {
    "engine": [(VectorWorld, "advance")],
    "environment": [
        *((envs, name) for envs in (TuneVecEnv, FlowVecEnv) for name in ("step_wait", "reset")),
        *((TuneVectorEnv, name) for name in ("step", "reset")),
    ],
    "update": [
        (torch_ppo, "improve"),
        *((trainer.algorithm(), "train") for trainer in (Ppo, RecurrentPpo, Sac, Tqc, Dqn)),
    ],
    "validation": [(Validation, "scores")],
}
VALIDATIONS = 2  # of a training: before its first step and after its last one


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=16_384, help="of a training")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--scenario", default="wan_mix", help="what is run")
    parser.add_argument("--variant", default="bbr-mix", help="whose tunables are set")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    asked = parser.parse_args()
    bystanders = Bystanders()
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in AGENTS}
    for turn in range(asked.rounds + 1):
        for name in AGENTS:
            taken = train(name, asked)
            if turn:  # the first one warms up
                rounds[name].append(taken)
    section = (
        f"`{command()}` on `{asked.scenario}` with `{asked.variant}`, {measured_on()}, "
        f"torch {torch.__version__}, Stable-Baselines3 {sb3_version}; {bystanders.phrase()}. Medians of the rounds:\n\n"
        f"{table_of(rounds)}"
    )
    print(section, end="")
    if asked.write is not None:
        replace_section(asked.write, "training-steps", section)


def train(name: str, asked: argparse.Namespace) -> dict[str, float]:
    """Return the microseconds of a step without validation, by part, and of validation."""
    setup = AGENTS[name]
    with tempfile.TemporaryDirectory() as folder, Clock(PARTS, whole=["validation"]) as clock:
        begin_s = time.perf_counter()
        step = bbrgym.train(
            scenario=asked.scenario,
            variant=asked.variant,
            agent=setup.get("agent", name),
            action=setup.get("action", "absolute"),
            env={"name": "tune", "control_interval_s": CONTROL_INTERVAL_S, **setup.get("env", {})},
            draws=setup.get("draws", {}),
            total_steps=asked.steps,
            checkpoint_steps=asked.steps,
            output_dir=folder,
        )["step"]
        seconds = {"all": time.perf_counter() - begin_s, **clock.taken_s}
    validation_s = seconds.pop("validation")
    seconds["all"] -= validation_s
    seconds["rest"] = 2.0 * seconds["all"] - sum(seconds.values())
    often = TrainingSettings.model_fields["checkpoint_steps"].default
    return {part: taken_s / step * 1e6 for part, taken_s in seconds.items()} | {
        "validation": validation_s / VALIDATIONS / often * 1e6
    }


def intervals_of(name: str) -> int:
    """Return the control intervals of a step."""
    return int(AGENTS[name].get("action", {}).get("hold_intervals", 1))


def table_of(rounds: Mapping[str, list[dict[str, float]]]) -> str:
    """Return the table of measurements by agent."""
    columns = ("all", "engine", "environment", "update", "rest", "validation")
    head = ("agent", "steps/s", "simulated s/s", "us a step", *columns[1:])
    text = f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n"
    for name, turns in rounds.items():
        medians = {column: float(np.median([taken[column] for taken in turns])) for column in columns}
        cells = " | ".join(f"{medians[column]:,.0f}" for column in columns)
        steps_per_s = 1e6 / medians["all"]
        simulated = steps_per_s * intervals_of(name) * CONTROL_INTERVAL_S
        text += f"| {name} | {steps_per_s:,.0f} | {simulated:,.0f} | {cells} |\n"
    return text


if __name__ == "__main__":
    main()
