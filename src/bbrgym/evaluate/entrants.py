# SPDX-License-Identifier: GPL-2.0-only
"""Entrants of an evaluation: a variant, and the agent that sets its tunables in a run."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from bbrgym.agents.base import Agent, Tuner
from bbrgym.agents.rollout import MakeTuner, batch_of, make_rollout, options_for
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import Coordinates
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError
from bbrgym.evaluate.records import FIXED, label_of
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import (
    REFERENCE_WORLD,
    TUNABLE_COLUMNS,
    Flags,
    Table,
    VectorWorld,
    WorldSettings,
    make_vector_world,
    registered_worlds,
)

Kind: TypeAlias = Literal["fixed", "learned", "random", "oracle", "reference"]
"""Kinds of entrants; a reference knows what no agent can, or has tried what none may."""


@dataclass(frozen=True)
class Conditions:
    """Conditions of a run.

    Attributes:
        scenario: as written or drawn; the entrant gives its learner flows the variant.
        world: name of the world.
        seed: of the run.
        how: settings of the world.
        interval_s: time between two measurements, for an entrant without a control interval.
        check: called between the parts of a long search; raises an exception to stop it. Default: never stops.
    """

    scenario: Scenario
    world: str
    seed: int
    how: WorldSettings
    interval_s: float
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, eq=False)
class Entrant(ABC):
    """A variant, and the agent that sets its tunables.

    Attributes:
        agent: name of the agent in the records.
        variant: name of the learner flows' variant.
        group: name that the training runs of one agent share; they are ranked one by one and pooled.
    """

    agent: str
    variant: str
    group: str

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
    """A run of an entrant, from its start to its end; a context manager that closes it.

    Attributes:
        tunables: names of the tunables recorded: those that change during the run or differ between an entrant's runs.
    """

    tunables: tuple[str, ...] = ()

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

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- fixed tunables -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Preset(Entrant):
    """A variant with its own values of the tunables, or with some set to others for the whole run.

    Attributes:
        tunables: values in natural units by name. The variant ignores those of tunables that it does not have, so one
            mapping serves several variants.
    """

    tunables: Mapping[str, float]

    kind = "fixed"

    def prepared(self, scenario: Scenario) -> Scenario:
        own = {name: value for name, value in self.tunables.items() if name in VARIANTS[self.variant].preset}
        return with_variant(scenario, self.variant, own)

    def start(self, conditions: Conditions) -> Run:
        return FixedRun(conditions, self.prepared(conditions.scenario))


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
            isolation=conditions.how.isolation,
            timeout_s=conditions.how.timeout_s,
            options=conditions.how.options,
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


# ---- tuners -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tuned(Entrant):
    """A variant whose tunables are set every interval.

    Attributes:
        arguments: of the tuner's environment, except its variant, scenario and world.
    """

    arguments: Mapping[str, Any]

    def options(self, **where: Any) -> Options:
        """Return the options of the tuner's environment; ``where`` gives the world, the scenario and so on."""
        return Options(**{**self.arguments, "variant": self.variant, **where})

    def prepared(self, scenario: Scenario) -> Scenario:
        prepared = with_variant(scenario, self.variant)
        batch_of(1, self.options(scenario=prepared, world=_able_world(prepared)))  # ConfigError: it cannot tune it
        return prepared

    def start(self, conditions: Conditions) -> Run:
        options = self.options(
            world=conditions.world,
            scenario=conditions.scenario,
            isolation=conditions.how.isolation,
            timeout_s=conditions.how.timeout_s,
            world_options=conditions.how.options,
            threads=1,
        )
        return TunedRun(self.agent, options, conditions.seed, self.make_tuner(conditions))

    @abstractmethod
    def make_tuner(self, conditions: Conditions) -> MakeTuner:
        """Return the function that makes the tuner of a run."""

    def identity(self) -> str:
        return repr(sorted(self.arguments.items()))


def _able_world(scenario: Scenario) -> str:
    """Return a world that has the scenario's congestion controls, the reference if it or none does."""
    controls = {flow.cc for flow in scenario.flows}
    able = [name for name, spec in registered_worlds().items() if all(map(spec.has_controller, controls))]
    return REFERENCE_WORLD if REFERENCE_WORLD in able or not able else able[0]


@dataclass(frozen=True, eq=False)
class Learned(Tuned):
    """A trained agent.

    Attributes:
        controller: the agent.
        digest: of the files that it was loaded from.
    """

    controller: Agent
    digest: str
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock, kw_only=True)

    kind: ClassVar[Kind] = "learned"

    def options(self, **where: Any) -> Options:
        return options_for(self.controller, **{**self.arguments, "variant": self.variant, **where})

    def make_tuner(self, conditions: Conditions) -> MakeTuner:  # noqa: ARG002 - the same in all conditions
        return lambda seeds: _OneAtATime(self.controller.tuner(seeds), self._one_at_a_time)

    def identity(self) -> str:
        return f"{self.digest} {super().identity()}"


class _OneAtATime:
    """A tuner that waits for those of other runs, since a policy may keep intermediate values in itself."""

    def __init__(self, tuner: Tuner, lock: threading.Lock) -> None:
        self._tuner = tuner
        self._lock = lock

    def act(self, observations: Any, begun: Flags) -> Coordinates:
        with self._lock:
            return self._tuner.act(observations, begun)


@dataclass(frozen=True, eq=False)
class Searched(Learned):
    """Fixed tunables that a search found.

    Attributes:
        setting: values by tunable.
    """

    setting: Mapping[str, float]

    kind = "fixed"


@dataclass(frozen=True, eq=False)
class Random(Tuned):
    """A variant whose tunables are drawn anew every interval, anywhere in their ranges."""

    kind = "random"

    def make_tuner(self, conditions: Conditions) -> MakeTuner:
        options = self.options(scenario=conditions.scenario, world=conditions.world)
        return lambda seeds: _RandomTuner(options, *seeds)


class _RandomTuner:
    """Draws actions from a stream of the run's seed."""

    def __init__(self, options: Options, seed: int) -> None:
        self._space = TuneBatch(1, options).action.space
        self._seed = int(np.random.SeedSequence([seed, *b"agent.random"]).generate_state(1)[0])

    def act(self, observations: Any, begun: Flags) -> Coordinates:  # noqa: ARG002 - observations do not matter
        if begun.any():
            self._space.seed(self._seed)
        return np.asarray(self._space.sample())[None]


class TunedRun(Run):
    """A run in an environment, with a tuner that acts in it."""

    def __init__(self, agent: str, options: Options, seed: int, make_tuner: MakeTuner) -> None:
        self._agent = agent
        self._run = make_rollout(options, [seed])
        self._make_tuner = make_tuner
        self.tunables = self._run.tunables
        try:
            self.restart()
        except BaseException:
            self.close()
            raise

    @property
    def worlds(self) -> VectorWorld:
        return self._run.worlds

    def restart(self) -> None:
        self._run.begin(self._make_tuner)

    def advance(self) -> None:
        try:
            self._run.advance()
        except ConfigError as error:  # of several agents, the one whose action or model does not fit
            raise ConfigError(f"agent {self._agent}: {error}") from error

    def close(self) -> None:
        self._run.close()
