# SPDX-License-Identifier: GPL-2.0-only
"""Trains an agent to set a variant's tunables while flows run, and writes its run folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

import polars as pl

from bbrgym.agents.training.continuation import OPTION, ContinuedFolder, check_continued, continued_config
from bbrgym.agents.training.draws import DrawSettings
from bbrgym.agents.training.folder import SUMMARY, TrainingFolder
from bbrgym.agents.training.loop import TrainingProgress, TrainingRun
from bbrgym.agents.training.settings import TrainingSettings, parse_training
from bbrgym.agents.training.trainer import LACKS_MEMORY, Trainer, trainer_of
from bbrgym.agents.training.vec_env import LocalRollouts, Rollouts
from bbrgym.errors import ConfigError, one_line
from bbrgym.loggers.logger import LoggedRun, Logger, LoggerSettings, logged, logger_of
from bbrgym.runs.drawing import reason_not_to_draw
from bbrgym.schema import plain, shown
from bbrgym.targets import build, class_of, shipped, shipped_names
from bbrgym.worlds import check_no_programs

__all__ = ["TrainingOptions", "TrainingProgress", "resume_training", "train"]

OnProgress = Callable[[TrainingProgress], None]
OnEnd = Callable[[dict[str, Any]], None]


class TrainingOptions(TypedDict, total=False):
    """Keywords of `train`: the fields of `TrainingSettings`, described there.

    `scenario` may be anything that an environment accepts except a function, `world` a name; `agent`, `env`, `logger`
    and `rollouts` may be names of files in conf/, or mappings with a name and what differs from the file. `logger` may
    also be a list of names, or a mapping from names to what differs.

    `continue_from` is the run folder of a finished training, which goes on in ``output_dir`` with its own settings, and
    more `total_steps`: of both together, or a text such as ``"+1e6"``, so many more. Few settings may be given besides.
    """

    scenario: Any
    world: str | Mapping[str, Any]
    variant: str
    env: str | Mapping[str, Any]
    action: str | Mapping[str, Any]
    score: str
    reward: str | Mapping[str, float]
    agent: str | Mapping[str, Any]
    logger: str | Sequence[str] | Mapping[str, Any] | None
    rollouts: str | Mapping[str, Any]
    seed: int
    total_steps: int | str
    num_envs: int | None
    checkpoint_steps: int
    log_steps: int
    validation: Mapping[str, Any]
    draws: Mapping[str, Any]
    threads: int | None
    torch_threads: int
    continue_from: str | Path | Mapping[str, Any] | None


def train(
    *,
    output_dir: str | Path,
    resume: bool = False,
    on_progress: OnProgress | None = None,
    on_end: OnEnd | None = None,
    callback: Any = None,
    **settings: Unpack[TrainingOptions],
) -> dict[str, Any]:
    """Train an agent.

    Args:
        output_dir: run folder to write.
        resume: whether to continue the training in ``output_dir``, if there is one, from its last checkpoint.
        on_progress: called several times a second, in the caller's thread.
        on_end: called with what is returned, while the loggers still log what is printed.
        callback: a callback of Stable-Baselines3, a function as its ``learn`` takes, or a list of these, for agents of
            its algorithms. One whose step returns False, or nothing, ends the training early. It is not kept in the run
            folder: give it again when the training is resumed.
        **settings: fields of :class:`TrainingOptions`.

    Returns:
        The contents of summary.json.

    Raises:
        ScenarioError, ConfigError: a setting has a value that is not allowed, or the folder is in use or holds another
            training.
        MissingExtraError: a package that the agent or the logger needs is not installed.
        TrainingError: a number became NaN or infinite; the run folder keeps the checkpoints before.
        WorldError: a simulation failed; the run folder keeps the checkpoints before.
        OSError: a file cannot be written; the run folder keeps the checkpoints before.
        MemoryError: the environments or networks do not fit into memory.

    Example:
        >>> import bbrgym
        >>> search = {"name": "grid", "levels": 2, "draws": 2}
        >>> summary = bbrgym.train(
        ...     output_dir="runs/grid",
        ...     agent=search,
        ...     scenario="steady",
        ...     variant="bbq",
        ...     action={"tunables": ["bbq_alpha_us"]},
        ...     validation={"draws": 2},
        ... )
        >>> summary["agent"], summary["variant"], summary["best_score"] > -1
        ('grid', 'bbq', True)
    """
    config: dict[str, Any] = plain(dict(settings))
    trusted = {"agent", "logger", "rollouts", "world"}
    if isinstance(config.get(OPTION), str | Path):
        trusted &= set(config)
        config = continued_config(config)
    return _train(
        Path(output_dir),
        config,
        resume=resume,
        trusted=trusted,
        on_progress=on_progress,
        on_end=on_end,
        callback=callback,
    )


def resume_training(
    run_dir: str | Path,
    *,
    on_progress: OnProgress | None = None,
    on_end: OnEnd | None = None,
    callback: Any = None,
) -> dict[str, Any]:
    """Continue an interrupted training with the settings in its run folder.

    Args:
        run_dir: run folder of `bbrgym train`.
        on_progress: called several times a second, in the caller's thread.
        on_end: see `train`.
        callback: see `train`.

    Returns:
        The contents of summary.json.

    Raises:
        ConfigError: the folder is none of `bbrgym train`, or names a class outside bbrgym that the user has not trusted
            (see `bbrgym.targets`).
        Others: see `train`.

    Example:
        A training that has ended is not repeated.

        >>> import bbrgym
        >>> bbrgym.resume_training("runs/grid")["variant"]
        'bbq'
    """
    config = TrainingFolder(Path(run_dir)).read_request(parse_training).plain()
    return _train(
        Path(run_dir), config, resume=True, trusted=(), on_progress=on_progress, on_end=on_end, callback=callback
    )


def _train(
    output_dir: Path,
    config: dict[str, Any],
    *,
    resume: bool,
    trusted: Collection[str],
    on_progress: OnProgress | None,
    on_end: OnEnd | None,
    callback: Any,
) -> dict[str, Any]:
    """Train as `config` says; `trusted` are options that may run code and are the user's own, not just found."""
    settings = parse_training(config)
    if "world" not in trusted:
        check_no_programs(settings.world)
    settings.check_cores()
    trainer, logger_settings, rollouts = _parts_of(settings, trusted)
    if callback is not None:
        trainer.check_callback(callback)
    settings = trainer.adapted(settings)
    folder = TrainingFolder(output_dir)
    with folder.opened(resume=resume):
        if folder.has_config():
            _check_same_run(settings, folder)
            _check_readable(settings, folder, trainer)
        elif settings.continue_from is not None:
            check_continued(settings, trainer)
            source = ContinuedFolder(Path(settings.continue_from.folder))
            for checkpoint in ("best", "last"):  # what cannot be read is not taken over
                trainer.load(source, settings, checkpoint)
            source.check_model()
            folder.take_over(source)
        folder.write_config(settings.plain())
        with _memory_errors(), logged(logger_settings, _logged_run(settings, folder)) as logger:
            with closing(TrainingRun(settings, folder, logger, rollouts, on_progress, callback)) as run:
                trainer.train(run)
            _log_outcome(run, logger)
            summary = run.summary()
            if on_end is not None:
                on_end(summary)
        return summary


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Turn PyTorch's RuntimeError for a lack of memory into a MemoryError."""
    try:
        yield
    except RuntimeError as error:
        if LACKS_MEMORY not in str(error):
            raise
        raise MemoryError(one_line(error)) from error


