# SPDX-License-Identifier: GPL-2.0-only
"""Environments of a training as a VecEnv of Stable-Baselines3, in the training's process or in a Ray cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from bbrgym.envs.flow_batch import FlowOptions
from bbrgym.envs.options import Options
from bbrgym.errors import ConfigError
from bbrgym.ray_session import ray_session
from bbrgym.schema import Float, Whole
from bbrgym.targets import Target

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv


class Rollouts(Target):
    """Base of what runs the environments of a training."""

    def check(self, num_envs: int, *, is_per_flow: bool) -> None:
        """Check that it can run these environments.

        Raises:
            ConfigError: it cannot.
        """

    @abstractmethod
    def vec_env(self, options: Options, num_envs: int) -> AbstractContextManager[VecEnv]:
        """Return a context in which the environments are open.

        Args:
            options: of the environments; `FlowOptions` for a controller of each learner flow.
            num_envs: number of environments.

        Raises:
            ConfigError: an option cannot be used.
            TrainingError: the environments did not start in time.
        """


class LocalRollouts(Rollouts):
    """Runs the environments in the training's process."""

    @contextmanager
    def vec_env(self, options: Options, num_envs: int) -> Iterator[VecEnv]:
        """Return a context in which the environments are open; see `Rollouts`."""
        from bbrgym.envs.flow_vec_env import FlowVecEnv
        from bbrgym.envs.tune_vec_env import TuneVecEnv

        env: VecEnv = (
            FlowVecEnv(**vars(options), num_worlds=num_envs)
            if isinstance(options, FlowOptions)
            else TuneVecEnv(**vars(options), num_envs=num_envs)
        )
        try:
            yield env
        finally:
            env.close()


class RayRollouts(Rollouts):
    """Runs the environments in actors of a Ray cluster, with the same results to the last bit; needs the extra `ray`.

    Attributes:
        address: ``auto`` or ``HOST:PORT`` of a cluster. Default: start one on this machine.
        actors: number of actors, among which the environments are divided.
        cpus_per_actor: CPUs of an actor, and its threads.
        start_timeout_s: seconds until all actors must have started.
        timeout_s: seconds until a step of all environments must have ended.
    """

    address: str | None = None
    actors: Annotated[Whole, Field(ge=1, le=10_000)] = 2
    cpus_per_actor: Annotated[Whole, Field(ge=1, le=256)] = 1
    start_timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = 120.0
    timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = 300.0

    def check(self, num_envs: int, *, is_per_flow: bool) -> None:
        """Check that each actor gets an environment, with one controller; see `Rollouts`."""
        if is_per_flow:
            raise ConfigError(f"rollouts.name: is {self.name!r}, expected local with env=multi")
        if self.actors > num_envs:
            raise ConfigError(f"rollouts.actors: is {self.actors}, expected at most num_envs, {num_envs}")

    @contextmanager
    def vec_env(self, options: Options, num_envs: int) -> Iterator[VecEnv]:
        """Return a context in which the environments are open; see `Rollouts`."""
        from bbrgym.envs.ray_vec_env import RayVecEnv

        with ray_session(self.address, "rollouts=ray", self.actors * self.cpus_per_actor) as ray:
            env = RayVecEnv(
                ray,
                vars(options),
                num_envs=num_envs,
                actors=self.actors,
                cpus=self.cpus_per_actor,
                start_timeout_s=self.start_timeout_s,
                timeout_s=self.timeout_s,
            )
            try:
                yield env
            finally:
                env.close()
