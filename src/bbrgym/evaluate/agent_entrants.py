# SPDX-License-Identifier: GPL-2.0-only
"""Entrants whose tunables an agent sets in an environment, every control interval."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from bbrgym.agents.base import Agent, Policy
from bbrgym.agents.rollout import MakePolicy, batch_of, make_rollout, options_for
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError
from bbrgym.evaluate.entrants import Conditions, Entrant, Kind, Run
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import REFERENCE_WORLD, Flags, VectorWorld, registered_worlds


@dataclass(frozen=True, eq=False)
class Tuned(Entrant):
    """A variant whose tunables are set every interval."""

    arguments: Mapping[str, Any]  # of the policy's environment, except its variant, scenario and world

    def options(self, **where: Any) -> Options:
        """Return the options of the policy's environment; ``where`` gives the world, the scenario and so on."""
        return Options(**{**self.arguments, "variant": self.variant, **where})

    def prepared(self, scenario: Scenario) -> Scenario:
        prepared = with_variant(scenario, self.variant)
        batch_of(1, self._options_in(prepared, world=_able_world(prepared)))  # ConfigError: it cannot tune it
        return prepared

    def start(self, conditions: Conditions) -> Run:
        options = self._options_in(
            conditions.scenario,
            world=conditions.world,
            isolation=conditions.world_settings.isolation,
            timeout_s=conditions.world_settings.timeout_s,
            world_options=conditions.world_settings.options,
            threads=1,
        )
        return TunedRun(self.agent, options, conditions.seed, self.policy_maker(conditions))

    def _options_in(self, scenario: Scenario, **where: Any) -> Options:
        """Return the options in a scenario; pooled observations have the same form for more flows than in training."""
        options = self.options(scenario=scenario, **where)
        tuned = sum(flow.role == "tuned" for flow in scenario.resolved().flows)
        if options.view == "pooled" and options.max_tuned is not None:
            return replace(options, max_tuned=max(options.max_tuned, tuned))
        return options

    @abstractmethod
    def policy_maker(self, conditions: Conditions) -> MakePolicy:
        """Return the function that makes the policy of a run."""

    def identity(self) -> str:
        return repr(sorted(self.arguments.items()))


def _able_world(scenario: Scenario) -> str:
    """Return a world that has the scenario's congestion controls, the reference if it or none does."""
    controls = {flow.cc for flow in scenario.flows}
    able = [name for name, spec in registered_worlds().items() if all(map(spec.has_controller, controls))]
    return REFERENCE_WORLD if REFERENCE_WORLD in able or not able else able[0]


@dataclass(frozen=True, eq=False)
class Learned(Tuned):
    """A trained agent."""

    controller: Agent
    digest: str  # of the files that it was loaded from
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock, kw_only=True)

    kind: ClassVar[Kind] = "learned"

    def options(self, **where: Any) -> Options:
        return options_for(self.controller, **{**self.arguments, "variant": self.variant, **where})

    def policy_maker(self, conditions: Conditions) -> MakePolicy:  # noqa: ARG002 - the same in all conditions
        return lambda seeds: _OneAtATime(self.controller.make_policy(seeds), self._one_at_a_time)

    def identity(self) -> str:
        return f"{self.digest} {super().identity()}"


class _OneAtATime:
    """A policy that waits for those of other runs, since a policy may keep intermediate values in itself."""

    def __init__(self, policy: Policy, lock: threading.Lock) -> None:
        self._policy = policy
        self._lock = lock

    def act(self, observations: Any, episode_starts: Flags) -> NormalisedAction:
        with self._lock:
            return self._policy.act(observations, episode_starts)


@dataclass(frozen=True, eq=False)
class Searched(Learned):
    """Fixed tunables that a search found."""

    setting: Mapping[str, float]  # values by tunable

    kind = "fixed"


@dataclass(frozen=True, eq=False)
class Random(Tuned):
    """A variant whose tunables are drawn again every interval, anywhere in their ranges."""

    kind = "random"

    def policy_maker(self, conditions: Conditions) -> MakePolicy:
        options = self.options(scenario=conditions.scenario, world=conditions.world)
        return lambda seeds: _RandomPolicy(options, *seeds)


class _RandomPolicy:
    """Draws actions from a stream of the run's seed."""

    def __init__(self, options: Options, seed: int) -> None:
        self._space = TuneBatch(1, options).action.space
        self._seed = int(np.random.SeedSequence([seed, *b"agent.random"]).generate_state(1)[0])

    def act(self, observations: Any, episode_starts: Flags) -> NormalisedAction:  # noqa: ARG002 - observations do not matter
        if episode_starts.any():
            self._space.seed(self._seed)
        return np.asarray(self._space.sample())[None]


class TunedRun(Run):
    """A run in an environment, with a policy that acts in it."""

    def __init__(self, agent: str, options: Options, seed: int, make_policy: MakePolicy) -> None:
        self._agent = agent
        self._run = make_rollout(options, [seed])
        self._make_policy = make_policy
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
        self._run.begin(self._make_policy)

    def advance(self) -> None:
        try:
            self._run.advance()
        except ConfigError as error:  # of several agents, the one whose action or model does not fit
            raise ConfigError(f"agent {self._agent}: {error}") from error

    def close(self) -> None:
        self._run.close()
