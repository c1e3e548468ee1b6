# SPDX-License-Identifier: GPL-2.0-only
"""What an agent is, and how a trained one is loaded from its run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.learners import Flags


class Tuner(Protocol):
    """Sets the tunables of environments side by side."""

    def act(self, observations: Any, begun: Flags) -> NDArray[Any]:
        """The actions [N, ...] of observations [N, ...].

        Args:
            observations: of N environments.
            begun: [N], the runs that have just begun: what is remembered of the ones before has no say in them.
        """


class Agent(Protocol):
    """What can be put in charge of a variant's tunables.

    Attributes:
        name: what records say.
        is_per_flow: whether it sets the tunables of each learner flow by themselves, as an agent of `TuneMultiEnv`; or
            those of all learner flows of a run, as in `TuneEnv`.
    """

    name: str
    is_per_flow: bool

    def tuner(self, seeds: Sequence[int]) -> Tuner:
        """A fresh one for as many environments, side by side; what it draws comes from streams of their runs' seeds."""


class Constant:
    """Always the same action, [tunables]: a fixed setting as an agent."""

    is_per_flow = False

    def __init__(self, name: str, action: NDArray[Any]) -> None:
        self.name = name
        self.action = action

    def tuner(self, seeds: Sequence[int]) -> Constant:  # noqa: ARG002 - for any
        """Itself: it remembers nothing."""
        return self

    def act(self, observations: Any, begun: Flags) -> NDArray[Any]:  # noqa: ARG002 - it does not look
        """The action for each environment: [N, tunables]."""
        return np.tile(self.action, (len(begun), 1))


def load_agent(run_dir: str | Path, checkpoint: str = "best") -> tuple[Agent, dict[str, Any]]:
    """A trained agent, and the arguments of the environment that it knows: as in training, but without a critic's part.

    They are those of `TuneEnv`; of one trained with env=multi, whose `is_per_flow` is true, those of `TuneMultiEnv`.

    Args:
        run_dir: what `bbrgym train` left.
        checkpoint: ``best`` (by its validation score) or ``last``.

    Raises:
        ConfigError: it is no such folder, or has no such checkpoint.
    """
    from bbrgym.agents.training.folder import (
        TrainingFolder,  # these bring more than one who only needs the protocols wants
    )
    from bbrgym.agents.training.registry import trainer_of
    from bbrgym.agents.training.settings import parse_training

    folder = TrainingFolder(Path(run_dir))
    settings = parse_training(folder.read_config())
    agent = trainer_of(settings.agent_name).load(folder, settings, checkpoint)
    return agent, settings.env_arguments() | {"critic": False}
