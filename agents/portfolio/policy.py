# SPDX-License-Identifier: GPL-2.0-only
"""The agent: it identifies the path, chooses a setting of the library, and holds it until it chooses again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone
from bbrgym.agents.portfolio.parameters import true_parameters
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags

Histories: TypeAlias = NDArray[np.float32]
"""Observations of an identification, [environments, intervals, numbers]."""

Rows: TypeAlias = NDArray[np.intp]
"""Numbers of environments, [environments]."""

Chooser: TypeAlias = Callable[[Histories, Rows], NormalisedAction]
"""Function from histories of some environments to their settings, [environments, tunables]."""


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
        merits = self.merits(history.reshape(-1, self._intervals, history.shape[1] // self._intervals))
        return self.library[merits.argmax(-1)]

    def merits(self, histories: Tensor) -> Tensor:
        """Return what each setting promises, [N, settings], by histories [N, intervals, numbers]."""
        return cast(Tensor, self.selector(self.features(histories)))

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
    intervals: int  # control intervals of the identification, and of what a later choice goes by
    pause: int  # control intervals from a choice to the next one, at most as many


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
        fixed: NormalisedAction | None = None,
    ) -> None:
        self.name = name
        self.is_per_flow = is_per_flow
        self.routine = routine
        self.networks = tuple(network.eval() for network in networks)  # as given
        self.library: NormalisedAction = self.networks[0].library.numpy()  # settings to choose from
        self.fixed: NormalisedAction = self.library[0] if fixed is None else fixed  # best fixed setting, [tunables]
        self._privileged = privileged.eval()

    def network(self) -> PortfolioNetwork | ReselectingNetwork:
        """Return the network that chooses and is exported."""
        return self.networks[0] if len(self.networks) == 1 else ReselectingNetwork(*self.networks).eval()

    def make_policy(self, seeds: Sequence[int]) -> PortfolioPolicy:
        return self._policy(len(seeds), [partial(self._choose_each, turn=turn) for turn in range(len(self.networks))])

    def choose(self, history: NDArray[np.float32], turn: int = 0) -> NormalisedAction:
        """Return the setting for an identification's observations, [intervals, numbers].

        In turn 1 it is that after the first choice.
        """
        chosen: NormalisedAction = alone(self.networks[turn], history.reshape(1, -1))[0][0]
        return chosen

    def privileged_policy(self, scenario: Scenario) -> PortfolioPolicy:
        """Return a policy of one environment that identifies, then chooses by the true parameters of its scenario."""
        parameters = true_parameters([scenario]).astype(np.float32)
        setting = self.library[alone(self._privileged, parameters)[0][0].argmax()]
        return self._policy(1, [lambda _histories, _rows: setting[None]])

    def _choose_each(self, histories: Histories, _rows: Rows, turn: int) -> NormalisedAction:
        return np.stack([self.choose(history, turn) for history in histories])

    def _policy(self, count: int, choosers: Sequence[Chooser]) -> PortfolioPolicy:
        return PortfolioPolicy(np.tile(self.routine.setting, (count, 1)), self.routine, choosers)


class PortfolioPolicy:
    """Identifies the path, chooses a setting, and holds it until it chooses again; N environments side by side.

    Args:
        first: settings during the identification, [N, tunables].
        routine: whose intervals count.
        choosers: of the first choice and, if there is a second one, of all later ones.
    """

    def __init__(self, first: NormalisedAction, routine: IdentificationRoutine, choosers: Sequence[Chooser]) -> None:
        self._first = first
        self._intervals, self._pause = routine.intervals, routine.pause
        self._choosers = choosers
        self._held = first.copy()
        self._choices = np.zeros(len(first), np.intp)
        self._seen = np.zeros(len(first), np.intp)  # intervals in the histories
        self._histories: Histories = np.zeros((len(first), routine.intervals, 0), np.float32)

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        """Return the actions after an interval, or at the beginning, [N, tunables]."""
        if not self._histories.size:
            self._histories = np.zeros((*self._histories.shape[:2], observations.shape[1]), np.float32)
        self._restart(episode_starts)
        self._watch(observations, ~episode_starts & ((self._choices == 0) | (len(self._choosers) > 1)))
        is_due = self._seen == self._intervals
        for turn, choose in enumerate(self._choosers):
            rows = np.flatnonzero(is_due & (np.minimum(self._choices, len(self._choosers) - 1) == turn))
            if len(rows):
                self._held[rows] = choose(self._histories[rows], rows)
        self._choices[is_due] += 1
        self._histories[is_due] = np.roll(self._histories[is_due], -self._pause, axis=1)
        self._seen[is_due] -= self._pause
        return self._held.copy()

    def _restart(self, starts: Flags) -> None:
        self._held[starts] = self._first[starts]
        self._choices[starts] = 0
        self._seen[starts] = 0

    def _watch(self, observations: NDArray[np.float32], watching: Flags) -> None:
        self._histories[watching, self._seen[watching]] = observations[watching]
        self._seen[watching] += 1
