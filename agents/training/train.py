# SPDX-License-Identifier: GPL-2.0-only
"""Trains an agent to set a variant's tunables while flows run, and leaves it in a run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.agents.training.curve import draw_curve
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loggers import Job, Logger, logged
from bbrgym.agents.training.loop import Progress, TrainingRun
from bbrgym.agents.training.registry import trainer_of
from bbrgym.agents.training.settings import Training, parse_training
from bbrgym.errors import ConfigError

__all__ = ["Progress", "resume_training", "train"]


def train(
    *,
    output_dir: str | Path,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Trains an agent.

    Args:
        output_dir: run folder to write.
        resume: go on with the training that ``output_dir`` holds, if it does, from its last checkpoint.
        on_progress: called now and then, in the caller's thread.
        **settings: the fields of :class:`bbrgym.agents.training.settings.Training`. `scenario` may be anything that an
            environment takes but a function, `world` a name; `agent`, `env` and `logger` names of files in conf/, or
            mappings with what differs from them.

    Returns:
        What summary.json says.

    Raises:
        ScenarioError, ConfigError: what was asked for is wrong.
        TrainingError: something became NaN; the run folder keeps the checkpoints before.
        WorldError: a simulation broke; the same.
    """
    asked = parse_training(settings)
    folder = TrainingFolder(Path(output_dir))
    folder.open(resume=resume)
    try:
        if folder.has_config():
            _refuse_another(asked, parse_training(folder.read_config()), folder)
        folder.write_config(asked.plain())
        with logged(asked.logger, _job(asked, folder)) as logger:
            run = TrainingRun(asked, folder, logger, on_progress)
            try:
                trainer_of(asked.agent_name).train(run)
            finally:
                run.close()
            _show_outcome(run, logger)
    except ConfigError:
        folder.forget()  # nothing was trained: what is asked for next may be put there
        raise
    finally:
        folder.close()
    return folder.read_summary()


def resume_training(run_dir: str | Path, *, on_progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Goes on with an interrupted training as it was asked for; see `train`."""
    config = TrainingFolder(Path(run_dir)).read_config()
    return train(output_dir=run_dir, resume=True, on_progress=on_progress, **config)


def _job(asked: Training, folder: TrainingFolder) -> Job:
    group = f"{asked.label}-{asked.variant}-{asked.source.name}"
    step = folder.read_summary().get("step", 0)
    return Job("train", f"{group}-{asked.seed}", group, asked.plain(), folder.path, step)


def _show_outcome(run: TrainingRun, logger: Logger) -> None:
    folder, state = run.folder, run.state
    curve = draw_curve(run.metrics(), run.validation())
    folder.write_figure("curve.png", curve)
    logger.figure(state.step, "curve", curve)
    logger.table(state.step, "validation", run.validation().filter(pl.col("step") == state.step))
    logger.summary(run.summary())
    for path in sorted(folder.checkpoint("best").parent.glob("best.*")):
        logger.checkpoint("best", path, run.summary())


def _refuse_another(asked: Training, stored: Training, folder: TrainingFolder) -> None:
    difference = asked.difference(stored)
    if difference is not None:
        raise ConfigError(
            f"output_dir: {str(folder.path)!r} holds another training, {difference}; expected a new folder, or "
            f"resume={folder.path} without other options"
        )
