# SPDX-License-Identifier: GPL-2.0-only
"""Assembly of the agent from a training's settings and what the stages have found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from torch import Tensor

from bbrgym.agents.portfolio.identification_features import IdentificationFeatures, ReselectFeatures
from bbrgym.agents.portfolio.policy import IdentificationRoutine, PortfolioAgent, PortfolioNetwork
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.errors import ConfigError
from bbrgym.tunables import VARIANTS

DRAINING: Mapping[str, float] = {"bbr_cwnd_gain": 1.24, "use_probe_cap": 1, "use_forced_drain": 1}
"""Setting that empties its own queue, so that what stays in the queue is others', where these tunables are set."""

OFTEN_EMPTY: Mapping[str, float] = {"bbr_probe_rtt_interval_us": 2_000_000, "use_random_probe_rtt": 0}
"""What lets the queue run empty as often as the ranges allow, where these tunables are set."""


class Found(TypedDict):
    """Content of a checkpoint: what the stages have found."""

    library: Tensor  # settings, [settings, tunables]
    fixed: NotRequired[Tensor]  # best fixed setting, [tunables]. Default: the library's first
    identification: NotRequired[Tensor]  # setting during the identification, [tunables]. Default: the draining one
    selector: Mapping[str, Tensor]  # state of the selector by the features of the identification
    privileged: Mapping[str, Tensor]  # state of the selector by the true parameters
    reselect: NotRequired[Mapping[str, Tensor]]  # state of the selector that chooses again; missing without one


class Assembly:
    """The parts of an agent that a training's settings decide.

    Raises:
        ConfigError: a setting does not fit the agent.
    """

    def __init__(self, settings: TrainingSettings, identification_s: float, reselect_s: float | None = None) -> None:
        options = settings.options(settings.world_name)
        batch = batch_of(1, options)
        settings.refuse_all_but_whole_settings()
        self.scaling = batch.scaling  # of the tunables that the agent sets
        self.is_per_flow = settings.is_per_flow
        self.draining = _draining(batch.scaling)  # setting that drains, [tunables]
        # control intervals of the identification
        self.intervals = max(1, round(identification_s / options.control_interval_s))
        # those from a choice to the next one
        self.pause = self.intervals if reselect_s is None else max(1, round(reselect_s / options.control_interval_s))
        if self.pause > self.intervals:
            raise ConfigError(
                f"agent.reselect_s: is {reselect_s:g}, expected at most agent.identification_s, {identification_s:g}"
            )
        # from the observations of an identification
        self.features = IdentificationFeatures(self.intervals, len(batch.scaling.names))
        # from those of a time in which a setting was held
        self.reselect_features = ReselectFeatures(self.features, batch.scaling.names)
        self._name = settings.label

    def agent(self, found: Found) -> PortfolioAgent:
        """Return the agent with what the stages have found."""
        library = found["library"]
        networks = [self.network(self.features, library, found["selector"])]
        if "reselect" in found:
            networks.append(self.network(self.reselect_features, library, found["reselect"]))
        privileged = TreeSelector(found["privileged"])
        setting = found["identification"].numpy() if "identification" in found else self.draining
        routine = IdentificationRoutine(setting, self.intervals, self.pause)
        fixed = found["fixed"].numpy() if "fixed" in found else None
        return PortfolioAgent(self._name, networks, routine, privileged, is_per_flow=self.is_per_flow, fixed=fixed)

    def emptying(self, setting: NormalisedAction) -> NormalisedAction:
        """Return a setting that lets the queue run empty as often as it may, [tunables]."""
        often = {name: value for name, value in OFTEN_EMPTY.items() if name in self.scaling.names}
        return self.scaling.from_values({**self.scaling.to_values(setting), **often})

    def network(
        self,
        features: IdentificationFeatures | ReselectFeatures,
        library: Tensor,
        selector: Mapping[str, Tensor],
    ) -> PortfolioNetwork:
        """Return a network that chooses from a library."""
        return PortfolioNetwork(features, TreeSelector(selector), library.numpy(), self.intervals).eval()


def _draining(scaling: TunableScaling) -> NormalisedAction:
    """Return the part of `DRAINING` that there are tunables for; the others keep the variant's own values."""
    draining = {name: value for name, value in DRAINING.items() if name in scaling.names}
    return scaling.from_values({**VARIANTS[scaling.variant].preset, **draining})
