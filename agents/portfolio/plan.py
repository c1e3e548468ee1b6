# SPDX-License-Identifier: GPL-2.0-only
"""The draws of each stage: no two stages share one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from bbrgym.agents.portfolio.identification import LATER, moment_of
from bbrgym.agents.portfolio.stage_settings import StageSettings
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw, training_draws
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.errors import ConfigError

KEPT = 3
"""Candidates that stage cross leaves, for each setting of the library."""

Plan: TypeAlias = Mapping[str, tuple[TrainingDraw, ...]]
"""Draws by stage."""

_WITH_SHARE = ("search", "cross", "refine", "reselect")  # stages whose share of the steps is a setting


def planned(
    asked: StageSettings, training: TrainingSettings, conditions: TrainingConditions, intervals: int, presets: int
) -> Plan:
    """Return the draws of each stage, which use the training's steps together.

    Args:
        asked: settings of the stages.
        training: the training's.
        conditions: of its simulations.
        intervals: control intervals of an identification.
        presets: number of settings that are candidates beside those that stage search finds.

    Raises:
        ConfigError: a run is shorter than what is watched of it, or a stage has too few steps.
    """
    _check_shares(asked)
    draws = training_draws(training.source, training.stream("draws", 0), by_cost=asked.by_cost)

    longest = intervals * (1 + LATER if asked.reselect_share else 1)
    _check_length(next(draws), conditions, longest)
    steps = {stage: int(_share(asked, stage) * training.total_steps) for stage in _WITH_SHARE}
    steps["identification"] = training.total_steps - sum(steps.values())
    plan: dict[str, tuple[TrainingDraw, ...]] = {"reselect": ()}

    def take(stage: str, runs: int, *, once: bool = False, is_later: bool = False, least: int = 1) -> None:
        """Take as many draws as the stage can run so often, after what is simulated once."""

        def cost(draw: TrainingDraw) -> int:
            if not once:
                return runs * conditions.intervals(draw.scenario)
            _check_length(draw, conditions, longest)
            moment = moment_of(conditions, draw, intervals, is_later=is_later)
            return moment + runs * (conditions.intervals(draw.scenario) - moment)

        plan[stage] = _affordable(stage, draws, steps[stage], cost, least=least)

    take("search", asked.search_runs * asked.search_trials)
    candidates = presets + len(plan["search"])
    take("cross", candidates)
    size, least = min(asked.library_size, candidates), 2 * asked.fit.folds
    take("refine", min(KEPT * asked.library_size, candidates) + asked.refine_turns * size)
    tried = size + training.is_per_flow  # then the setting of the identification is in the library too
    take("identification", tried, once=True, least=least)
    if asked.reselect_share:
        take("reselect", tried, once=True, is_later=True, least=max(least, asked.reselect_turns))
    return plan


def _check_length(draw: TrainingDraw, conditions: TrainingConditions, longest: int) -> None:
    """Raise ConfigError unless a run is longer than the part that may be simulated once."""
    run, end = conditions.intervals(draw.scenario), moment_of(conditions, draw, longest, is_later=False)
    if run <= end:
        raise ConfigError(
            f"agent.identification_s: is so long that a setting is tried as late as after {end} control intervals, "
            f"expected less than a run's {run}, of {draw.scenario.name}"
        )


def _check_shares(asked: StageSettings) -> None:
    """Raise ConfigError if nothing is left for the identification."""
    shares = {f"agent.{stage}_share": _share(asked, stage) for stage in _WITH_SHARE}
    if sum(shares.values()) >= 1:
        each = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        raise ConfigError(
            f"agent.cross_share: is one of {each}, expected a sum below 1, which leaves the rest for the identification"
        )


def _share(asked: StageSettings, stage: str) -> float:
    share: float = getattr(asked, f"{stage}_share")
    return share


def _affordable(
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
            f"{', '.join(f'agent.{one}_share' for one in _WITH_SHARE)}"
        )
    return tuple(taken)
