# SPDX-License-Identifier: GPL-2.0-only
"""Entrants of an evaluation: a variant, with fixed tunables or an agent that sets them (`agent_entrants`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

from bbrgym.evaluate.records import FIXED, label_of
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import PLUGIN_ALGORITHMS, PYTHON_ALGORITHM, VARIANTS
from bbrgym.worlds import TUNABLE_COLUMNS, Table, VectorWorld, WorldSettings, make_vector_world

Kind: TypeAlias = Literal["fixed", "learned", "random", "oracle", "reference"]
"""Kinds of entrants; a reference knows what no agent can, or has tried what none may."""


@dataclass(frozen=True)
class Conditions:
    """Conditions of a run."""

    scenario: Scenario  # as written or drawn; the entrant gives its tuned flows the variant
    world: str  # name of the world
    seed: int
    world_settings: WorldSettings  # settings of the world
    interval_s: float  # time between two measurements, for an entrant without a control interval
    # called between the parts of a long search; raises an exception to stop it. Default: never stops
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, eq=False)
class Entrant(ABC):
    """A variant, and the agent that sets its tunables."""

    agent: str  # name of the agent in the records
    variant: str  # name of the tuned flows' variant
    group: str  # name that the training runs of one agent share; they are ranked one by one and pooled

    kind: ClassVar[Kind]

    @property
    def label(self) -> str:
        """Name in tables and figures."""
        return label_of(self.agent, self.variant)

    def named(self, agent: str) -> Entrant:
        """Return the entrant under another name of its agent."""
        return replace(self, agent=agent)

    @abstractmethod
    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it runs with this entrant.

        Raises:
            ConfigError: the entrant cannot run it.
        """

    @abstractmethod
    def start(self, conditions: Conditions) -> Run:
        """Begin a run.

        Raises:
            WorldError: the world cannot run it.
        """

    def identity(self) -> str:
        """Return a text that differs where runs would, with the same variant, prepared scenario and conditions."""
        return ""


class Run(ABC):
    """A run of an entrant, from its start to its end."""

    tunables: tuple[str, ...] = ()  # recorded: those that change during the run or differ between an entrant's runs

    @property
    @abstractmethod
    def worlds(self) -> VectorWorld:
        """The world of the run, a vector of one: its arrays' rows at index 0."""

    @abstractmethod
    def restart(self) -> None:
        """Go back to the beginning."""

    @abstractmethod
    def advance(self) -> None:
        """Run one interval."""

    @abstractmethod
    def close(self) -> None:
        """End the simulation."""

    def current_tunables(self) -> Table:
        """Return the values of `tunables` in the last interval: [flows, tunables], NaN where a flow has none."""
        values: Table = self.worlds.tunables[0][:, [TUNABLE_COLUMNS[name] for name in self.tunables]]
        return values


@dataclass(frozen=True, eq=False)
class Preset(Entrant):
    """A variant with its own values of the tunables, or with some set to others for the whole run."""

    # values in natural units by name. The variant ignores those of tunables that it does not have, so one mapping
    # serves several variants
    tunables: Mapping[str, float]

    kind = "fixed"

    @property
    def own_tunables(self) -> dict[str, float]:
        """Those of `tunables` that the variant has."""
        return {name: value for name, value in self.tunables.items() if name in VARIANTS[self.variant].preset}

    def prepared(self, scenario: Scenario) -> Scenario:
        return with_variant(scenario, self.variant, self.own_tunables)

    def start(self, conditions: Conditions) -> Run:
        return FixedRun(conditions, self.prepared(conditions.scenario))

    def identity(self) -> str:
        variant = VARIANTS[self.variant]
        return variant.source if variant.algorithm in (*PLUGIN_ALGORITHMS, PYTHON_ALGORITHM) else ""


def preset(variant: str, tunables: Mapping[str, float] | None = None) -> Preset:
    """Return the entrant of a variant with its own values of the tunables, or with those in ``tunables``."""
    return Preset(FIXED, variant, label_of(FIXED, variant), tunables or {})


class FixedRun(Run):
    """A run with fixed tunables."""

    def __init__(self, conditions: Conditions, scenario: Scenario, tunables: tuple[str, ...] = ()) -> None:
        self.tunables = tunables
        self._interval_s = conditions.interval_s
        self._worlds = make_vector_world(
            conditions.world,
            1,
            [scenario],
            [conditions.seed],
            threads=1,
            isolation=conditions.world_settings.isolation,
            timeout_s=conditions.world_settings.timeout_s,
            options=conditions.world_settings.options,
        )

    @property
    def worlds(self) -> VectorWorld:
        return self._worlds

    def restart(self) -> None:
        self._worlds.reset(0)

    def advance(self) -> None:
        self._worlds.advance(self._interval_s)

    def close(self) -> None:
        self._worlds.close()
