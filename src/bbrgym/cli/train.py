# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym train``."""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

from bbrgym.cli.terminal import add_composed_command, advice_on_interrupt, output_console, print_line, progress_bar
from bbrgym.compose import compose_config, override_of
from bbrgym.errors import ConfigError
from bbrgym.interrupts import sigterm_interrupts

_DESCRIPTION = """\
Trains an agent to set a variant's tunables; writes a run folder with checkpoints. resume=RUN_DIR goes on after an
interruption, to the same weights as without one. `bbrgym evaluate agent=RUN_DIR` compares it.

examples:
  bbrgym train agent=ppo variant=bbr-mix scenario=wan_mix seed=1 total_steps=2_000_000 output_dir=runs/mine
  bbrgym train variant=bbq scenario=rtt_fairness agent.learning_rate=1e-3 'action.tunables=[bbq_alpha_us]'
  bbrgym train env=multi agent=ppo scenario=wan_mix output_dir=runs/multi    (a controller for each flow)
  bbrgym train resume=runs/mine
"""


def add(commands: Any) -> None:
    """Add the command."""
    add_composed_command(commands, "train", "train an agent", _DESCRIPTION, run)


def run(options: argparse.Namespace) -> None:
    """Train, and print the outcome."""
    output_dir, summary = train_from(options.overrides)
    console = output_console()
    print_line(console, outcome(summary))
    print_line(console, f"run folder: {output_dir}")


def train_from(overrides: Sequence[str]) -> tuple[Path, dict[str, Any]]:
    """Train with the options of a command line.

    Returns:
        The run folder, and the contents of its summary.json.

    Raises:
        As `train`; KeyboardInterrupt also on SIGTERM.
    """
    from bbrgym.agents.training.folder import TrainingFolder
    from bbrgym.agents.training.train_agent import resume_training, train  # imports more than other commands need

    config = compose_config("train", overrides)
    resume, given_dir = config.pop("resume"), config.pop("output_dir")
    if isinstance(resume, str):
        if len(overrides) > 1:
            raise ConfigError(f"resume: is {resume!r}, a run folder with its own options; expected no other option")
        folder = Path(resume)
    elif not isinstance(resume, bool):
        raise ConfigError(f"resume: is {resume!r}, expected true, false or a run folder")
    elif resume and given_dir is None:
        raise ConfigError("resume: is true without output_dir, expected both, or resume=RUN_DIR")
    else:
        folder = _new_dir(config) if given_dir is None else Path(str(given_dir))
    advice = advice_on_interrupt(TrainingFolder(folder), "train", override_of("resume", str(folder)))
    steps = TextColumn("{task.completed:.0f}/{task.total:.0f} steps")
    columns = (steps, BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[now]}"), TimeRemainingColumn())
    with progress_bar(*columns, now="") as update, advice, sigterm_interrupts():

        def show(progress: Any) -> None:
            update(**_fields_of(progress))

        if isinstance(resume, str):
            return folder, resume_training(folder, on_progress=show)
        return folder, train(output_dir=folder, resume=resume, on_progress=show, **config)


def outcome(summary: Mapping[str, Any]) -> str:
    """Return a line on the outcome of a training."""
    return (
        f"{summary['agent']} {summary['variant']} on {summary['scenario']}, {summary['step']} steps: validation score "
        f"{summary['score']:.3f}, best {summary['best_score']:.3f} after {summary['best_step']} steps; "
        f"{summary['wall_s']:.0f} s, {summary['steps_per_s']:.0f} steps/s"
    )


def _new_dir(config: dict[str, Any]) -> Path:
    now = datetime.datetime.now().astimezone()
    per_flow = "-multi" if config["env"].get("name") == "multi" else ""
    who = f"{config['agent'].get('name')}{per_flow}-{config['variant']}"
    return Path("runs") / f"{who}-{config['scenario'].get('name')}-{now:%Y%m%d-%H%M%S}"


def _fields_of(progress: Any) -> dict[str, Any]:
    """Return the values of the progress bar."""
    shown = {
        "steps/s": f"{progress.steps_per_s:.0f}",
        "reward": f"{progress.reward:.3f}",
        "score": f"{progress.score:.3f}",
        "best": f"{progress.best_score:.3f}",
    }
    now = "  ".join(f"{name} {value}" for name, value in shown.items() if value != str(math.nan))
    return {"total": progress.total_steps, "completed": progress.step, "now": now}
