# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the stages, and the draws of each: no two stages share one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, TypeAlias

from pydantic import Field

from bbrgym.agents.portfolio.fit import FitSettings
from bbrgym.agents.portfolio.identification import watched
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw, training_draws
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.errors import ConfigError
from bbrgym.schema import Float, List, Model, Whole

KEPT = 3
"""Candidates that stage cross leaves, for each setting of the library."""

Plan: TypeAlias = Mapping[str, tuple[TrainingDraw, ...]]
"""Draws by stage."""

_WITH_SHARE = ("search", "cross", "refine", "reselect", "evolve")  # stages whose share of the steps is a setting

StageShare = Annotated[Float, Field(gt=0, lt=1)]


class StageSettings(Model):
    """Hyperparameters of the stages."""

    # run folders, or names as shipped/wan, of trainings that found a fixed setting or a portfolio: candidates for the
    # library. Default: none
    start: List[str] = ()
    library_size: Annotated[Whole, Field(ge=1, le=1000)] = 8  # largest number of settings of the library
    search_share: StageShare = 0.25  # share of the steps for stage search
    search_trials: Annotated[Whole, Field(ge=1, le=100_000)] = 40  # settings tried on each of its draws
    search_runs: Annotated[Whole, Field(ge=1, le=1000)] = 2  # runs of each of these
    cross_share: StageShare = 0.2125  # share of the steps for stage cross
    refine_share: StageShare = 0.2  # share of the steps for stage refine
    refine_turns: Annotated[Whole, Field(ge=0, le=1000)] = 8  # generations of children that it tries
    # share of the steps for stage reselect, to choose again every ``reselect_s``; 0: the first choice is held
    reselect_share: Annotated[Float, Field(ge=0, lt=1)] = 0.0
    identification_s: Annotated[Float, Field(gt=0, le=3600)] = 7.0  # length of the identification
    # time from a choice to the next one, each by the last ``identification_s``. Default: ``identification_s``
    reselect_s: Annotated[Float, Field(gt=0, le=3600)] | None = None
    # share of the steps for stage evolve; 0: the settings stay as they were found
    evolve_share: Annotated[Float, Field(ge=0, lt=1)] = 0.0
    evolve_policies: Annotated[Whole, Field(ge=4, le=1000)] = 24  # sets of settings in a generation of stage evolve
    evolve_draws: Annotated[Whole, Field(ge=1, le=10_000)] = 64  # draws that a generation meets
    by_cost: bool = True  # whether draws are sampled by cost, see `bbrgym.agents.training.draws`
    fit: FitSettings = Field(default_factory=FitSettings)  # settings of the fit


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

    def watched_of(draw: TrainingDraw, identifications: int) -> int:
        """Return the intervals that are watched of a run, which is longer."""
        run, end = conditions.intervals(draw.scenario), watched(conditions, draw, identifications)
        if run <= end:
            with_reselection = ", twice because of agent.reselect_share" if asked.reselect_share else ""
            raise ConfigError(
                f"agent.identification_s: are {intervals} control intervals{with_reselection}, expected less than a "
                f"run's {run}, of {draw.scenario.name}"
            )
        return end

    watched_of(next(draws), intervals * (2 if asked.reselect_share else 1))
    steps = {stage: int(_share(asked, stage) * training.total_steps) for stage in _WITH_SHARE}
    steps["identification"] = training.total_steps - sum(steps.values())
    plan: dict[str, tuple[TrainingDraw, ...]] = {"reselect": (), "evolve": ()}

    def take(stage: str, runs: int, identifications: int = 0, least: int = 1) -> None:
        """Take as many draws as the stage can run so often, after the intervals that are simulated once."""

        def cost(draw: TrainingDraw) -> int:
            once = watched_of(draw, identifications) if identifications else 0
            return once + runs * (conditions.intervals(draw.scenario) - once)

        plan[stage] = _affordable(stage, draws, steps[stage], cost, least=least)

    take("search", asked.search_runs * asked.search_trials)
    candidates = presets + len(plan["search"])
    take("cross", candidates)
    size, least = min(asked.library_size, candidates), 2 * asked.fit.folds
    take("refine", min(KEPT * asked.library_size, candidates) + asked.refine_turns * size)
    tried = size + training.is_per_flow  # then the setting of the identification is in the library too
    take("identification", tried, intervals, least)
    if asked.reselect_share:
        take("reselect", tried, 2 * intervals, least)
    if asked.evolve_share:
        take("evolve", asked.evolve_policies + 2, least=asked.evolve_draws)
        plan["evolve"] = plan["evolve"][: len(plan["evolve"]) // asked.evolve_draws * asked.evolve_draws]
    return plan


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
