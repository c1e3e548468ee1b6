# SPDX-License-Identifier: GPL-2.0-only
"""The agent: it probes, chooses a setting of the library, and holds it until the path changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone
from bbrgym.agents.portfolio.change import ChangeDetector
from bbrgym.agents.portfolio.guard import Guard
from bbrgym.agents.portfolio.parameters import true_parameters
from bbrgym.agents.portfolio.probe import newest
from bbrgym.agents.portfolio.selector import Selector
from bbrgym.envs.features import Observation
from bbrgym.envs.scaling import Coordinates
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags


class PortfolioNetwork(nn.Module):
    """Function from the observations of a probe, [N, intervals * numbers], to the chosen settings, [N, tunables].

    Args:
        features: of the probe.
        selector: predicts the settings' scores.
        library: the settings, [settings, tunables].
        intervals: of the probe.
        width: numbers of an interval's observation.
        guard: tells where the library's first setting is taken instead; None: nowhere.

    Attributes:
        features, selector, guard: as given.
    """

    inputs = ("history",)
    outputs = ("actions",)

    def __init__(
        self,
        features: nn.Module,
        selector: Selector,
        library: Coordinates,
        intervals: int,
        width: int,
        guard: Guard | None = None,
    ) -> None:
        super().__init__()
        self.features = features
        self.selector = selector
        self.guard = guard
        self.library: Tensor
        self.register_buffer("library", torch.from_numpy(library.copy()))
        self._shape = (intervals, width)

    def forward(self, history: Tensor) -> Tensor:
        features = self.features(history.reshape(-1, *self._shape))
        choices = self.selector(features).argmax(-1)
        if self.guard is not None:
            choices = torch.where(self.guard(features) > 0, 0, choices)
        return self.library[choices]

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:  # noqa: ARG002 - its own width counts
        """Return zeros as inputs for ``count`` environments."""
        return (torch.zeros(count, math.prod(self._shape)),)


@dataclass(frozen=True)
class ProbeRoutine:
    """Routine of an agent's probes.

    Attributes:
        setting: during the probe, [tunables].
        intervals: control intervals of the probe.
        width: numbers of an interval's observation.
        detector: makes the change detector of an environment; None: a setting is held to the end.
    """

    setting: Coordinates
    intervals: int
    width: int
    detector: Callable[[], ChangeDetector] | None = None


class PortfolioAgent:
    """Agent that probes, then holds the setting that its network chooses.

    Args:
        name: name in records.
        network: chooses.
        routine: of the probe.
        knowing: predicts the settings' scores from the true parameters of a network.
        is_per_flow: as of any `Agent`.

    Attributes:
        library: settings to choose from, [settings, tunables]; the first is the best fixed one.
        routine, is_per_flow: as given.
    """

    def __init__(
        self, name: str, network: PortfolioNetwork, routine: ProbeRoutine, knowing: Selector, *, is_per_flow: bool
    ) -> None:
        self.name = name
        self.routine = routine
        self.is_per_flow = is_per_flow
        self.library: Coordinates = network.library.numpy()
        self._network = network.eval()
        self._knowing = knowing.eval()

    def network(self) -> PortfolioNetwork:
        """Return the network that chooses and is exported."""
        return self._network

    def tuner(self, seeds: Sequence[int]) -> PortfolioTuner:
        """Return a new tuner; see `Agent`."""
        return PortfolioTuner([_Episode(self.routine, self.choose) for _ in seeds])

    def choose(self, history: Sequence[Observation]) -> Coordinates:
        """Return the setting for what was observed in a probe, [tunables]."""
        chosen: Coordinates = alone(self._network, np.concatenate(history)[None])[0][0]
        return chosen

    def knows(self, scenario: Scenario) -> int:
        """Return the number of the setting chosen by the true parameters of a scenario."""
        parameters = true_parameters([scenario]).astype(np.float32)
        return int(alone(self._knowing, parameters)[0][0].argmax())

    def told(self, scenario: Scenario) -> PortfolioTuner:
        """Return a tuner of one environment that probes too, then chooses by the true parameters of its scenario."""
        setting = self.library[self.knows(scenario)]
        return PortfolioTuner([_Episode(replace(self.routine, detector=None), lambda _: setting)])


class PortfolioTuner:
    """The agent in environments side by side."""

    def __init__(self, episodes: Sequence[_Episode]) -> None:
        self._episodes = episodes

    def act(self, observations: Any, begun: Flags) -> NDArray[Any]:
        """Return the actions; see `Tuner`."""
        rows = zip(self._episodes, observations, begun, strict=True)
        return np.stack([episode.act(observation, bool(is_first)) for episode, observation, is_first in rows])


class _Episode:
    """The agent in one environment: the observations of the probe under way, or the setting held."""

    def __init__(self, routine: ProbeRoutine, choose: Callable[[Sequence[Observation]], Coordinates]) -> None:
        self._routine = routine
        self._choose = choose
        self._detector = None if routine.detector is None else routine.detector()
        self._history: list[Observation] = []
        self._held: Coordinates | None = None

    def act(self, observation: Observation, is_first: bool) -> Coordinates:
        """Return the action after an interval, or at the beginning."""
        view = newest(observation[None], self._routine.width)[0].copy()
        if is_first:
            self._history, self._held = [], None
        elif self._held is None:
            self._history.append(view)
        elif self._detector is not None and self._detector.has_changed(view):
            self._history, self._held = [], None
        if self._held is None and len(self._history) == self._routine.intervals:
            self._held = self._choose(self._history)
            if self._detector is not None:
                self._detector.reset()
        return self._routine.setting if self._held is None else self._held
