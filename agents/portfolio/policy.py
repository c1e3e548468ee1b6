# SPDX-License-Identifier: GPL-2.0-only
"""The agent: it identifies the path, chooses a setting of the library, and holds it until it chooses again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone
from bbrgym.agents.portfolio.parameters import true_parameters
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.envs.features import Observation
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags


class PortfolioNetwork(nn.Module):
    """Chooses settings by an identification's observations: [N, intervals * numbers] -> [N, tunables]."""

    inputs = ("history",)
    outputs = ("actions",)

    def __init__(
        self,
        features: nn.Module,
        selector: TreeSelector,
        library: NormalisedAction,
        intervals: int,
    ) -> None:
        super().__init__()
        self.features = features
        self.selector = selector
        self.library: Tensor
        self.register_buffer("library", torch.from_numpy(library.copy()))
        self._intervals = intervals

    def forward(self, history: Tensor) -> Tensor:
        features = self.features(history.reshape(-1, self._intervals, history.shape[1] // self._intervals))
        return self.library[self.selector(features).argmax(-1)]

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return zeros as inputs for ``count`` environments, of whose intervals ``width`` numbers are observed."""
        return (torch.zeros(count, self._intervals * width),)


class ReselectingNetwork(nn.Module):
    """Two networks: one chooses after the identification, the other one after a time in which a choice was held."""

    inputs = ("history", "reselect")
    outputs = ("actions",)

    def __init__(self, first: PortfolioNetwork, again: PortfolioNetwork) -> None:
        super().__init__()
        self.first, self.again = first, again

    def forward(self, history: Tensor, reselect: Tensor) -> Tensor:
        return torch.where(reselect[:, :1] > 0, self.again(history), self.first(history))

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return zeros as inputs for ``count`` environments."""
        return (*self.first.first_inputs(count, width), torch.zeros(count, 1))


@dataclass(frozen=True)
class IdentificationRoutine:
    """Routine of an agent's identification."""

    setting: NormalisedAction  # during the identification, [tunables]
    intervals: int  # control intervals of the identification


class PortfolioAgent:
    """Agent that identifies the path, then holds the setting that its network chooses."""

    def __init__(
        self,
        name: str,
        networks: Sequence[PortfolioNetwork],
        routine: IdentificationRoutine,
        privileged: TreeSelector,
        *,
        is_per_flow: bool = False,
    ) -> None:
        self.name = name
        self.is_per_flow = is_per_flow
        self.routine = routine
        self.networks = tuple(network.eval() for network in networks)  # as given
        # settings to choose from, [settings, tunables]; the first is the best fixed one
        self.library: NormalisedAction = self.networks[0].library.numpy()
        self._privileged = privileged.eval()

    def network(self) -> PortfolioNetwork | ReselectingNetwork:
        """Return the network that chooses and is exported."""
        return self.networks[0] if len(self.networks) == 1 else ReselectingNetwork(*self.networks).eval()

    def make_policy(self, seeds: Sequence[int]) -> PortfolioPolicy:
        choosers = [partial(self.choose, turn=turn) for turn in range(len(self.networks))]
        return PortfolioPolicy([_Episode(self.routine, choosers) for _ in seeds])

    def choose(self, history: Sequence[Observation], turn: int = 0) -> NormalisedAction:
        """Return the setting for an identification's observations, [tunables]; in turn 1, after the first choice."""
        chosen: NormalisedAction = alone(self.networks[turn], np.concatenate(history)[None])[0][0]
        return chosen

    def privileged_policy(self, scenario: Scenario) -> PortfolioPolicy:
        """Return a policy of one environment that identifies, then chooses by the true parameters of its scenario."""
        parameters = true_parameters([scenario]).astype(np.float32)
        setting = self.library[alone(self._privileged, parameters)[0][0].argmax()]
        return PortfolioPolicy([_Episode(self.routine, [lambda _: setting])])


class PortfolioPolicy:
    """The agent in environments side by side."""

    def __init__(self, episodes: Sequence[_Episode]) -> None:
        self._episodes = episodes

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        rows = zip(self._episodes, observations, episode_starts, strict=True)
        return np.stack([episode.act(observation, bool(is_first)) for episode, observation, is_first in rows])


class _Episode:
    """The agent in one environment: what it observed since it last chose, and what it holds."""

    def __init__(
        self, routine: IdentificationRoutine, choosers: Sequence[Callable[[Sequence[Observation]], NormalisedAction]]
    ) -> None:
        self._routine = routine
        self._choosers = choosers
        self._restart()

    def _restart(self) -> None:
        self._history: list[Observation] = []
        self._held = self._routine.setting
        self._choices = 0

    def act(self, observation: Observation, is_first: bool) -> NormalisedAction:
        """Return the action after an interval, or at the beginning."""
        if is_first:
            self._restart()
        elif self._choices == 0 or len(self._choosers) > 1:
            self._history.append(observation.copy())
            if len(self._history) == self._routine.intervals:
                self._choose()
        return self._held

    def _choose(self) -> None:
        self._held = self._choosers[min(self._choices, len(self._choosers) - 1)](self._history)
        self._history = []
        self._choices += 1
