# SPDX-License-Identifier: GPL-2.0-only
"""Interface of trainers, which make agents, and how a configuration chooses one.

A new agent is a class derived from `Trainer`, or from an algorithm of Stable-Baselines3, and a file in conf/agent that
names it by `_target_`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from bbrgym.agents.base import Agent
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.errors import ConfigError
from bbrgym.schema import shown
from bbrgym.targets import Target, build

LACKS_MEMORY = "can't allocate memory"
"""What PyTorch's RuntimeError says for a lack of memory."""


class Trainer(Target):
    """Trains and loads agents of one kind; the fields are the hyperparameters."""

    adapters: ClassVar[Mapping[str, str]] = {
        "stable_baselines3.common.base_class.BaseAlgorithm": "bbrgym.agents.sb3.trainer_class"
    }

    # whether it takes its environments from `TrainingRun.rollouts`, which may run them elsewhere
    is_distributed: ClassVar[bool] = False
    is_shared: ClassVar[bool] = False  # whether the tuned flows of an episode can share one policy, as env=multi needs
    draws_episodes: ClassVar[bool] = False  # whether the draws of its episodes are as the settings say
    is_continuable: ClassVar[bool] = True  # whether a finished training can go on with more steps
    changeable: ClassVar[tuple[str, ...]] = ()  # hyperparameters that may be others from then on

    def adapted(self, settings: TrainingSettings) -> TrainingSettings:
        """Return the settings to train with, which the run folder keeps. Default: those given."""
        return settings

    def check_callback(self, callback: Any) -> None:
        """Raise ConfigError unless the trainer supports a callback of the caller."""
        raise ConfigError(
            f"callback: is {shown(callback)}, expected none with agent={self.name}: only agents of Stable-Baselines3 "
            f"take one"
        )

    @abstractmethod
    def train(self, run: TrainingRun) -> None:
        """Train from the run's last checkpoint, or from the beginning, to `run.settings.total_steps`.

        Raises:
            ConfigError: a hyperparameter does not fit the environment.
            TrainingError: a number became NaN or infinite.
            WorldError: a simulation failed.
        """

    @abstractmethod
    def load(self, folder: TrainingFolder, settings: TrainingSettings, checkpoint: str) -> Agent:
        """Return the agent of a checkpoint, ``best`` or ``last``.

        Raises:
            ConfigError: there is no such checkpoint, or it holds something else.
        """


def trainer_of(settings: TrainingSettings, *, is_trusted: bool) -> Trainer:
    """Return the trainer that a training's settings choose.

    Args:
        settings: of the training.
        is_trusted: whether the settings are the user's own, not just found in a run folder.

    Raises:
        ConfigError: there is no such trainer, or a hyperparameter has a value that is not allowed.
        MissingExtraError: a package that it needs is not installed.
    """
    return build("agent", settings.agent, Trainer, extra="train", is_trusted=is_trusted)
