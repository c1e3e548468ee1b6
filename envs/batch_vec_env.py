# SPDX-License-Identifier: GPL-2.0-only
"""Base of the environments for Stable-Baselines3: many are stepped together, each can be asked for its attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.batch import Batch
from bbrgym.envs.seeding import Generators
from bbrgym.envs.sub_env import SubEnv
from bbrgym.envs.tune_properties import TuneProperties
from bbrgym.errors import MissingExtraError

try:
    from stable_baselines3.common.monitor import Monitor as Monitor
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise MissingExtraError("bbrgym.envs.tune_vec_env", "train", error) from error

Indices: TypeAlias = int | Iterable[int] | None
Wrapper: TypeAlias = type[gymnasium.Wrapper[Any, Any, Any, Any]]


class BatchVecEnv(TuneProperties, VecEnv):
    """Vector of environments that are stepped together; a `SubEnv` answers for each of them."""

    def __init__(self, batch: Batch, generators: Generators, sub_envs: Sequence[SubEnv]) -> None:
        self._batch = batch
        self._generators = generators
        self._sub_envs = sub_envs
        super().__init__(len(sub_envs), batch.observation_space, batch.action.space)
        self._actions: ActType = np.stack([batch.action.default] * len(sub_envs))

    def step_async(self, actions: ActType) -> None:
        """Take the actions for `step_wait`."""
        self._actions = self._batch.action.array(actions, (self.num_envs,))

    def close(self) -> None:
        """End the worlds for good."""
        self._batch.episodes.close()

    def get_images(self) -> list[NDArray[np.uint8] | None]:
        """Return an RGB image [720, 960, 3] of each episode so far."""
        return [self._batch.episodes.render(index) for index in range(self._batch.num_envs)]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of each `SubEnv`."""
        return [getattr(self._sub_envs[index], attr_name) for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of each `SubEnv`, known or new."""
        for index in self._get_indices(indices):
            setattr(self._sub_envs[index], attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each `SubEnv` and return the results."""
        methods = self.get_attr(method_name, indices)
        return [method(*method_args, **method_kwargs) for method in methods]

    def env_is_wrapped(
        self,
        wrapper_class: Wrapper,  # noqa: ARG002 - there are none
        indices: Indices = None,
    ) -> list[bool]:
        """Return False for each environment: none is wrapped."""
        return [False for _ in self._get_indices(indices)]

    # ---- for derived classes -----------------------------------------------------------------------------------

    def _reset_all(self) -> Any:
        """Begin all episodes with the seeds and options given since the last reset; return their observations."""
        every = list(range(self._batch.num_envs))
        for index in every:
            self._batch.episodes.set_options(self._options[index], [index])
        observations = self._batch.reset(every, self._generators.draw_seeds(every, self._seeds[: len(every)]))
        self.reset_infos = self.env_method("info")
        self._reset_seeds()
        self._reset_options()
        return observations

    def _reset_ended(self) -> Any:
        """Begin the next episodes where one has ended; return the observations of all."""
        ended = np.flatnonzero(self._batch.episodes.has_ended).tolist()
        return self._batch.reset(ended, self._generators.draw_seeds(ended, [None] * len(ended)))
