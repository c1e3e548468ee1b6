# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v0 many times over for Stable-Baselines3; needs the extra `sb3`."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.batch_vec_env import BatchVecEnv, SubEnv
from bbrgym.envs.features import ObsType, observation_at
from bbrgym.envs.options import Options, arguments_of
from bbrgym.envs.seeding import Generators
from bbrgym.envs.tune_batch import Step, TuneBatch


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


class TuneVecEnv(BatchVecEnv):
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
        self._members = [SubEnv(self._batch, self._generators, index, options.render_mode) for index in range(num_envs)]
        self._full_infos = options.full_infos
        self._actions: ActType = np.stack([self._batch.action.default] * num_envs)
        super().__init__(num_envs, self._batch.observation_space, self._batch.action.space)

    def reset(self) -> ObsType:
        """Starts all runs, with the seeds and options given to `seed` and `set_options` since the last time."""
        every = list(range(self.num_envs))
        for index in every:
            self._batch.take_options(self._options[index], [index])
        observations = self._batch.reset(every, self._generators.draw_seeds(every, self._seeds))
        self.reset_infos = [self._batch.info_of(index) for index in every]
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: ActType) -> None:
        """Takes the actions; `step_wait` runs."""
        self._actions = actions

    def step_wait(self) -> tuple[ObsType, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
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
                last = copy.deepcopy(observation_at(observations, index))
                infos[index] = self._info(index, step) | {"terminal_observation": last}
            observations = self._batch.reset(ended, self._generators.draw_seeds(ended, [None] * len(ended)))
            for index in ended:
                self.reset_infos[index] = self._batch.info_of(index)
        return observations, step.rewards.astype(np.float32), step.truncated, infos

    def close(self) -> None:
        """Ends the worlds."""
        self._batch.close()

    def get_images(self) -> list[NDArray[np.uint8] | None]:
        """A picture of each run so far."""
        return [member.render() for member in self._members]

    def _info(self, index: int, step: Step) -> dict[str, Any]:
        return {
            **self._batch.info_of(index),
            "reward_terms": {name: float(term[index]) for name, term in step.terms.items()},
            "TimeLimit.truncated": bool(step.truncated[index]),
        }
