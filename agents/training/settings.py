# SPDX-License-Identifier: GPL-2.0-only
"""What a training is asked for, checked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from importlib import resources
from typing import Annotated, Any

import numpy as np
import yaml
from pydantic import Field, ValidationError, model_validator

from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.loggers import parse_logger
from bbrgym.agents.training.registry import KINDS
from bbrgym.agents.training.vec_env import LOCAL, RaySettings, parse_rollouts
from bbrgym.envs.flow_batch import FlowOptions
from bbrgym.envs.options import Options
from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.distribution import Distribution, is_distribution, load_distribution
from bbrgym.scenario.files import load_scenario, read_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.schema import FieldProblem, Float, Model, Whole, first_problem, shown
from bbrgym.worlds import FAST_WORLD, Isolation, registered_worlds

#: Arguments of the environments by their names under `action`.
_OF_ACTION = {
    "kind": "action_kind",
    "tunables": "tunables",
    "step_size": "step_size",
    "max_change": "max_change",
    "levels": "levels",
    "flat": "flat",
}
#: Those that a training sets by itself, beside what is under `action` and `env`.
_OWN = ("world", "scenario", "variant", "reward", "isolation", "timeout_s", "render_mode", "flow_capacity", "threads")

_ENVS = {"tune": Options, "multi": FlowOptions}
"""Environments by the name in conf/env/*.yaml: with a controller for all learner flows, and with one for each."""


class WorldSettings(Model):
    """How the runs of a world happen; see :func:`bbrgym.make_world`."""

    isolation: Isolation | None = None
    timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = 60.0


class Validation(Model):
    """How agents are judged on the way.

    Attributes:
        draws: the first so many of the distribution's validation split; of a plain scenario so many runs, whose seeds
            are of that split.
        world: where.
        score_delta: weight of the RTT in the score.
    """

    draws: Annotated[Whole, Field(ge=1, le=1_000_000)] = 64
    world: str = FAST_WORLD
    score_delta: Annotated[Float, Field(ge=0, le=100)] = 0.5


class Training(Model):
    """What a training is asked for.

    Attributes:
        scenario: fields of a scenario or a distribution.
        world: where the agent trains, one name and how.
        variant: whose tunables it sets.
        env: name and arguments of the environments, but for
        action: what the agent sets, and how: `kind`, `tunables`, `step_size`, `max_change`, `levels`, `flat`.
        reward: weights by term, or a preset's name.
        agent: its name and hyperparameters.
        logger: its name and settings.
        rollouts: where the environments run, and how.
        seed: of everything that is drawn.
        total_steps: control intervals of all environments together, however many flows act in them.
        num_envs: environments side by side.
        checkpoint_steps: so many steps after one checkpoint comes the next one, at the next chance.
        log_steps: so many steps after one row of the curve comes the next one, at the next chance.
        validation: how agents are judged at each checkpoint.
        threads: in which the environments run; as many as this process has cores without.
        torch_threads: in which networks are computed. Another number may bring other weights.
    """

    scenario: dict[str, Any]
    world: Annotated[dict[str, WorldSettings], Field(min_length=1, max_length=1)]
    variant: str = "bbr-mix"
    env: dict[str, Any] = Field(default_factory=dict)
    action: dict[str, Any] = Field(default_factory=dict)
    reward: str | dict[str, Float] = "proportional"
    agent: dict[str, Any]
    logger: dict[str, Any] = Field(default_factory=lambda: {"name": "none"})
    rollouts: dict[str, Any] = Field(default_factory=lambda: {"name": "local"})
    seed: Annotated[Whole, Field(ge=0, le=2**63 - 1)] = 1
    total_steps: Annotated[Whole, Field(ge=1, le=10**12)] = 2_000_000
    num_envs: Annotated[Whole, Field(ge=1, le=65_536)] = 128
    checkpoint_steps: Annotated[Whole, Field(ge=1)] = 50_000
    log_steps: Annotated[Whole, Field(ge=1)] = 4096
    validation: Validation = Field(default_factory=Validation)
    threads: Annotated[Whole, Field(ge=1, le=256)] | None = None
    torch_threads: Annotated[Whole, Field(ge=1, le=256)] = 1

    @model_validator(mode="after")
    def _check(self) -> Training:
        for path, name in (("world", self.world_name), ("validation.world", self.validation.world)):
            if name not in registered_worlds():
                raise FieldProblem(path, f"is {shown(name)}; {nearest(name, registered_worlds())}")
        if str(self.agent.get("name")) not in KINDS:
            raise FieldProblem("agent.name", f"is {shown(self.agent.get('name'))}; allowed are {', '.join(KINDS)}")
        if self.rollouts.get("name") != LOCAL and not KINDS[self.agent_name].is_distributed:
            raise FieldProblem(
                "rollouts.name", f"is {shown(self.rollouts.get('name'))}, expected {LOCAL} with agent={self.agent_name}"
            )
        if str(self.env.get("name")) not in _ENVS:
            raise FieldProblem("env.name", f"is {shown(self.env.get('name'))}; allowed are {', '.join(_ENVS)}")
        if self.is_per_flow and not KINDS[self.agent_name].is_shared:
            able = ", ".join(name for name, kind in KINDS.items() if kind.is_shared)
            raise FieldProblem("agent.name", f"is {shown(self.agent_name)}, expected one of {able} with env=multi")
        if self.is_per_flow and self.rollouts.get("name") != LOCAL:
            raise FieldProblem(
                "rollouts.name", f"is {shown(self.rollouts.get('name'))}, expected {LOCAL} with env=multi"
            )
        for name in self.action:
            if name not in _OF_ACTION:
                raise FieldProblem(f"action.{name}", f"is no option of actions; {nearest(name, _OF_ACTION)}")
        elsewhere = (*_OWN, *_OF_ACTION.values())
        known = [field.name for field in fields(_ENVS[self.env["name"]]) if field.name not in elsewhere]
        places = {argument: f"action.{name}" for name, argument in _OF_ACTION.items()}
        for name in self.env:
            if name in places:
                raise FieldProblem(f"env.{name}", f"is called {places[name]} here")
            if name not in ("name", *known):
                raise FieldProblem(f"env.{name}", f"is no argument of the environments; {nearest(name, known)}")
        return self

    # ---- what follows from it ----------------------------------------------------------------------------------

    @property
    def world_name(self) -> str:
        """Where the agent trains."""
        return next(iter(self.world))

    @property
    def agent_name(self) -> str:
        """What is trained."""
        return str(self.agent["name"])

    @property
    def is_per_flow(self) -> bool:
        """Whether each learner flow has a controller of its own."""
        return _ENVS[self.env["name"]] is FlowOptions

    @property
    def label(self) -> str:
        """What records call the agent."""
        return f"{self.agent_name}-multi" if self.is_per_flow else self.agent_name

    @cached_property
    def source(self) -> Scenario | Distribution:
        """What is run."""
        return load_distribution(self.scenario) if is_distribution(self.scenario) else load_scenario(self.scenario)

    def env_arguments(self) -> dict[str, Any]:
        """Of the environments that the agent knows, wherever they run: by name, as `_ENVS` take them."""
        own = {name: value for name, value in self.env.items() if name != "name"}
        action = {_OF_ACTION[name]: value for name, value in self.action.items()}
        return {**own, **action, "variant": self.variant, "scenario": self.source, "reward": self.reward}

    def options(self, world: str) -> Options:
        """Of the environments in a world."""
        how = self.world.get(world, WorldSettings())
        return _ENVS[self.env["name"]](
            **{**self.env_arguments(), "world": world, "threads": self.threads, "flow_capacity": self._flow_capacity},
            isolation=how.isolation,
            timeout_s=how.timeout_s,
        )

    @property
    def _flow_capacity(self) -> int | None:
        return self.source.max_flows if isinstance(self.source, Distribution) else None

    def stream(self, name: str, number: int) -> int:
        """A seed in [0, 2^31 - 2^16), so that numbered ones follow, from a named stream of the seed."""
        entropy = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        drawn = np.random.SeedSequence([self.seed, entropy, number]).generate_state(1, np.uint64)[0]
        return int(drawn) % (2**31 - 2**16)

    def plain(self) -> dict[str, Any]:
        """As config.yaml has it: parsed again it is the same."""
        config: dict[str, Any] = self.model_dump(mode="json")
        return config

    def difference(self, other: Training) -> str | None:
        """What differs between two trainings that would bring other weights, in words."""
        one, two = (training._that_matters() for training in (self, other))
        for name in one:
            if one[name] != two[name]:
                return f"{name}: is {shown(one[name])}, was {shown(two[name])}"
        return None

    def _that_matters(self) -> dict[str, Any]:
        config = self.plain()
        config["world"] = self.world_name
        return {name: value for name, value in config.items() if name not in ("logger", "rollouts", "threads")}


def parse_training(config: Mapping[str, Any]) -> Training:
    """Checks what a training is asked for; names stand for what the package ships under them.

    Raises:
        ScenarioError, ConfigError: names the setting, its value and what is allowed.
    """
    asked = dict(config)
    asked["scenario"] = _fields_of(asked.get("scenario", "wan_mix"))
    world = asked.get("world", FAST_WORLD)
    asked["world"] = {world: {}} if isinstance(world, str) else world
    asked["agent"] = with_shipped("agent", asked.get("agent", "ppo"))
    asked["env"] = with_shipped("env", _with_name(asked.get("env", "tune"), "tune"))
    action = asked.get("action", "absolute")
    asked["action"] = shipped("action", action) if isinstance(action, str) else action
    asked["logger"] = with_shipped("logger", asked.get("logger", "none"))
    asked["rollouts"] = with_shipped("rollouts", asked.get("rollouts", LOCAL))
    try:
        training = Training.model_validate(asked)
    except ValidationError as error:
        path, problem = first_problem(error, Training)
        raise ConfigError(f"{path}: {problem}") from None
    parse_logger(training.logger)
    rollouts = parse_rollouts(training.rollouts)
    if isinstance(rollouts, RaySettings) and rollouts.actors > training.num_envs:
        raise ConfigError(f"rollouts.actors: is {rollouts.actors}, expected at most num_envs, {training.num_envs}")
    most = batch_of(1, training.options(FAST_WORLD)).max_learners  # also refuses what cannot be
    if training.is_per_flow:
        return training  # who sees one flow knows no most
    return training.model_copy(update={"env": {**training.env, "max_learners": most}})


def _with_name(asked: Any, name: str) -> Any:
    return {"name": name, **asked} if isinstance(asked, Mapping) else asked


def _fields_of(scenario: Any) -> dict[str, Any]:
    if isinstance(scenario, Scenario):
        return scenario.model_dump(mode="json", exclude_none=True)
    return dict(scenario.fields) if isinstance(scenario, Distribution) else read_scenario(scenario)


def with_shipped(group: str, asked: Any) -> Any:
    """The options of a group's entry by its name, or by a mapping with the name and what differs from them."""
    if isinstance(asked, str):
        return shipped(group, asked)
    if isinstance(asked, Mapping) and isinstance(asked.get("name"), str):
        return {**shipped(group, asked["name"]), **asked}
    return asked


def shipped(group: str, name: str) -> dict[str, Any]:
    """What ``conf/<group>/<name>.yaml`` says.

    Raises:
        ConfigError: there is no such file.
    """
    folder = resources.files("bbrgym") / "conf" / group
    names = sorted(path.name.removesuffix(".yaml") for path in folder.iterdir() if path.name.endswith(".yaml"))
    if name not in names:
        raise ConfigError(f"{group}: is {shown(name)}; {nearest(name, names)}")
    options: dict[str, Any] = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
    return options
