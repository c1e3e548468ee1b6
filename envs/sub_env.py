# SPDX-License-Identifier: GPL-2.0-only
"""Views of the single environments of a vector."""

from __future__ import annotations

import copy
import dataclasses
import weakref
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bbrgym.envs.batch import Batch
from bbrgym.envs.episode_spec import ScenarioSampler
from bbrgym.envs.episodes import RESET_FIRST, EpisodeSnapshot
from bbrgym.envs.features import ObsType
from bbrgym.envs.options import Options
from bbrgym.envs.seeding import Generators
from bbrgym.envs.tune_properties import TuneProperties
from bbrgym.scenario.files import Source, is_sequence
from bbrgym.scenario.model import Scenario


class SubEnv(TuneProperties):
    """One of many environments: the attributes and methods for `get_attr`, `set_attr`, `call` and `env_method`."""

    spec: EnvSpec | None = None  # by which Gymnasium makes it alone

    def __init__(self, batch: Batch, generators: Generators, index: int, render_mode: str | None) -> None:
        self._batch = batch
        self._generators = generators
        self._index = index
        self.render_mode = render_mode
        self.action_space = batch.action.space
        self.observation_space = batch.observation_space

    @property
    def unwrapped(self) -> SubEnv:
        """The environment itself."""
        return self

    @property
    def np_random(self) -> np.random.Generator:
        """Generator from which the seed of an episode is drawn if none is given."""
        return self._generators.all()[self._index]

    @property
    def scenario(self) -> Scenario:
        """Scenario of the current episode; can be set, to all that `TuneEnv` takes, for the next episodes."""
        if self._batch.episodes.worlds is None:
            raise ResetNeeded(RESET_FIRST)
        return self._batch.episodes.worlds.scenarios[self._index]

    @scenario.setter
    def scenario(self, scenario: Source | ScenarioSampler) -> None:
        self._batch.episodes.set_options({"scenario": scenario}, [self._index])

    def info(self) -> dict[str, Any]:
        """Return the info of `TuneEnv`, without `reward_terms`."""
        return self._batch.info_of(self._index)

    def render(self) -> NDArray[np.uint8] | None:
        """Return an RGB image [720, 960, 3] of the episode so far; None without a render mode."""
        return self._batch.episodes.render(self._index)


class TuneSubEnv(SubEnv):
    """One environment of a vector of `TuneEnv`; holds no reference that keeps the vector alive."""

    def __init__(self, vector: Any, batch: Batch, generators: Generators, index: int, options: Options) -> None:
        super().__init__(batch, generators, index, options.render_mode)
        self.spec = _spec_of(options, index)
        self._vector = weakref.proxy(vector)

    def save(self) -> EpisodeSnapshot:
        """Return a snapshot of the episode; see `TuneEnv.save`."""
        snapshot: EpisodeSnapshot = self._vector.save(self._index)
        return snapshot

    def restore(self, snapshot: EpisodeSnapshot) -> tuple[ObsType, dict[str, Any]]:
        """Continue from a snapshot of any environment with equal arguments; see `TuneEnv.restore`."""
        restored: tuple[ObsType, dict[str, Any]] = self._vector.restore(self._index, snapshot)
        return restored


def _spec_of(options: Options, index: int) -> EnvSpec:
    """Return the specification of the environment of an index, made alone."""
    given = {field.name: (getattr(options, field.name), field.default) for field in dataclasses.fields(Options)}
    kwargs = {name: value for name, (value, default) in given.items() if value != default}
    if is_sequence(scenario := options.scenario):
        kwargs["scenario"] = scenario[index]
    return dataclasses.replace(copy.deepcopy(gymnasium.spec("bbrgym/Tune-v2")), kwargs=kwargs)
