# SPDX-License-Identifier: GPL-2.0-only
"""Plan of a training: which draws each stage runs, so that all stages together use its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.errors import ConfigError


@dataclass(frozen=True)
class StagePlan:
    """Draws of each stage; no two stages share one."""

    search: tuple[TrainingDraw, ...]
    cross: tuple[TrainingDraw, ...]
    refine: tuple[TrainingDraw, ...]
    identification: tuple[TrainingDraw, ...]
    reselect: tuple[TrainingDraw, ...]


def affordable(
    stage: str, draws: Iterator[TrainingDraw], steps: int, steps_of: Callable[[TrainingDraw], int], *, least: int
) -> tuple[TrainingDraw, ...]:
    """Return as many draws as a stage's steps allow.

    Raises:
        ConfigError: the steps do not suffice for ``least``.
    """
    taken: list[TrainingDraw] = []
    used = 0
    for draw in draws:
        used += steps_of(draw)
        if used > steps:
            break
        taken.append(draw)
    if len(taken) < least:
        raise ConfigError(
            f"total_steps: stage {stage} has {steps} of them, which are {len(taken)} draws, expected at least {least} "
            f"draws: about {least * (used // (len(taken) + 1))} steps; choose more, or other ones of "
            f"agent.search_share, agent.cross_share, agent.refine_share and agent.reselect_share"
        )
    return tuple(taken)
