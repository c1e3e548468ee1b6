# SPDX-License-Identifier: GPL-2.0-only
"""Where the environments of a training run: in its own process, or in actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError

from bbrgym.errors import ConfigError, nearest
from bbrgym.ray_session import ray_session
from bbrgym.schema import Float, Model, Whole, first_problem, shown

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

    from bbrgym.agents.training.settings import Training

LOCAL = "local"


class LocalSettings(Model):
    """Nothing can be set."""

    name: Literal["local"] = "local"


class RaySettings(Model):
    """What can be set.

    Attributes:
        name: of the kind.
        address: of a cluster; without, one of this machine.
        actors: among which the environments are divided.
        cpus_per_actor: of each, and its threads.
        start_timeout_s: for all actors to be there.
        timeout_s: for a step of all environments.
    """

    name: Literal["ray"] = "ray"
    address: str | None = None
    actors: Annotated[Whole, Field(ge=1, le=10_000)] = 2
    cpus_per_actor: Annotated[Whole, Field(ge=1, le=256)] = 1
    start_timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = 120.0
    timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = 300.0


_KINDS: Mapping[str, type[LocalSettings | RaySettings]] = {"local": LocalSettings, "ray": RaySettings}


def parse_rollouts(asked: Mapping[str, Any]) -> LocalSettings | RaySettings:
    """Checks what is asked for.

    Raises:
        ConfigError: there is no such kind, or a setting of it cannot be.
    """
    name = str(asked.get("name"))
    if name not in _KINDS:
        raise ConfigError(f"rollouts.name: is {shown(name)}; {nearest(name, _KINDS)}")
    try:
        return _KINDS[name].model_validate(dict(asked))
    except ValidationError as error:
        path, problem = first_problem(error, _KINDS[name])
        raise ConfigError(f"rollouts.{path}: {problem}") from None


@contextmanager
def rollout_envs(settings: Training) -> Iterator[VecEnv]:
    """The environments of a training; they are closed at the end, whatever happens.

    Raises:
        ConfigError: they cannot be made.
        TrainingError: actors did not come in time.
    """
    from bbrgym.envs.flow_vec_env import FlowVecEnv
    from bbrgym.envs.tune_vec_env import TuneVecEnv

    how = parse_rollouts(settings.rollouts)
    arguments = vars(settings.options(settings.world_name))
    if isinstance(how, LocalSettings):
        env: VecEnv = (
            FlowVecEnv(**arguments, num_worlds=settings.num_envs)
            if settings.is_per_flow
            else TuneVecEnv(**arguments, num_envs=settings.num_envs)
        )
        try:
            yield env
        finally:
            env.close()
        return
    from bbrgym.envs.ray_vec_env import RayVecEnv

    with ray_session(how.address, "rollouts=ray", how.actors * how.cpus_per_actor) as ray:
        env = RayVecEnv(
            ray,
            arguments,
            num_envs=settings.num_envs,
            actors=how.actors,
            cpus=how.cpus_per_actor,
            start_timeout_s=how.start_timeout_s,
            timeout_s=how.timeout_s,
        )
        try:
            yield env
        finally:
            env.close()
