# SPDX-License-Identifier: GPL-2.0-only
"""Assembly of the agent from a training's settings and what the stages have found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NotRequired, TypedDict

from torch import Tensor

from bbrgym.agents.portfolio.identification_features import IdentificationFeatures, ReselectFeatures
from bbrgym.agents.portfolio.policy import IdentificationRoutine, PortfolioAgent, PortfolioNetwork
from bbrgym.agents.portfolio.selector import Selector
from bbrgym.agents.portfolio.stage_settings import StageSettings
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.errors import ConfigError
from bbrgym.tunables import VARIANTS

DRAINING: Mapping[str, float] = {"bbr_cwnd_gain": 1.24, "use_probe_cap": 1, "use_forced_drain": 1}
"""Setting that empties its own queue, so that what stays in the queue is others', where these tunables are set."""

OFTEN_EMPTY: Mapping[str, float] = {"bbr_probe_rtt_interval_us": 2_000_000, "use_random_probe_rtt": 0}
"""What lets the queue run empty as often as the ranges allow, where these tunables are set."""


FIRM = ("bbr_cwnd_gain", (1.0, 1.2, 1.4, 1.6)), ("acd_verdict", (0,))
"""Values that keep a share beside others: windows above one BDP, which no verdict of congestion cuts."""


class Found(TypedDict):
    """Content of a checkpoint: what the stages have found."""

    library: Tensor  # settings, [settings, tunables]
    identification: NotRequired[Tensor]  # setting during the identification, [tunables]. Default: the draining one
    selector: Mapping[str, Tensor]  # state of the selector by what was observed
    privileged: Mapping[str, Tensor]  # state of the selector by the true parameters


class Assembly:
    """The parts of an agent that a training's settings decide.

    Raises:
        ConfigError: a setting does not fit the agent.
    """

    def __init__(self, settings: TrainingSettings, asked: StageSettings) -> None:
        options = settings.options(settings.world_name)
        batch = batch_of(1, options)
        settings.check_whole_settings()
        self.scaling = batch.scaling  # of the tunables that the agent sets
        self.is_per_flow = settings.is_per_flow
        self.draining = _draining(batch.scaling)  # setting that drains, [tunables]
        # control intervals of the identification
        interval_s = options.fixed_interval_s("with agent=portfolio")
        self.intervals = max(1, round(asked.identification_s / interval_s))
        # control intervals from a choice to the next one; None: the first one is held
        self.pause = _pause(asked, self.intervals, interval_s) if asked.reselect_share else None
        # features of what is observed
        self.features = _features(self.intervals, batch.scaling.names, with_held=self.pause is not None)
        self._name = settings.label

    def agent(self, found: Found) -> PortfolioAgent:
        """Return the agent with what the stages have found."""
        setting = found["identification"].numpy() if "identification" in found else self.draining
        return PortfolioAgent(
            self._name,
            self.network(found["library"], found["selector"]),
            self.routine(setting),
            Selector(found["privileged"]),
            is_per_flow=self.is_per_flow,
        )

    def routine(self, setting: NormalisedAction) -> IdentificationRoutine:
        """Return the routine with a setting of the identification, [tunables]."""
        return IdentificationRoutine(setting, self.intervals, self.pause)

    def emptying(self, setting: NormalisedAction) -> NormalisedAction:
        """Return the setting that lets the queue run empty most often, [tunables]."""
        often = {name: value for name, value in OFTEN_EMPTY.items() if name in self.scaling.names}
        return self.scaling.from_values({**self.scaling.to_values(setting), **often})

    def firm(self, setting: NormalisedAction) -> list[NormalisedAction]:
        """Return a setting with each combination of `FIRM`, where these tunables are set, [tunables] each."""
        ranges = [[(name, value) for value in values] for name, values in FIRM if name in self.scaling.names]
        values = self.scaling.to_values(setting)
        return [self.scaling.from_values({**values, **dict(one)}) for one in product(*ranges) if one]

    def network(self, library: Tensor, selector: Mapping[str, Tensor]) -> PortfolioNetwork:
        """Return a network that chooses from a library."""
        return PortfolioNetwork(self.features, Selector(selector), library.numpy(), self.intervals).eval()


def _pause(asked: StageSettings, intervals: int, control_interval_s: float) -> int:
    if asked.reselect_s is None:
        return intervals
    pause = max(1, round(asked.reselect_s / control_interval_s))
    if pause > intervals:
        raise ConfigError(
            f"agent.reselect_s: is {asked.reselect_s:g}, expected at most agent.identification_s, "
            f"{asked.identification_s:g}"
        )
    return pause


def _features(intervals: int, tunables: Sequence[str], *, with_held: bool) -> IdentificationFeatures | ReselectFeatures:
    features = IdentificationFeatures(intervals, len(tunables))
    return ReselectFeatures(features, tunables) if with_held else features


def _draining(scaling: TunableScaling) -> NormalisedAction:
    """Return the part of `DRAINING` that there are tunables for; the others keep the variant's own values."""
    draining = {name: value for name, value in DRAINING.items() if name in scaling.names}
    return scaling.from_values({**VARIANTS[scaling.variant].preset, **draining})