def _parts_of(settings: TrainingSettings, trusted: Collection[str]) -> tuple[Trainer, LoggerSettings, Rollouts]:
    """Return the objects of the classes that the settings choose by `_target_`."""
    trainer = trainer_of(settings, is_trusted="agent" in trusted)
    logger = logger_of(settings.logger, is_trusted="logger" in trusted)
    rollouts = build("rollouts", settings.rollouts, Rollouts, is_trusted="rollouts" in trusted)
    name = settings.agent_name
    if settings.is_per_flow and not trainer.is_shared:
        able = [
            one
            for one in shipped_names("agent")
            if class_of("agent", shipped("agent", one), Trainer, extra="train").is_shared
        ]
        raise ConfigError(f"agent.name: is {name!r}, expected one of {', '.join(able)} with env=multi")
    if not isinstance(rollouts, LocalRollouts) and not trainer.is_distributed:
        raise ConfigError(f"rollouts.name: is {rollouts.name!r}, expected local with agent={name}")
    if settings.draws != DrawSettings() and not trainer.draws_episodes:
        raise ConfigError(
            f"draws: is {shown(settings.draws.model_dump(exclude_none=True))}, expected the default with agent={name}, "
            f"which chooses its networks itself"
        )
    rollouts.check(settings.envs_side_by_side, is_per_flow=settings.is_per_flow)
    return trainer, logger, rollouts


def _check_same_run(settings: TrainingSettings, folder: TrainingFolder) -> None:
    difference = settings.difference(folder.read_request(parse_training))
    if difference is not None:
        raise ConfigError(
            f"output_dir: {str(folder.path)!r} holds another training, {difference}; expected a new folder, or "
            f"resume={folder.path} without other options"
        )


def _check_readable(settings: TrainingSettings, folder: TrainingFolder, trainer: Trainer) -> None:
    """Raise ConfigError if the best agent of a resumed training, which may remain the best, cannot be loaded."""
    if folder.has_checkpoint("last"):
        trainer.load(folder, settings, "best")
        folder.check_model()


def _logged_run(settings: TrainingSettings, folder: TrainingFolder) -> LoggedRun:
    group = f"{settings.label}-{settings.variant}-{settings.source.name}"
    step = folder.read_json(SUMMARY).get("step", 0)
    return LoggedRun(
        "train", f"{group}-{settings.seed}", group, settings.plain(), folder.path, step, folder.read_provenance()[-1]
    )


def _log_outcome(run: TrainingRun, logger: Logger) -> None:
    folder, state = run.folder, run.state
    if reason_not_to_draw() is None:
        if not folder.holds("figures/curve.png"):  # it was resumed at its end
            run.draw_curve()
        logger.picture(state.step, "curve", folder.path / "figures" / "curve.png")
    logger.table(state.step, "validation", run.validation().filter(pl.col("step") == state.step))
    logger.summary(run.summary())
    for path in sorted(folder.checkpoint("best").parent.glob("best.*")):
        logger.checkpoint("best", path, run.summary())
