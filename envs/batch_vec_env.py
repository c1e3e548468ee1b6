# SPDX-License-Identifier: GPL-2.0-only
"""What the environments for Stable-Baselines3 share: the members that they answer for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.episodes import Episodes
from bbrgym.envs.options import Draw
from bbrgym.envs.seeding import Generators
from bbrgym.scenario.files import Source
from bbrgym.scenario.model import Scenario

try:
    from stable_baselines3.common.monitor import Monitor as Monitor
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "bbrgym.envs.tune_vec_env needs Stable-Baselines3: pip install 'bbrgym[train]'", name=error.name
    ) from error

Indices: TypeAlias = int | Iterable[int] | None
Wrapper: TypeAlias = type[gymnasium.Wrapper[Any, Any, Any, Any]]


class SubEnv:
    """One environment of many: what `get_attr`, `set_attr` and `env_method` find.

    Attributes:
        action_space, observation_space, render_mode: as of `TuneEnv`.
    """

    def __init__(self, batch: Episodes, generators: Generators, index: int, render_mode: str | None) -> None:
        self._batch = batch
        self._generators = generators
        self._index = index
        self.render_mode = render_mode
        self.action_space = batch.action.space
        self.observation_space = batch.observation_space

    @property
    def unwrapped(self) -> SubEnv:
        """Itself."""
        return self

    @property
    def np_random(self) -> np.random.Generator:
        """From which a run without a seed draws one."""
        return self._generators.all()[self._index]

    @property
    def tunables(self) -> tuple[str, ...]:
        """The coordinates of an action."""
        return self._batch.scaling.names

    @property
    def default_action(self) -> ActType:
        """The variant's own setting, on a grid the nearest to it; if actions are relative, to stay."""
        return np.array(self._batch.action.default)

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


class BatchVecEnv(VecEnv):
    """A vector of environments that are stepped together, with a `SubEnv` in the place of each."""

    _members: Sequence[SubEnv]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Attributes of `SubEnv`."""
        return [getattr(self._members[index], attr_name) for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Sets attributes of `SubEnv`, or gives it new ones."""
        for index in self._get_indices(indices):
            setattr(self._members[index], attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls methods of `SubEnv`."""
        methods = self.get_attr(method_name, indices)
        return [method(*method_args, **method_kwargs) for method in methods]

    def env_is_wrapped(
        self,
        wrapper_class: Wrapper,  # noqa: ARG002 - there are none
        indices: Indices = None,
    ) -> list[bool]:
        """False: there is nothing to wrap."""
        return [False for _ in self._get_indices(indices)]
