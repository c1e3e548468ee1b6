# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym train``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.cli.own_files import naming_files, take_files
from bbrgym.cli.terminal import (
    BarState,
    advice_on_interrupt,
    new_run_dir,
    print_results,
    print_run_folder,
    progress_bar,
    take_run_dir,
)
from bbrgym.config.overrides import override_of, parse_override
from bbrgym.errors import ConfigError

_CONTINUE = "continue_from"
DESCRIPTION = """\
Trains an agent to set a variant's tunables; writes a run folder with checkpoints. resume=RUN_DIR goes on after an
interruption, to the same weights as without one; continue_from=RUN_DIR continues a finished training with more steps.
`bbrgym evaluate agent=RUN_DIR` compares it.

examples:
  bbrgym train agent=ppo variant=bbr-mix scenario=wan_mix seed=1 total_steps=2_000_000 output_dir=runs/mine
  bbrgym train variant=bbq scenario=rtt_fairness agent.learning_rate=1e-3 'action.tunables=[bbq_alpha_us]'
  bbrgym train env=multi agent=ppo scenario=wan_mix output_dir=runs/multi    (a controller for each flow)
  bbrgym train resume=runs/mine
  bbrgym train continue_from=runs/mine total_steps=+1e6 output_dir=runs/more    (with more steps)
  bbrgym train -m agent=ppo,sac seed=1,2,3 hydra.sweep.dir=runs/many hydra/launcher=joblib    (a job for each)
"""


MODELS = (TrainingSettings,)


def run(options: argparse.Namespace) -> None:
    """Train, and print the outcome."""
    from bbrgym.agents.training.folder import TrainingFolder
    from bbrgym.agents.training.train_agent import resume_training, train  # imports more than other commands need

    config = dict(options.config)
    take_files(config)
    has_own_options = isinstance(config["resume"], str)
    files = naming_files([one for one in options.overrides if one.startswith("variant=")])
    if has_own_options and len(options.overrides) > 1 + len(files):
        raise ConfigError(
            f"resume: is {config['resume']!r}, a run folder with its own options; expected no other option"
        )
    given, resume = take_run_dir(config, options.run_dir)
    is_continuing = config.get(_CONTINUE) is not None
    folder = given or new_run_dir(f"{Path(config[_CONTINUE]).name}-more" if is_continuing else _name_of(config))
    advice = advice_on_interrupt(TrainingFolder(folder), "train", override_of("resume", str(folder)), *files)
    with ExitStack() as bar, advice:
        stages = {""}
        show = bar.enter_context(progress_bar(_shown, lambda progress: _has_line(progress, stages)))

        def tell(summary: Mapping[str, Any]) -> None:
            bar.close()
            print_results(outcome(summary))

        if is_continuing:
            own = given_options(config, options.overrides)
            train(output_dir=folder, resume=resume, on_progress=show, on_end=tell, **own)
        elif has_own_options:
            resume_training(folder, on_progress=show, on_end=tell)
        else:
            train(output_dir=folder, resume=resume, on_progress=show, on_end=tell, **config)
    print_run_folder(folder, has_page=False, has_figures=True)


def outcome(summary: Mapping[str, Any]) -> str:
    """Return a line on the outcome of a training."""
    return (
        f"{summary['agent']} {summary['variant']} on {summary['scenario']}, {summary['step']} steps: validation score "
        f"{summary['score']:.3f}, best {summary['best_score']:.3f} after {summary['best_step']} steps; "
        f"{summary['wall_s']:.0f} s, {summary['steps_per_s']:.0f} steps/s"
    )


def given_options(config: Mapping[str, Any], overrides: Sequence[str]) -> Any:
    """Return the options that overrides give one by one, mappings with the given keys alone."""
    given: dict[str, Any] = {}
    for override in map(parse_override, overrides):
        path = override.key_or_group.split(".")
        if override.is_hydra_override() or path[0] in ("output_dir", "resume"):
            continue
        if path[0] not in config:
            raise ConfigError(f"{override.key_or_group}: is given with {_CONTINUE}, whose run folder has the options")
        value, into = config, given
        for part in path[:-1]:
            value, into = value[part], into.setdefault(part, {})
        into[path[-1]] = value[path[-1]]
    return given


def _name_of(config: Mapping[str, Any]) -> str:
    """Return the name of a training's new run folder."""
    per_flow = "-multi" if config["env"].get("name") == "multi" else ""
    return f"{config['agent'].get('name')}{per_flow}-{config['variant']}-{config['scenario'].get('name')}"


def _has_line(progress: Any, stages: set[str]) -> bool:
    """Return whether a progress is a checkpoint's or the first one of a stage; add that to the known ones."""
    is_new = progress.stage not in stages
    stages.add(progress.stage)
    return bool(progress.is_checkpoint or is_new)


def _shown(progress: Any) -> BarState:
    shown = {
        "steps/s": f"{progress.steps_per_s:.0f}",
        "reward": f"{progress.reward:.3f}",
        "score": f"{progress.score:.3f}",
        "best": f"{progress.best_score:.3f}",
    }
    now = "  ".join(f"{name} {value}" for name, value in shown.items() if value != str(math.nan))
    steps = f"{progress.step}/{progress.total_steps} steps"
    return BarState(progress.step, progress.total_steps, steps, f"{progress.stage}  {now}".strip())
