# SPDX-License-Identifier: GPL-2.0-only
"""Trainer `portfolio`; the package's docstring describes the stages.

Its steps are the control intervals of all simulations, so that `total_steps` is the same amount of simulation as for an
agent that learns by trial. All draws are of the training split; the validation draws score the agent at the end.
"""

from __future__ import annotations

from typing import ClassVar, cast

from bbrgym.agents.portfolio.assembly import Assembly, Found
from bbrgym.agents.portfolio.identification_features import OBSERVED
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.stage_settings import StageSettings
from bbrgym.agents.portfolio.stages import Stages
from bbrgym.agents.training.checkpoints import restore_state
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.trainer import Trainer

OBSERVATION = {"features": [*OBSERVED], "frame_stack": 1, "view": "each"}
"""Arguments of the environment, in place of the user's."""


class PortfolioTrainer(StageSettings, Trainer):
    """Trains and loads portfolio agents; has the fields of `StageSettings`."""

    is_distributed: ClassVar[bool] = True
    is_shared: ClassVar[bool] = True
    is_continuable: ClassVar[bool] = False  # its stages divide the steps

    def adapted(self, settings: TrainingSettings) -> TrainingSettings:
        return settings.model_copy(update={"env": {**settings.env, **OBSERVATION}})

    def train(self, run: TrainingRun) -> None:
        Stages(self, self._assembly(run.settings), run).run()

    def load(self, folder: TrainingFolder, settings: TrainingSettings, checkpoint: str) -> PortfolioAgent:
        made: list[PortfolioAgent] = []
        assembly = self._assembly(settings)
        restore_state(folder, checkpoint, lambda found: made.append(assembly.agent(cast(Found, found))))
        return made[0]

    def _assembly(self, settings: TrainingSettings) -> Assembly:
        return Assembly(settings, self)
