# SPDX-License-Identifier: GPL-2.0-only
"""Interface of agents, and the simplest of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.learners import Flags
from bbrgym.scenario.model import Scenario


class Tuner(Protocol):
    """An agent at work in N environments side by side; it may remember what it observed."""

    def act(self, observations: Any, begun: Flags) -> NDArray[Any]:
        """Return the actions, [N, ...].

        Args:
            observations: of the environments, [N, ...].
            begun: environments whose episode has just begun, [N]; what is remembered of their earlier episodes must
                not influence the action.
        """


class Agent(Protocol):
    """A policy that sets the tunables of a variant.

    Attributes:
        name: name in records.
        is_per_flow: true if it sets the tunables of each learner flow separately, as an agent of `TuneMultiEnv`; false
            if it sets those of all learner flows of an episode together, as in `TuneEnv`.
    """

    name: str
    is_per_flow: bool

    def tuner(self, seeds: Sequence[int]) -> Tuner:
        """Return a new tuner for one environment per seed; its random numbers come from streams of these seeds."""


@runtime_checkable
class LibraryAgent(Agent, Protocol):
    """An agent that chooses among the settings of a library.

    Attributes:
        library: the settings, [settings, tunables]; the first is the best fixed one.
    """

    library: NDArray[np.float32]

    def told(self, scenario: Scenario) -> Tuner:
        """Return a tuner of one environment that chooses by the true parameters of its scenario."""


class Constant:
    """Agent that always takes the same action.

    Args:
        name: name in records.
        action: the action, [tunables].
    """

    is_per_flow = False

    def __init__(self, name: str, action: NDArray[Any]) -> None:
        self.name = name
        self.action = action

    def tuner(self, seeds: Sequence[int]) -> Constant:  # noqa: ARG002 - it draws nothing
        """Return the agent itself, which remembers nothing."""
        return self

    def act(self, observations: Any, begun: Flags) -> NDArray[Any]:  # noqa: ARG002 - it observes nothing
        """Return the action for each environment, [N, tunables]."""
        return np.tile(self.action, (len(begun), 1))
