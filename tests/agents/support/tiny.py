# SPDX-License-Identifier: GPL-2.0-only
"""A training of a second."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from bbrgym.agents.training.train_agent import TrainingProgress, train

SCENARIO: dict[str, Any] = {
    "name": "tiny",
    "variables": {"rate_mbps": {"log_uniform": [1, 4]}},
    "duration_s": 2.0,
    "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_packets": {"integer": [5, 30]}}},
    "flows": [{"name": "flow", "number": {"integer": [1, 2]}, "rtt_ms": {"uniform": [10, 50]}}],
}
OFF_POLICY = {"learning_starts": 40, "batch_size": 16, "buffer_size": 200, "gradient_steps": 1, "hidden": [8]}
AGENTS: dict[str, dict[str, Any]] = {
    "ppo": {"n_steps": 8, "batch_size": 32, "n_epochs": 2, "hidden": [64], "start_at_default": True, "acts": "mean"},
    "recurrent_ppo": {
        "n_steps": 8,
        "batch_size": 32,
        "n_epochs": 2,
        "hidden": [8],
        "policy_kwargs": {"lstm_hidden_size": 8},
    },
    "torch_ppo": {"n_steps": 8, "batch_size": 12, "n_epochs": 2},
    "sac": OFF_POLICY,
    "tqc": OFF_POLICY,
    "dqn": {**OFF_POLICY, "target_update_interval": 28, "exploration_final_eps": 1.0},
}
#: Two flows keep a queue of what they have in flight, so its gain, the only tunable, has to fall.
LEARNABLE: dict[str, Any] = {
    "scenario": {
        "name": "queue",
        "duration_s": 3.0,
        "warmup_s": 1.0,
        "link": {"rate_mbps": 10.0, "queue": {"size_packets": 200}},
        "flows": [{"name": "flow", "count": 2, "rtt_ms": 20.0}],
    },
    "variant": "bbr",
    "env": {"control_interval_s": 0.25},
    "action": {"tunables": ["bbr_cwnd_gain"]},
    "num_envs": 16,
    "total_steps": 6000,
    "checkpoint_steps": 6000,
    "validation": {"draws": 1},
}
#: Options of a command that trains no longer.
SHORT = ("scenario=steady", "scenario.duration_s=1", "variant=bbq", "num_envs=2", "validation.draws=2", "threads=1")
FLAT = {"levels": 3, "flat": True, "tunables": ["bbr_up_gain", "bbq_alpha_us"]}
ACTIONS: dict[str, dict[str, Any]] = {"dqn": FLAT}


def asked(agent: Any = "ppo", **others: Any) -> dict[str, Any]:
    """What is asked for: with an agent's name, its small hyperparameters."""
    settings = {
        "scenario": SCENARIO,
        "variant": "bbq",
        "agent": {"name": agent, **AGENTS.get(agent, {})} if isinstance(agent, str) else agent,
        "action": ACTIONS.get(agent, {}) if isinstance(agent, str) else {},
        "total_steps": 320,
        "num_envs": 4,
        "checkpoint_steps": 100,
        "log_steps": 32,
        "validation": {"draws": 3},
        "threads": 1,
    }
    return {**settings, **others}


def weights(folder: Path, checkpoint: str = "last") -> dict[str, bytes]:
    """All that is in a checkpoint beside what the training took, as bytes by name."""
    found: dict[str, bytes] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, one in value.items():
                walk(f"{path}.{name}", one)
        elif isinstance(value, list | tuple):
            walk(path, dict(enumerate(value)))
        elif isinstance(value, torch.Tensor):
            found[path] = value.numpy().tobytes()
        elif not path.endswith("_s"):
            found[path] = repr(value).encode()

    walk("", torch.load(folder / "checkpoints" / f"{checkpoint}.pt", weights_only=True))
    return found


def curve(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "metrics.parquet")


def run(folder: Path, agent: Any = "ppo", **others: Any) -> Path:
    train(output_dir=folder, **asked(agent, **others))
    return folder


def interrupt(folder: Path, after: int, settings: dict[str, Any]) -> Path:
    """Train as asked for, until the first report of more than ``after`` steps."""

    def stop(progress: TrainingProgress) -> None:
        if progress.step > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(output_dir=folder, on_progress=stop, **settings)
    return folder


KILLED_AT = """
import json, os, signal, sys
from bbrgym.agents.training import loop
from bbrgym.agents.training.train_agent import train

def kill_late(progress):
    if progress.step > int(sys.argv[1]):
        os.kill(os.getpid(), int(sys.argv[2]))

loop._PROGRESS_S = -1.0
train(output_dir=sys.argv[3], on_progress=kill_late, **json.loads(sys.argv[4]))
"""


def kill(folder: Path, after: int, by: int, settings: dict[str, Any]) -> Path:
    """The same in a process that gets a signal then."""
    command = [sys.executable, "-c", KILLED_AT, str(after), str(int(by)), str(folder), json.dumps(settings)]
    assert subprocess.run(command, timeout=120, check=False, stderr=subprocess.DEVNULL).returncode == -by
    return folder
