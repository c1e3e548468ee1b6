# SPDX-License-Identifier: GPL-2.0-only
"""Interface of agents, and the simplest agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags


class Policy(Protocol):
    """Sets tunables in N environments side by side; may keep a memory of past observations."""

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        """Return the actions, [N, ...].

        Args:
            observations: of the environments, [N, ...].
            episode_starts: environments whose episode starts, [N]; what is remembered of their earlier episodes must
                not influence the action.
        """


class Agent(Protocol):
    """Makes policies that set the tunables of a variant.

    Attributes:
        name: name in records.
        is_per_flow: true if it sets the tunables of each tuned flow separately, as an agent of `TuneMultiEnv`; false
            if it sets those of all tuned flows of an episode together, as in `TuneEnv`.
    """

    name: str
    is_per_flow: bool

    def make_policy(self, seeds: Sequence[int]) -> Policy:
        """Return a new policy for one environment per seed, with random numbers from streams of these seeds."""


@runtime_checkable
class LibraryAgent(Agent, Protocol):
    """An agent that chooses among the settings of a library, for any number of tuned flows.

    Attributes:
        library: the settings, the best fixed one first, [settings, tunables].
    """

    library: NDArray[np.float32]

    def privileged_policy(self, scenario: Scenario) -> Policy:
        """Return a policy of one environment that chooses by the true parameters of its scenario."""


class Constant:
    """Agent that always takes the same action, [tunables]."""

    def __init__(self, name: str, action: NDArray[Any], *, is_per_flow: bool = False) -> None:
        self.name = name
        self.action = action
        self.is_per_flow = is_per_flow

    def make_policy(self, seeds: Sequence[int]) -> Constant:  # noqa: ARG002 - it draws nothing
        """Return the agent itself, which remembers nothing."""
        return self

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:  # noqa: ARG002 - it observes nothing
        """Return the action for each environment, [N, tunables]."""
        return np.tile(self.action, (len(episode_starts), 1))


class Called:
    """Agent that acts by a function, or by an object with ``predict``, such as a model of Stable-Baselines3.

    What ``predict`` returns may be a tuple whose first item is the action.
    """

    is_per_flow = False

    def __init__(self, name: str, act: Any) -> None:
        self.name = name
        self._act: Callable[[Any], Any] = act.predict if hasattr(act, "predict") else act

    def make_policy(self, seeds: Sequence[int]) -> Called:  # noqa: ARG002 - what it draws is its own
        """Return the agent itself, which is called for one environment after the other."""
        return self

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        """Return the action for each environment, [N, ...]."""
        actions = [self._act(observations[number]) for number in range(len(episode_starts))]
        return np.stack([np.asarray(one[0] if isinstance(one, tuple) else one) for one in actions])
