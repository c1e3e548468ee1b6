# SPDX-License-Identifier: GPL-2.0-only
"""Plan of a training: which draws each stage runs, so that all stages together use its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bbrgym.agents.portfolio.draws import Draw
from bbrgym.errors import ConfigError


@dataclass(frozen=True)
class Plan:
    """Draws of each stage; no two stages share one.

    Attributes:
        search, cross, probe: draws of the stages.
    """

    search: tuple[Draw, ...]
    cross: tuple[Draw, ...]
    probe: tuple[Draw, ...]


def affordable(
    stage: str, draws: Iterator[Draw], steps: int, steps_of: Callable[[Draw], int], *, least: int
) -> tuple[Draw, ...]:
    """Return as many draws as a stage's steps allow.

    Args:
        stage: name, for the error.
        draws: to take from.
        steps: of the stage.
        steps_of: steps of a draw.
        least: smallest number of draws.

    Raises:
        ConfigError: the steps do not suffice for ``least``.
    """
    taken: list[Draw] = []
    used = 0
    for draw in draws:
        used += steps_of(draw)
        if used > steps:
            break
        taken.append(draw)
    if len(taken) < least:
        raise ConfigError(
            f"total_steps: stage {stage} has {steps} of them, which are {len(taken)} draws, expected at least {least} "
            f"draws: about {least * (used // (len(taken) + 1))} steps; choose more, or another agent.search_share and "
            f"agent.cross_share"
        )
    return tuple(taken)
