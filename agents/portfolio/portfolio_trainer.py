# SPDX-License-Identifier: GPL-2.0-only
"""Trainer `portfolio`; the package says what its stages are.

Its steps are the control intervals of all simulations, so that `total_steps` is the same amount of simulation as for an
agent that learns by trial. All draws are of the training split; the validation draws score the agent at the end.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, cast

from pydantic import Field

from bbrgym.agents.portfolio.assembly import Assembly, Found
from bbrgym.agents.portfolio.examples import FitSettings
from bbrgym.agents.portfolio.identification_features import OBSERVED
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.stages import Stages, StageSettings
from bbrgym.agents.training.checkpoints import restore_state
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.trainer import Trainer
from bbrgym.envs.observation import FEATURE_LISTS
from bbrgym.schema import Float, Whole

OBSERVATION = {"features": [*FEATURE_LISTS[OBSERVED]], "stack": 1, "view": "each"}
"""Arguments of the environment, in place of the user's."""

StageShare = Annotated[Float, Field(gt=0, lt=1)]


class PortfolioTrainer(Trainer):
    """Trains and loads portfolio agents.

    Attributes:
        library_size: largest number of settings of the library.
        search_share: share of the steps for stage search.
        search_trials: settings tried on each of its draws.
        search_runs: runs of each of these.
        cross_share: share of the steps for stage cross.
        refine_share: share of the steps for stage refine.
        reselect_share: share of the steps for stage reselect, to choose again every ``identification_s``; 0: the first
            choice is held.
        refine_turns: generations of children that it tries.
        identification_s: length of the identification.
        by_cost: whether draws are sampled by cost, see `bbrgym.agents.training.draws`.
        fit: settings of the fit.
    """

    is_distributed: ClassVar[bool] = True
    is_continuable: ClassVar[bool] = False  # its stages divide the steps

    library_size: Annotated[Whole, Field(ge=1, le=1000)] = 8
    search_share: StageShare = 0.25
    search_trials: Annotated[Whole, Field(ge=1, le=100_000)] = 40
    search_runs: Annotated[Whole, Field(ge=1, le=1000)] = 2
    cross_share: StageShare = 0.2125
    refine_share: StageShare = 0.2
    reselect_share: Annotated[Float, Field(ge=0, lt=1)] = 0.0
    refine_turns: Annotated[Whole, Field(ge=0, le=1000)] = 8
    identification_s: Annotated[Float, Field(gt=0, le=3600)] = 7.0
    by_cost: bool = True
    fit: FitSettings = Field(default_factory=FitSettings)

    def adapted(self, settings: TrainingSettings) -> TrainingSettings:
        """Return the settings with the observation that its features are made from; see `Trainer`."""
        return settings.model_copy(update={"env": {**settings.env, **OBSERVATION}})

    def train(self, run: TrainingRun) -> None:
        """Run the stages that are missing; see `Trainer`."""
        settings = StageSettings(
            library_size=self.library_size,
            search_share=self.search_share,
            search_trials=self.search_trials,
            search_runs=self.search_runs,
            cross_share=self.cross_share,
            refine_share=self.refine_share,
            refine_turns=self.refine_turns,
            reselect_share=self.reselect_share,
            by_cost=self.by_cost,
            fit=self.fit,
        )
        Stages(settings, self._assembly(run.settings), run).run()

    def load(self, folder: TrainingFolder, settings: TrainingSettings, checkpoint: str) -> PortfolioAgent:
        """Return the agent of a checkpoint; see `Trainer`."""
        made: list[PortfolioAgent] = []
        assembly = self._assembly(settings)
        restore_state(folder, checkpoint, lambda found: made.append(assembly.agent(cast(Found, found))))
        return made[0]

    def _assembly(self, settings: TrainingSettings) -> Assembly:
        return Assembly(settings, self.identification_s)
