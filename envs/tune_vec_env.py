# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v2, many environments in one step, for Stable-Baselines3; needs the extra `train`."""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray

from bbrgym.envs.batch_vec_env import BatchVecEnv
from bbrgym.envs.episodes import EpisodeSnapshot
from bbrgym.envs.features import ObsType, observation_at
from bbrgym.envs.options import Options, arguments_of
from bbrgym.envs.seeding import Generators
from bbrgym.envs.sub_env import TuneSubEnv
from bbrgym.envs.tune_batch import TuneBatch


@dataclass(frozen=True)
class VecOptions(Options):
    """Arguments of `TuneVecEnv`, beside those of all environments.

    Attributes:
        num_envs: number of environments.
        full_infos: whether the infos of every step are complete, which is slow.
    """

    num_envs: int = 1
    _: KW_ONLY
    full_infos: bool = False


class TuneVecEnv(BatchVecEnv):
    """N environments `TuneEnv`, stepped in one call, as a `VecEnv` of Stable-Baselines3.

    Results equal those of `DummyVecEnv` with N environments, bit for bit, except that only the infos of the last step
    of an episode are complete: they hold the info of `TuneEnv`, `terminal_observation` and `TimeLimit.truncated`. An
    environment whose episode has ended is reset at once.

    Arguments are those of `bbrgym.envs.options.Options` and `VecOptions`, by name.
    """

    _batch: TuneBatch

    @arguments_of(VecOptions)
    def __init__(self, options: VecOptions) -> None:
        batch, generators = TuneBatch(options.num_envs, options), Generators(options.num_envs)
        self._full_infos = options.full_infos
        envs = [TuneSubEnv(self, batch, generators, index, options) for index in range(options.num_envs)]
        super().__init__(batch, generators, envs)

    @property
    def spec(self) -> EnvSpec | None:
        """Specification of the first environment, made alone; `get_attr("spec")` has those of all."""
        return self._sub_envs[0].spec

    def save(self, index: int) -> EpisodeSnapshot:
        """Return a snapshot of an environment's episode; see `TuneEnv.save`."""
        return self._batch.save(index)

    def restore(self, index: int, snapshot: EpisodeSnapshot) -> tuple[ObsType, dict[str, Any]]:
        """Continue an environment from a snapshot of any with equal arguments; see `TuneEnv.restore`."""
        self._batch.restore(index, snapshot)
        return observation_at(self._batch.observe(), index), self._batch.info_of(index)

    def reset(self) -> ObsType:
        """Begin all episodes, with the seeds and options given to `seed` and `set_options` since the last reset."""
        observations: ObsType = self._reset_all()
        return observations

    def step_wait(self) -> tuple[ObsType, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Set the tunables, run for a control interval and reset the environments whose episode has ended."""
        batch = self._batch
        batch.simulate(self._actions)
        observations = batch.observe()
        terms = batch.reward_terms()
        rewards = batch.reward(terms).astype(np.float32)
        truncated = batch.episodes.has_ended
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": ended} for ended in truncated.tolist()]
        for index in range(self.num_envs) if self._full_infos else np.flatnonzero(truncated).tolist():
            infos[index] = batch.info_of(index, terms) | infos[index]
        if truncated.any():
            ended = np.flatnonzero(truncated).tolist()
            for index in ended:
                infos[index]["terminal_observation"] = copy.deepcopy(observation_at(observations, index))
            observations = self._reset_ended()
            for index in ended:
                self.reset_infos[index] = batch.info_of(index)
        return observations, rewards, truncated, infos
