# SPDX-License-Identifier: GPL-2.0-only
"""Makes a training one of the agents that come with bbrgym, in a checkout.

usage: python -m bbrgym.agents.shipped RUN_DIR NAME DATA

DATA says what it was trained and chosen on.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from bbrgym.agents.base import Constant
from bbrgym.agents.deploy.export_agent import integer_form
from bbrgym.agents.deploy.policy_file import policy_file
from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.stages import LIBRARY
from bbrgym.agents.shipped import POLICY
from bbrgym.agents.training.checkpoints import SUFFIX
from bbrgym.agents.training.folder import CHECKPOINTS, SUMMARY, TrainingFolder
from bbrgym.envs.scaling import TunableScaling
from bbrgym.runs.run_folder import CONFIG


def ship(run_dir: Path, target: Path, data: str) -> None:
    """Write an agent's folder in place of what it held.

    Raises:
        ConfigError: the run folder holds no finished training, or an agent for each flow that has no form in integers.
        OSError: a file cannot be written.
    """
    agent: Any
    agent, arguments = load_agent(run_dir)
    run = TrainingFolder(run_dir)
    summary, trained = run.read_json(SUMMARY), run.read_provenance()[-1]
    machine = f"{trained['cpu']}, {trained['cores']} cores, {trained['platform']}, Python {trained['python']}"
    about = {
        **{name: trained[name] for name in ("command", "commit", "version")},
        "data": data,
        "step": summary["best_step"],
        "validation_score": summary["best_score"],
        "machine": f"{machine}, PyTorch {trained['packages'].get('torch')}",
    }
    is_fixed, policy = isinstance(agent, Constant), b""
    if is_fixed:
        scaling = TunableScaling(arguments["variant"], arguments.get("tunables"))
        about |= {"variant": scaling.variant, "tunables": scaling.to_values(agent.action)}
    elif agent.is_per_flow:
        policy = policy_file(integer_form(agent, arguments))
    shutil.rmtree(target, ignore_errors=True)
    shipped = TrainingFolder(target)
    shipped.write_json("about.json", about)
    if not is_fixed:
        short = yaml.safe_dump(run.read_config(), sort_keys=False, default_flow_style=None, width=120)
        shipped.write_text(CONFIG, short)
        for name in (LIBRARY, f"{CHECKPOINTS}/best{SUFFIX}"):
            shipped.copy_file(name, run)
    if policy:
        shipped.write_file(POLICY, lambda path: path.write_bytes(policy))


if __name__ == "__main__":
    ship(Path(sys.argv[1]), Path(__file__).parent / sys.argv[2], sys.argv[3])
