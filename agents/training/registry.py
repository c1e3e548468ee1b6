# SPDX-License-Identifier: GPL-2.0-only
"""The table of agents that `bbrgym train` can make, each by a trainer of its own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bbrgym.agents.base import Agent
from bbrgym.errors import ConfigError, MissingExtraError, nearest

if TYPE_CHECKING:
    from bbrgym.agents.training.folder import TrainingFolder
    from bbrgym.agents.training.loop import TrainingRun
    from bbrgym.agents.training.settings import Training


class Trainer(Protocol):
    """Makes one kind of agent."""

    def train(self, run: TrainingRun) -> None:
        """Trains from the run's last checkpoint, or from the beginning, to `run.settings.total_steps`.

        Raises:
            ConfigError: the hyperparameters cannot be.
            TrainingError: something became NaN.
        """

    def load(self, folder: TrainingFolder, settings: Training, checkpoint: str) -> Agent:
        """The agent of a checkpoint, ``best`` or ``last``.

        Raises:
            ConfigError: there is none.
        """


@dataclass(frozen=True)
class Kind:
    """Where a trainer is.

    Attributes:
        module: has a function ``trainer(name) -> Trainer``.
        extra: of the package, which the module needs.
        is_distributed: whether its environments may run elsewhere, see `bbrgym.agents.training.vec_env`.
        is_shared: whether one policy of it may act for each learner flow by itself, see conf/env/multi.yaml.
    """

    module: str
    extra: str
    is_distributed: bool = False
    is_shared: bool = False


_SB3 = Kind("bbrgym.agents.sb3", "train", is_distributed=True, is_shared=True)

_SEARCH = Kind("bbrgym.agents.search_trainer", "search")

KINDS: Mapping[str, Kind] = {
    "grid": _SEARCH,
    "optuna": _SEARCH,
    "ppo": _SB3,
    "recurrent_ppo": Kind("bbrgym.agents.sb3", "train", is_distributed=True),
    "sac": _SB3,
    "tqc": _SB3,
    "dqn": _SB3,
    "torch_ppo": Kind("bbrgym.agents.torch_ppo", "train"),
}
"""By the name that conf/agent/*.yaml gives."""


def trainer_of(name: str) -> Trainer:
    """The trainer of an agent.

    Raises:
        ConfigError: there is no such agent.
        MissingExtraError: what it needs is not installed.
    """
    if name not in KINDS:
        raise ConfigError(f"agent.name: is {name!r}; {nearest(name, KINDS)}")
    kind = KINDS[name]
    try:
        trainer: Trainer = importlib.import_module(kind.module).trainer(name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("bbrgym"):
            raise
        raise MissingExtraError(f"agent={name}", kind.extra, error) from error
    return trainer
