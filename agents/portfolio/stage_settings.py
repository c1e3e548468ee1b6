# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the stages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bbrgym.agents.portfolio.fit import FitSettings
from bbrgym.schema import Float, List, Model, NotNegative, Whole

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
    reselect_turns: Annotated[Whole, Field(ge=1, le=100)] = 2  # agents that it learns from, each the last one's heir
    identification_s: Annotated[Float, Field(gt=0, le=3600)] = 7.0  # length of the identification
    # time from a choice to the next one, each by the last ``identification_s``. Default: ``identification_s``
    reselect_s: Annotated[Float, Field(gt=0, le=3600)] | None = None
    # price of what the tuned flows leave to BBR, in units of the score, see `bbrgym.agents.portfolio.tasks`
    yield_price: NotNegative = 0.0
    by_cost: bool = True  # whether draws are sampled by cost, see `bbrgym.agents.training.draws`
    fit: FitSettings = Field(default_factory=FitSettings)  # settings of the fit
