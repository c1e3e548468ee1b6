# SPDX-License-Identifier: GPL-2.0-only
"""Settings of a training, validated."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.draws import DrawSettings
from bbrgym.envs.flow_batch import FlowOptions
from bbrgym.envs.library import load_library
from bbrgym.envs.options import Options
from bbrgym.errors import ConfigError, nearest
from bbrgym.loggers.logger import completed_loggers
from bbrgym.scenario.distribution import Distribution, is_distribution, load_distribution
from bbrgym.scenario.files import load_scenario, read_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.schema import Count, FieldProblem, Float, Model, Whole, plain, shown, validated
from bbrgym.targets import shipped, shipped_names, with_shipped
from bbrgym.worlds import FAST_WORLD, WorldSettings, registered_worlds, runs_at_once
from bbrgym.worlds.score import Objective, ScoreKind

#: Arguments of the environments by their names under `action`.
_OF_ACTION = {"kind": "action_kind"} | {
    name: name
    for name in ("tunables", "step_size", "max_change", "levels", "flat", "hold_intervals", "library", "arms")
}
#: Arguments of the environments that are neither under `action` nor under `env`.
_OWN = (
    *("world", "scenario", "variant", "score", "reward", "isolation", "timeout_s", "world_options"),
    *("render_mode", "numeric_infos", "flow_capacity", "threads"),
)

_ENVS = {"tune": Options, "multi": FlowOptions}
"""Options of environments by the names in conf/env: a controller for all tuned flows, or one for each."""

DEFAULT_NUM_ENVS = 128
_BY_COST = "stable_baselines3.PPO"  # after 200,000 steps as good as with all draws, in three seeds

_SEE = "help(bbrgym.envs.options.Options)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class ValidationSettings(Model):
    """Settings of the validation at each checkpoint."""

    # number of runs: the first draws of the distribution's validation split; for a plain scenario runs of it with the
    # seeds of that split
    draws: Annotated[Whole, Field(ge=1, le=1_000_000)] = 64
    world: str = FAST_WORLD  # name of the world
    score_delta: Annotated[Float, Field(ge=0, le=100)] = 0.5  # weight of the RTT in the score


class Continued(Model):
    """Training that another one continues."""

    folder: str  # its run folder
    step: Annotated[Whole, Field(ge=0)]  # its last step


class TrainingSettings(Model):
    """Settings of a training."""

    scenario: dict[str, Any]  # fields of a scenario or a distribution
    # settings of the world to train in, by its name; exactly one
    world: Annotated[dict[str, WorldSettings], Field(min_length=1, max_length=1)]
    variant: str = "bbr-mix"  # name of the variant whose tunables the agent sets
    # name and arguments of the environments, except those under `action`
    env: dict[str, Any] = Field(default_factory=dict)
    # arguments of the environments on actions: `kind`, `tunables`, `step_size`, `max_change`, `levels`, `flat`,
    # `hold_intervals`, `library`, `arms`
    action: dict[str, Any] = Field(default_factory=dict)
    # what is maximised and validated: the network's score, or the own score of the tuned flows
    score: ScoreKind = "network"
    reward: str | dict[str, Float] = "proportional"  # weights by term, or the name of a preset
    agent: dict[str, Any]  # `_target_` of the trainer, name and hyperparameters of the agent
    logger: dict[str, Any]  # `_target_`, name and settings of the logger; of several loggers these by the name of each
    rollouts: dict[str, Any]  # `_target_`, name and settings of what runs the environments
    seed: Annotated[Whole, Field(ge=0, le=2**63 - 1)] = 1  # seed of all random numbers
    # steps of all environments together, however many flows act in them; a control interval each, or as many as an
    # action is held for
    total_steps: Annotated[Whole, Field(ge=1, le=10**12)] = 2_000_000
    # number of environments side by side. Default: 128; in real time one for two cores
    num_envs: Annotated[Whole, Field(ge=1, le=65_536)] | None = None
    checkpoint_steps: Count = 50_000  # steps between two checkpoints; each comes at the first opportunity after
    log_steps: Count = 4096  # steps between two rows of the curve; each comes at the first opportunity after
    # settings of the validation at each checkpoint
    validation: ValidationSettings = Field(default_factory=ValidationSettings)
    draws: DrawSettings = Field(default_factory=DrawSettings)  # settings of the draws of the episodes
    # threads of the environments. Default: one per core of this process
    threads: Annotated[Whole, Field(ge=1, le=256)] | None = None
    # threads of the networks. Another number may lead to other weights
    torch_threads: Annotated[Whole, Field(ge=1, le=256)] = 1
    continue_from: Continued | None = None  # the finished training that this one continues. Default: none

    @model_validator(mode="after")
    def _check(self) -> TrainingSettings:
        for path, name in (("world", self.world_name), ("validation.world", self.validation.world)):
            if name not in registered_worlds():
                raise FieldProblem(path, f"is {shown(name)}; {nearest(name, registered_worlds())}")
        if registered_worlds()[self.validation.world].is_real_time:
            simulated = [name for name, spec in registered_worlds().items() if not spec.is_real_time]
            raise FieldProblem(
                "validation.world",
                f"is {shown(self.validation.world)}, which runs in real time, expected {' or '.join(simulated)}: a "
                f"validation runs all its draws at once",
            )
        if not isinstance(self.agent.get("name"), str) or not _NAME.fullmatch(self.agent["name"]):
            raise FieldProblem(
                "agent.name",
                f"is {shown(self.agent.get('name'))}, expected letters, digits, '_', '.' and '-', beginning with a "
                f"letter or digit",
            )
        if str(self.env.get("name")) not in _ENVS:
            raise FieldProblem("env.name", f"is {shown(self.env.get('name'))}; allowed are {', '.join(_ENVS)}")
        for name in self.action:
            if name not in _OF_ACTION:
                raise FieldProblem(f"action.{name}", f"is not an option of actions; {nearest(name, _OF_ACTION)}")
        elsewhere = (*_OWN, *_OF_ACTION.values())
        known = [field.name for field in fields(_ENVS[self.env["name"]]) if field.name not in elsewhere]
        places = {argument: f"action.{name}" for name, argument in _OF_ACTION.items()}
        for name in self.env:
            if name in places:
                raise FieldProblem(f"env.{name}", f"is called {places[name]} here")
            if name not in ("name", *known):
                raise FieldProblem(
                    f"env.{name}", f"is not an argument of the environments; {nearest(name, known, _SEE)}"
                )
        if self.draws.by_cost and not is_distribution(self.scenario):
            raise FieldProblem("draws.by_cost", "is True, expected false: one scenario is not drawn")
        return self

    # ---- derived values ----------------------------------------------------------------------------------------

    @property
    def world_name(self) -> str:
        """Return the name of the world to train in."""
        return next(iter(self.world))

    @property
    def envs_side_by_side(self) -> int:
        """Return the number of environments, `num_envs` or its default."""
        if self.num_envs is not None:
            return self.num_envs
        return runs_at_once(self.world) if self._is_real_time else DEFAULT_NUM_ENVS

    @property
    def _is_real_time(self) -> bool:
        return registered_worlds()[self.world_name].is_real_time

    @property
    def agent_name(self) -> str:
        """Return the name of the agent."""
        return str(self.agent["name"])

    @property
    def is_per_flow(self) -> bool:
        """Return whether each tuned flow has a controller of its own."""
        return _ENVS[self.env["name"]] is FlowOptions

    @property
    def label(self) -> str:
        """Return the agent's name in records."""
        return f"{self.agent_name}-multi" if self.is_per_flow else self.agent_name

    @cached_property
    def source(self) -> Scenario | Distribution:
        """Return the scenario or distribution to train on."""
        return load_distribution(self.scenario) if is_distribution(self.scenario) else load_scenario(self.scenario)

    @property
    def objective(self) -> Objective:
        """Return the score of a run, which validations and searches take."""
        return Objective(self.validation.score_delta, self.score)

    def env_arguments(self) -> dict[str, Any]:
        """Return the arguments of the agent's environments in any world, by the names of their options."""
        own = {name: value for name, value in self.env.items() if name != "name"}
        action = {_OF_ACTION[name]: value for name, value in self.action.items()}
        rewarded = {"score": self.score, "reward": self.reward}
        return {**own, **action, **rewarded, "variant": self.variant, "scenario": self.source}

    def options(self, world: str) -> Options:
        """Return the options of the agent's environments in a world.

        Raises:
            ConfigError: an option cannot be used.
        """
        world_settings = self.world.get(world, WorldSettings())
        return _ENVS[self.env["name"]](
            **{**self.env_arguments(), "world": world, "threads": self.threads, "flow_capacity": self._flow_capacity},
            isolation=world_settings.isolation,
            timeout_s=world_settings.timeout_s,
            world_options=world_settings.options,
        )

    def validation_options(self) -> Options:
        """Return the options of the agent's environments in the world of the validation."""
        return replace(self.options(self.validation.world), critic=False)

    def check_rollout_fits(self, n_steps: int) -> None:
        """Raise ConfigError unless the steps suffice for one rollout of `n_steps` in each environment."""
        least = n_steps * self.envs_side_by_side
        if self.total_steps < least:
            raise ConfigError(
                f"total_steps: is {self.total_steps}, expected at least {least}: one rollout takes agent.n_steps = "
                f"{n_steps} steps in each of num_envs = {self.envs_side_by_side} environments"
            )

    def check_cores(self) -> None:
        """Raise ConfigError unless environments in real time have two cores each, and a thread."""
        if not self._is_real_time:
            return
        most = min(runs_at_once(self.world), self.threads or self.envs_side_by_side)
        if self.envs_side_by_side > most:
            raise ConfigError(
                f"num_envs: is {self.envs_side_by_side}, expected at most {most} with world={self.world_name}: each "
                f"runs in real time, and takes two cores and a thread"
            )

    def check_whole_settings(self) -> None:
        """Raise ConfigError unless an action sets all tunables at once, as agents that choose settings need."""
        options = self.options(self.world_name)
        is_free = options.levels is None and options.max_change is None and options.hold_intervals == 1
        if options.action_kind != "absolute" or not is_free:
            raise ConfigError(
                f"action: is {self.action}, expected absolute ones without levels, max_change and hold_intervals "
                f"with agent={self.agent_name}: it sets whole settings at once"
            )

    @property
    def _flow_capacity(self) -> int | None:
        return self.source.max_flows if isinstance(self.source, Distribution) else None

    def stream(self, name: str, number: int) -> int:
        """Return the seed of a numbered stream of random numbers, in [0, 2^31 - 2^16), so that num_envs more follow."""
        entropy = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        drawn = np.random.SeedSequence([self.seed, entropy, number]).generate_state(1, np.uint64)[0]
        return int(drawn) % (2**31 - 2**16)

    def segment_stream(self, name: str, segment: int) -> int:
        """Return the seed of a segment's stream; those of a continued training are not drawn again."""
        return self.stream(name if self.continue_from is None else f"{name} after {self.continue_from.step}", segment)

    def plain(self) -> dict[str, Any]:
        """Return the settings in the form of config.yaml, from which `parse_training` gives the same settings."""
        config: dict[str, Any] = self.model_dump(mode="json")
        return config

    def difference(self, other: TrainingSettings) -> str | None:
        """Describe the first setting that differs from another training's and influences the weights, if any."""
        one, two = (settings._that_matter() for settings in (self, other))
        for name in one:
            if one[name] != two[name]:
                return f"{name}: is {shown(one[name])}, was {shown(two[name])}"
        return None

    def _that_matter(self) -> dict[str, Any]:
        config = self.plain()
        config["world"] = self.world_name
        return {name: value for name, value in config.items() if name not in ("logger", "rollouts", "threads")}


