# SPDX-License-Identifier: GPL-2.0-only
"""The agent: identifies the path, then holds a setting of the library until the next selection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone, in_one_thread
from bbrgym.agents.portfolio.parameters import true_parameters
from bbrgym.agents.portfolio.selector import Selector
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags

Histories: TypeAlias = NDArray[np.float32]
"""Observations of an identification, [environments, intervals, numbers]."""

Chooser: TypeAlias = Callable[[Histories], NormalisedAction]
"""Function from histories of some environments to their settings, [environments, tunables]."""


class PortfolioNetwork(nn.Module):
    """Chooses settings by an identification's observations: [N, intervals * numbers] -> [N, tunables]."""

    inputs = ("history",)
    outputs = ("actions",)

    def __init__(
        self,
        features: nn.Module,
        selector: Selector,
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


@dataclass(frozen=True)
class IdentificationRoutine:
    """Routine of an agent's choices."""

    setting: NormalisedAction  # during the identification, [tunables]
    intervals: int  # control intervals of the identification, and of what a later choice goes by
    pause: int | None  # control intervals from a choice to the next one, at most as many; None: the first one is held


class PortfolioAgent:
    """Agent that identifies the path, then holds the setting that a network chooses."""

    def __init__(
        self,
        name: str,
        network: PortfolioNetwork,
        routine: IdentificationRoutine,
        privileged: Selector,
        *,
        is_per_flow: bool = False,
    ) -> None:
        self.name = name
        self.is_per_flow = is_per_flow
        self.routine = routine
        self.library: NormalisedAction = network.library.numpy()  # settings to choose from, the best fixed one first
        self._network = network.eval()
        self._privileged = privileged.eval()

    def network(self) -> PortfolioNetwork:
        """Return the network that chooses and is exported."""
        return self._network

    def make_policy(self, seeds: Sequence[int]) -> PortfolioPolicy:
        return PortfolioPolicy(len(seeds), self.routine, partial(_choose_each, self._network))

    def choose(self, history: NDArray[np.float32]) -> NormalisedAction:
        """Return the setting for observations of as many intervals as an identification's, [intervals, numbers]."""
        chosen: NormalisedAction = _choose_each(self._network, history[None])[0]
        return chosen

    def privileged_policy(self, scenario: Scenario) -> PortfolioPolicy:
        """Return a policy of one environment that identifies, then chooses by the true parameters of its scenario."""
        parameters = true_parameters([scenario]).astype(np.float32)
        setting = self.library[alone(self._privileged, parameters)[0][0].argmax()]
        return PortfolioPolicy(1, self.routine, lambda _histories: setting[None])


@torch.no_grad()
def _choose_each(network: PortfolioNetwork, histories: Histories) -> NormalisedAction:
    """Return the setting for each of some histories, independent of the other histories.

    Features are sums over time and flows, the same however many rows there are; products of matrices round differently.
    """
    with in_one_thread():
        features = network.features(torch.from_numpy(histories))
        chosen = [int(network.selector(row[None]).argmax()) for row in features]
    return np.asarray(network.library.numpy()[chosen])


class PortfolioPolicy:
    """Identifies the path, then holds a setting until the next selection; N environments side by side.

    Args:
        count: N.
        routine: of the choices.
        choose: function from histories of some environments to their settings. Default: the first setting is held.
    """

    def __init__(self, count: int, routine: IdentificationRoutine, choose: Chooser | None = None) -> None:
        self._routine = routine
        self._choose = choose
        self._held = np.tile(routine.setting, (count, 1))
        self._watches = np.zeros(count, np.bool_)  # which go on to choose
        self._seen = np.zeros(count, np.intp)  # intervals in the histories
        self._histories: Histories = np.zeros((count, routine.intervals, 0), np.float32)

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        """Return the actions after an interval, or at the beginning, [N, tunables]."""
        if not self._histories.size:
            self._histories = np.zeros((*self._histories.shape[:2], observations.shape[1]), np.float32)
        self._watch(observations, self._watches & ~episode_starts)
        self._restart(episode_starts)
        is_due = self._watches & (self._seen == self._routine.intervals)
        if self._choose is not None and is_due.any():
            self._held[is_due] = self._choose(self._histories[is_due])
            self._forget(is_due)
        return self._held.copy()

    def _restart(self, starts: Flags) -> None:
        self._held[starts] = self._routine.setting
        self._watches[starts] = self._choose is not None
        self._seen[starts] = 0

    def _watch(self, observations: NDArray[np.float32], watching: Flags) -> None:
        self._histories[watching, self._seen[watching]] = observations[watching]
        self._seen[watching] += 1

    def _forget(self, chosen: Flags) -> None:
        """Make room for the intervals until the next choice."""
        pause = self._routine.pause
        if pause is None:
            self._watches[chosen] = False
        else:
            self._histories[chosen] = np.roll(self._histories[chosen], -pause, axis=1)
            self._seen[chosen] -= pause
