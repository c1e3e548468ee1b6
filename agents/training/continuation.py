# SPDX-License-Identifier: GPL-2.0-only
"""Continues a finished training with more steps, in a run folder of its own.

The new folder begins with the curve, the checkpoints and the state of the optimiser of the other one, which stays as it
is, and goes on from there as after an interruption, with random numbers that the other has not drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from bbrgym.agents.training.folder import SUMMARY, TrainingFolder
from bbrgym.agents.training.settings import TrainingSettings, parse_training
from bbrgym.agents.training.trainer import Trainer
from bbrgym.errors import ConfigError
from bbrgym.schema import shown

OPTION = "continue_from"
_MAY_DIFFER = (
    *("checkpoint_steps", "log_steps", "logger", "rollouts", "seed", "threads", "torch_threads", "total_steps"),
    OPTION,
)


class ContinuedFolder(TrainingFolder):
    """Run folder of a training that is continued, for reading."""

    option = OPTION

    def finished(self) -> tuple[TrainingSettings, int]:
        """Return the settings of the training and its last step.

        Raises:
            ConfigError: the folder is not a run folder of a finished training.
        """
        settings = self.read_request(parse_training)
        step = self.read_json(SUMMARY).get("step")
        if not isinstance(step, int) or step < settings.total_steps:
            raise ConfigError(
                f"{OPTION}: {str(self.path)!r} holds a training of {settings.total_steps} steps that is not finished, "
                f"expected a finished one; resume={self.path} goes on with it"
            )
        return settings, step


def continued_config(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a training that continues another: those of the other, but for what is given.

    Args:
        given: options of `train`; ``continue_from`` is a run folder. Mappings that name no file may be parts, and
            ``total_steps`` a text such as ``+1e6``, so many more than the other has taken.

    Raises:
        ConfigError: the folder is not a run folder of a finished training, or there are not more steps.
    """
    folder = Path(given[OPTION])
    settings, step = ContinuedFolder(folder).finished()
    config = settings.plain()
    if "observation" in given:
        config["env"] = {
            name: value for name, value in config["env"].items() if name not in ("features", "frame_stack")
        }
    for name, value in given.items():
        config[name] = _merged(config.get(name), value)
    config["total_steps"] = _total(given.get("total_steps"), step, folder)
    config[OPTION] = {"folder": str(folder), "step": step}
    return config


def check_continued(settings: TrainingSettings, trainer: Trainer) -> None:
    """Check that a continuation has only options which the continued training allows.

    Raises:
        ConfigError: names an option that must not differ, or the agent cannot go on.
    """
    if settings.continue_from is None:
        return
    folder = settings.continue_from.folder
    if not trainer.is_continuable:
        raise ConfigError(f"{OPTION}: is {folder!r}, whose agent {settings.agent_name} cannot go on with more steps")
    before, _ = ContinuedFolder(Path(folder)).finished()
    was, now = trainer.adapted(before).plain(), settings.plain()
    free = {*_MAY_DIFFER, *(f"agent.{part}" for part in trainer.changeable)}
    for name in now:
        if name not in free:
            _check_same(name, now[name], was[name], folder, free)


def _check_same(name: str, now: Any, was: Any, folder: str, free: Collection[str]) -> None:
    if isinstance(now, Mapping) and isinstance(was, Mapping):
        for part in dict.fromkeys((*now, *was)):
            if f"{name}.{part}" not in free:
                _check_same(f"{name}.{part}", now.get(part), was.get(part), folder, free)
    elif now != was:
        raise ConfigError(
            f"{name}: is {shown(now)}, was {shown(was)} in {folder!r}, which {OPTION} names; only "
            f"{', '.join(sorted(set(free) - {OPTION}))} may differ"
        )


def _merged(was: Any, given: Any) -> Any:
    """Merge a part of a mapping; a value of any other kind, or a mapping that names a file, replaces the former one."""
    if not isinstance(was, Mapping) or not isinstance(given, Mapping) or "name" in given:
        return given
    return {**was, **{name: _merged(was.get(name), value) for name, value in given.items()}}


def _total(asked: Any, step: int, folder: Path) -> int:
    """Return the steps of both trainings together."""
    more = asked.removeprefix("+") if isinstance(asked, str) else None
    try:
        total = step + float(more) if more is not None and more != asked else float(asked)
    except (TypeError, ValueError):
        total = float("nan")
    if not total.is_integer() or total <= step:
        raise ConfigError(
            f"total_steps: is {shown(asked)}, expected a whole number above {step}, the last step of {str(folder)!r}, "
            f"or so many more, such as +1e6"
        )
    return int(total)