def parse_training(config: Mapping[str, Any]) -> TrainingSettings:
    """Validate the settings of a training; names stand for the files in conf/ of these names.

    Neither the trainer nor the logger nor the rollouts are imported: see `bbrgym.agents.training.trainer`.

    Raises:
        ScenarioError, ConfigError: a setting has a value that is not allowed; the error names all three.
    """
    asked = dict(plain(config))
    asked["scenario"] = _fields_of(asked.get("scenario", "wan_mix"))
    world = asked.get("world", FAST_WORLD)
    asked["world"] = {world: {}} if isinstance(world, str) else world
    asked["agent"] = with_shipped("agent", asked.get("agent", "ppo"))
    asked["env"] = _with_observation(
        with_shipped("env", _with_name(asked.get("env", "tune"), "tune")), asked.pop("observation", "instant")
    )
    action = asked.get("action", "absolute")
    asked["action"] = _with_library(shipped("action", action) if isinstance(action, str) else action)
    asked["logger"] = completed_loggers(asked.get("logger", "none"))
    asked["rollouts"] = with_shipped("rollouts", asked.get("rollouts", "local"))
    settings = validated(TrainingSettings, asked)
    batch_of(1, settings.options(settings.validation.world))  # refuses options that cannot be used there
    batch = batch_of(1, settings.options(settings.world_name))
    features = [feature.name for feature in batch.observation.features]  # a list's name may mean others one day
    # The agent of one flow works with any number of them.
    tuned = {} if settings.is_per_flow else {"max_tuned": batch.max_tuned}
    env = {**settings.env, "features": features, **tuned}
    chosen: dict[str, Any] = {"env": env, "num_envs": settings.envs_side_by_side}
    if (
        settings.draws.by_cost is None
        and settings.agent.get("_target_") == _BY_COST
        and is_distribution(settings.source)
    ):
        chosen["draws"] = DrawSettings(by_cost=True)
    return settings.model_copy(update=chosen)


def _with_name(asked: Any, name: str) -> Any:
    return {"name": name, **asked} if isinstance(asked, Mapping) else asked


def _with_library(asked: Any) -> Any:
    """Return options with the contents of a library in place of the file's name."""
    library = asked.get("library") if isinstance(asked, Mapping) else None
    return asked if library is None else {**asked, "library": load_library(library).plain()}


def _with_observation(env: Any, observation: Any) -> Any:
    """Return the environment's arguments, completed by those of a file in conf/observation."""
    given = shipped("observation", observation) if isinstance(observation, str) else observation
    if not isinstance(given, Mapping):
        raise ConfigError(f"observation: is {shown(given)}, expected {' or '.join(shipped_names('observation'))}")
    if not isinstance(env, Mapping):
        return env
    return {**given, **env}


def _fields_of(scenario: Any) -> dict[str, Any]:
    if isinstance(scenario, Scenario):
        return scenario.model_dump(mode="json", exclude_none=True)
    return dict(scenario.fields) if isinstance(scenario, Distribution) else read_scenario(scenario)
