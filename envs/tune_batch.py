# SPDX-License-Identifier: GPL-2.0-only
"""N episodes with one controller each: the computation of `TuneEnv` (N = 1), `TuneVectorEnv` and `TuneVecEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.batch import Batch
from bbrgym.envs.features import Observation, ObsType
from bbrgym.envs.observation import FrameStack
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.worlds import Flags, Table


class TuneBatch(Batch):
    """N episodes, each with a controller that sets the tunables of all its tuned flows.

    A step is `simulate` (or `act`, and `hold` while it `is_holding`), then in any order `observe`, `reward_terms` and
    `info`.
    """

    def __init__(self, num_envs: int, options: Options) -> None:
        super().__init__(num_envs, options)
        tunables = len(self.scaling.names)
        self.observation_space = (
            spaces.Dict(actor=self.observation.space, critic=self.critic.space)
            if options.critic
            else self.observation.space
        )
        self._frames = FrameStack(num_envs, self.observation)
        self._normalised = np.zeros((num_envs, tunables), np.float32)
        self._values = np.zeros((num_envs, tunables))
        self._episode_starts: Flags | None = None  # in the last step, instead of running

    def reset(self, indices: Sequence[int], seeds: Sequence[int]) -> ObsType:
        """Begin episodes in some environments and return the observations of all."""
        self._begin(indices, seeds)
        stats = self.episodes.tuned.stats(self.episodes.open_worlds(), indices)
        self._frames.begin(indices, self._view(stats, indices))
        return self.observe()

    def act(self, actions: ActType, begin: Sequence[int] = (), seeds: Sequence[int] = ()) -> None:
        """Set the tunables and run for the first control interval of a step; or begin an episode.

        Args:
            actions: [N, tunables]; [N] if flat.
            begin: environments that begin an episode instead; their actions are ignored.
            seeds: seeds of these episodes.
        """
        actions, episodes = self.action.array(actions, (self.num_envs,)), self.episodes
        runs = self._all_but(begin)
        episodes.check_running(runs)
        former = self._normalised
        if len(begin) < self.num_envs:
            if len(begin):
                actions = actions.copy()
                actions[begin] = self.action.default
            self._values, self._normalised = self.action.apply(actions, self._normalised)
            episodes.tuned.set_all(episodes.open_worlds(), self._values)
            self.advance(runs)
        if len(begin):
            self._begin(begin, seeds)
        self._measure(np.abs(self._normalised - former), begin)
        self._episode_starts = None if runs is None else ~runs
        self._begin_step(runs)
        episodes.record(self._normalised, runs)

    def observe(self) -> ObsType:
        """Return the observations, [N, numbers], or those of the actor and the critic; the caller's own."""
        actor = self._frames.observations()
        return {"actor": actor, "critic": self.observe_privileged()} if self._options.critic else actor

    def reward_terms(self) -> dict[str, Table]:
        """Return the reward terms of the last step by name, [N] each; 0 where an episode began instead."""
        terms = self.rewards.terms()
        if self._episode_starts is not None:
            for values in terms.values():
                np.copyto(values, 0.0, where=self._episode_starts)
        return terms

    def reward(self, terms: dict[str, Table]) -> Table:
        """Return the weighted sum of reward terms, [N]."""
        return self.rewards.total(terms)

    def info(self) -> dict[str, Any]:
        """Return the privileged state of all environments, in arrays that are the caller's own; see `TuneEnv`."""
        tunables = np.ascontiguousarray(self._values.T)
        return {**self.episodes.info(), "tunables": dict(zip(self.scaling.names, tunables, strict=True))}

    def info_of(self, index: int, terms: dict[str, Table] | None = None) -> dict[str, Any]:
        """Return the privileged state of one environment, as it would be without the others."""
        tunables = dict(zip(self.scaling.names, self._values[index].tolist(), strict=True))
        info = {**self.episodes.state_of(index), "tunables": tunables}
        if terms is not None:
            info["reward_terms"] = {name: float(terms[name][index]) for name in terms}
        return self.as_asked(info)

    # ---- details -----------------------------------------------------------------------------------------------

    def _all_but(self, begin: Sequence[int]) -> Flags | None:
        """Return the other environments, [N]; None for all."""
        if not len(begin):
            return None
        mask: Flags = np.ones(self.num_envs, np.bool_)
        mask[begin] = False
        return mask

    def _measure_held(self) -> None:
        self._measure(np.zeros_like(self._normalised))

    def _measure(self, change: NormalisedAction, starting: Sequence[int] = ()) -> None:
        """Take the last interval into the rewards' inputs and the observations.

        Args:
            change: distance that each normalised tunable has moved, [N, tunables].
            starting: environments whose episode starts.
        """
        stats = self.episodes.tuned.stats(self.episodes.open_worlds())
        self.rewards.measure(stats, change, starting)
        self._memory.add(stats, starting)
        view = self._view(stats)
        self._frames.add(view)
        if len(starting):
            self._frames.begin(starting, view[starting])

    def _view(self, stats: Table, indices: Sequence[int] | None = None) -> Observation:
        """Return one interval's numbers of some environments, [environments, width].

        Args:
            stats: measurements of their tuned flows, [fields, L * environments].
            indices: these environments. Default: all.
        """
        normalised = self._normalised if indices is None else self._normalised[indices]
        flows, is_present = self._memory.extend(stats, indices), self.episodes.tuned.presence(indices)
        return self.observation.view(self._memory.fields, flows, normalised, is_present)

    def _begin(self, indices: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin episodes with these seeds in some environments."""
        for index, (values, normalised) in zip(indices, self.episodes.begin(indices, seeds), strict=True):
            self._values[index], self._normalised[index] = values[0], normalised[0]
        self._forget(indices)

    def _arrays(self) -> list[NDArray[Any]]:
        return [*super()._arrays(), self._frames.array(), self._normalised, self._values]
