# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v0 many times over for Stable-Baselines3; needs the extra `sb3`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bbrgym.envs.batch import Step, TuneBatch
from bbrgym.envs.control import Move
from bbrgym.envs.features import Observation
from bbrgym.envs.generators import Generators
from bbrgym.envs.options import Draw, Options, arguments_of
from bbrgym.scenario import Scenario
from bbrgym.scenario_files import Source

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "bbrgym.envs.sb3 needs Stable-Baselines3: pip install 'bbrgym[sb3]'", name=error.name
    ) from error

Indices = int | Iterable[int] | None


class TuneMember:
    """One environment of a `TuneVecEnv`: what `get_attr`, `set_attr` and `env_method` find.

    Attributes:
        action_space, observation_space, render_mode: as of `TuneEnv`.
    """

    def __init__(self, batch: TuneBatch, generators: Generators, index: int, render_mode: str | None) -> None:
        self._batch = batch
        self._generators = generators
        self._index = index
        self.render_mode = render_mode
        self.action_space = batch.control.space
        self.observation_space = batch.observation.space

    @property
    def unwrapped(self) -> TuneMember:
        """Itself."""
        return self

    @property
    def np_random(self) -> np.random.Generator:
        """From which a run without a seed draws one."""
        return self._generators.all()[self._index]

    @property
    def tunables(self) -> tuple[str, ...]:
        """The coordinates of an action."""
        return self._batch.action.names

    @property
    def default_action(self) -> Move:
        """The variant's own setting, on a grid the nearest to it; if actions are relative, to stay."""
        return np.array(self._batch.control.default)

    @property
    def max_learners(self) -> int:
        """How many learner flows a run can have."""
        return self._batch.max_learners

    @property
    def flow_fields(self) -> tuple[str, ...]:
        """The columns of ``info["flow_stats"]``; known from the first reset on."""
        return self._batch.flow_fields

    @property
    def link_fields(self) -> tuple[str, ...]:
        """The entries of ``info["link_stats"]``; known from the first reset on."""
        return self._batch.link_fields

    @property
    def scenario(self) -> Scenario:
        """What runs. Once set, to all that `TuneEnv` takes, it is what the next runs are of."""
        if self._batch.worlds is None:
            raise ResetNeeded("call reset() first: no run has begun")
        return self._batch.worlds.scenarios[self._index]

    @scenario.setter
    def scenario(self, scenario: Source | Draw) -> None:
        self._batch.take_options({"scenario": scenario}, [self._index])

    def info(self) -> dict[str, Any]:
        """What `TuneEnv` has in its info, without `reward_terms`."""
        return self._batch.info_of(self._index)

    def render(self) -> NDArray[np.uint8] | None:
        """An image of the run so far; None without a render mode."""
        return self._batch.render(self._index)


@dataclass(frozen=True)
class VecOptions(Options):
    """What `TuneVecEnv` takes beside what all environments take.

    Attributes:
        num_envs: how many environments.
        full_infos: complete infos at every step; that is slow.
    """

    num_envs: int = 1
    _: KW_ONLY
    full_infos: bool = False


class TuneVecEnv(VecEnv):
    """N environments `TuneEnv`, stepped in one call, as Stable-Baselines3's algorithms want them.

    What comes back equals what `DummyVecEnv` gives with N environments, bit for bit, except that only the infos of a
    run's last step are complete: they hold what `TuneEnv` has there, `terminal_observation` and `TimeLimit.truncated`.
    An environment whose run has ended is reset at once.

    It takes the arguments of `bbrgym.envs.options.Options` and `VecOptions`, by name.
    """

    @arguments_of(VecOptions)
    def __init__(self, options: VecOptions) -> None:
        num_envs = options.num_envs
        self._batch = TuneBatch(num_envs, options)
        self._generators = Generators(num_envs)
        self._members = [
            TuneMember(self._batch, self._generators, index, options.render_mode) for index in range(num_envs)
        ]
        self._full_infos = options.full_infos
        self._actions: Move = np.stack([self._batch.control.default] * num_envs)
        super().__init__(num_envs, self._batch.observation.space, self._batch.control.space)

    def reset(self) -> Observation:
        """Starts all runs, with the seeds and options given to `seed` and `set_options` since the last time."""
        every = list(range(self.num_envs))
        for index in every:
            self._batch.take_options(self._options[index], [index])
        observations = self._batch.reset(every, self._generators.runs(every, self._seeds))
        self.reset_infos = [self._batch.info_of(index) for index in every]
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: Move) -> None:
        """Takes the actions; `step_wait` runs."""
        self._actions = actions

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Sets the tunables, runs for a control interval and resets what has ended."""
        step = self._batch.step(self._actions)
        observations = step.observations
        infos: list[dict[str, Any]]
        if self._full_infos:
            infos = [self._info(index, step) for index in range(self.num_envs)]
        else:
            infos = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        ended = np.flatnonzero(step.truncated).tolist()
        if ended:
            for index in ended:
                infos[index] = self._info(index, step) | {"terminal_observation": observations[index].copy()}
            observations = self._batch.reset(ended, self._generators.runs(ended, [None] * len(ended)))
            for index in ended:
                self.reset_infos[index] = self._batch.info_of(index)
        return observations, step.rewards.astype(np.float32), step.truncated, infos

    def close(self) -> None:
        """Ends the worlds."""
        self._batch.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Attributes of `TuneMember`."""
        return [getattr(self._members[index], attr_name) for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Sets attributes of `TuneMember`, or gives it new ones."""
        for index in self._get_indices(indices):
            setattr(self._members[index], attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls methods of `TuneMember`."""
        methods = self.get_attr(method_name, indices)
        return [method(*method_args, **method_kwargs) for method in methods]

    def env_is_wrapped(
        self,
        wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]],  # noqa: ARG002 - there are none
        indices: Indices = None,
    ) -> list[bool]:
        """False: there is nothing to wrap."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> list[NDArray[np.uint8] | None]:
        """A picture of each run so far."""
        return [member.render() for member in self._members]

    def _info(self, index: int, step: Step) -> dict[str, Any]:
        return {
            **self._batch.info_of(index),
            "reward_terms": {name: float(term[index]) for name, term in step.terms.items()},
            "TimeLimit.truncated": bool(step.truncated[index]),
        }
