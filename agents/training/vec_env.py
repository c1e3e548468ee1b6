# SPDX-License-Identifier: GPL-2.0-only
"""Environments of a training as a VecEnv of Stable-Baselines3, in the training's process or in a Ray cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import Field

from bbrgym.agents.ray_session import ray_session
from bbrgym.envs.flow_batch import FlowOptions
from bbrgym.envs.options import Options
from bbrgym.errors import ConfigError, TrainingError
from bbrgym.schema import Float, Whole
from bbrgym.targets import Target

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv


Result = TypeVar("Result")


class Rollouts(Target):
    """Base of what runs a training's environments or other simulations."""

    def check(self, num_envs: int, *, is_per_flow: bool) -> None:
        """Raise ConfigError unless these environments can be run."""

    @abstractmethod
    def vec_env(self, options: Options, num_envs: int) -> AbstractContextManager[VecEnv]:
        """Return a context in which the environments are open.

        Raises:
            ConfigError: an option cannot be used.
            TrainingError: the environments did not start in time.
        """

    @abstractmethod
    def results(
        self, tasks: Sequence[Callable[[int | None], Result]], threads: int | None
    ) -> Iterator[tuple[int, Result]]:
        """Run tasks, and yield the number and the result of each finished task.

        Args:
            tasks: functions of the number of threads that each may use; they can be pickled.
            threads: of a task in this process. Default: one per core.

        Raises:
            TrainingError: a task did not end in time.
            Exception: any of a task.
        """


class LocalRollouts(Rollouts):
    """Runs the environments in the training's process."""

    @contextmanager
    def vec_env(self, options: Options, num_envs: int) -> Iterator[VecEnv]:
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

    def results(
        self, tasks: Sequence[Callable[[int | None], Result]], threads: int | None
    ) -> Iterator[tuple[int, Result]]:
        for number, task in enumerate(tasks):
            yield number, task(threads)


class RayRollouts(Rollouts):
    """Runs the environments in actors of a Ray cluster, with bit-identical results; needs the extra `ray`."""

    address: str | None = None  # ``auto`` or ``HOST:PORT`` of a cluster. Default: start one on this machine
    actors: Annotated[Whole, Field(ge=1, le=10_000)] = 2  # number of actors, among which the environments are divided
    cpus_per_actor: Annotated[Whole, Field(ge=1, le=256)] = 1  # CPUs of an actor, and its threads
    start_timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = 120.0  # seconds until all actors must have started
    # seconds until a step of all environments must have ended
    timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = 300.0

    def check(self, num_envs: int, *, is_per_flow: bool) -> None:
        """Check that each actor gets an environment, with one controller; see `Rollouts`."""
        if is_per_flow:
            raise ConfigError(f"rollouts.name: is {self.name!r}, expected local with env=multi")
        if self.actors > num_envs:
            raise ConfigError(f"rollouts.actors: is {self.actors}, expected at most num_envs, {num_envs}")

    @contextmanager
    def vec_env(self, options: Options, num_envs: int) -> Iterator[VecEnv]:
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

    def results(
        self,
        tasks: Sequence[Callable[[int | None], Result]],
        threads: int | None,  # noqa: ARG002 - a task has the threads of its CPUs
    ) -> Iterator[tuple[int, Result]]:
        if not tasks:
            return
        with ray_session(self.address, "rollouts=ray", self.actors * self.cpus_per_actor) as ray:
            run: Any = ray.remote(num_cpus=self.cpus_per_actor, max_retries=3)(_run_task)
            waiting = list(enumerate(tasks))[::-1]
            running: dict[Any, int] = {}
            try:
                while waiting or running:
                    while waiting and len(running) < self.actors:
                        number, task = waiting.pop()
                        running[run.remote(task, self.cpus_per_actor)] = number
                    done, _ = ray.wait(list(running), num_returns=1, timeout=self.timeout_s)
                    if not done:
                        raise TrainingError(
                            f"rollouts.timeout_s: no task of Ray has ended within {self.timeout_s:g} s; expected a "
                            f"cluster with {self.actors * self.cpus_per_actor} free CPUs, or a larger timeout"
                        )
                    for reference in done:
                        yield running.pop(reference), ray.get(reference)
            finally:  # a cluster of others outlives this session
                for reference in running:
                    ray.cancel(reference, force=True)


def _run_task(task: Callable[[int | None], Result], threads: int) -> Result:
    return task(threads)
