# SPDX-License-Identifier: GPL-2.0-only
"""N environments in arrays: what `TuneEnv` (N = 1), `TuneVectorEnv` and the one for Stable-Baselines3 share.

Every computation is one over all N, and gives each environment what it would get alone, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from bbrgym.envs.action import ActType
from bbrgym.envs.episodes import Episodes
from bbrgym.envs.features import Observation, ObsType
from bbrgym.envs.learners import EpisodeSpec, Flags
from bbrgym.envs.observation import SenderObservation, Stack
from bbrgym.envs.options import Options
from bbrgym.envs.reward import Reward
from bbrgym.envs.scaling import Coordinates
from bbrgym.worlds import Table


@dataclass(frozen=True)
class Step:
    """What a step gave, of each environment.

    Attributes:
        observations: [N, numbers], or those of the actor and the critic.
        rewards: [N], 0 for those that did not run.
        truncated: [N], whether a run ended with this step.
        terms: of the rewards by name, [N] each.
    """

    observations: ObsType
    rewards: Table
    truncated: Flags
    terms: dict[str, Table]


class TuneBatch(Episodes):
    """N environments with one controller each.

    Args:
        num_envs: N.
        options: of all of them.

    Attributes:
        Those of `Episodes`.
    """

    def __init__(self, num_envs: int, options: Options) -> None:
        super().__init__(num_envs, options)
        tunables = len(self.scaling.names)
        self._reward = Reward(options.reward)
        self.observation = SenderObservation(self.max_learners, tunables, options.features, options.stack, options.view)
        self.observation_space = (
            spaces.Dict(actor=self.observation.space, critic=self.critic.space)
            if options.critic
            else self.observation.space
        )
        self._stack = Stack(num_envs, self.observation)
        self._settings = np.zeros((num_envs, tunables), np.float32)
        self._values = np.zeros((num_envs, tunables))

    def reset(self, indices: Sequence[int], seeds: Sequence[int]) -> ObsType:
        """Begins runs with these seeds; the observations of all environments."""
        self._begin(indices, seeds)
        learners = self._slots.stats(self._worlds(), indices)
        self._stack.begin(indices, self._view(learners, self._settings[indices], self._slots.there(indices)))
        return self._seen()

    def step(self, actions: ActType, begin: Sequence[int] = (), seeds: Sequence[int] = ()) -> Step:
        """Sets the tunables and runs for a control interval; or begins a run.

        Args:
            actions: [N, tunables]; [N] if flat.
            begin: environments that begin a run instead; their actions are left aside, their rewards and terms are 0.
            seeds: of these runs.
        """
        mask = None
        if len(begin):
            mask = np.ones(self._n, np.bool_)
            mask[begin] = False
        worlds = self._worlds_that_run(mask)
        if np.shape(actions) != (self._n, *np.shape(self.action.default)):
            raise self.action.refusal(actions)
        previous = self._settings
        if len(begin) < self._n:
            self._act(actions if mask is None else self._left_aside(actions, begin), mask)
        if len(begin):
            self._begin(begin, seeds)
        truncated = self._take_ends()
        learners = self._slots.stats(worlds)
        terms = self._reward.terms(self._interval(learners, np.abs(self._settings - previous), begin))
        rewards = self._reward.total(terms)
        if mask is not None:
            has_begun = ~mask
            for numbers in (rewards, *terms.values()):
                np.copyto(numbers, 0.0, where=has_begun)
        if self._options.render_mode is not None:
            self._remember(mask)
        view = self._view(learners, self._settings, self._slots.there())
        self._stack.add(view)
        if len(begin):
            self._stack.begin(begin, view[begin])
        return Step(self._seen(), rewards, truncated, terms)

    def info(self) -> dict[str, Any]:
        """What an onlooker knows of each environment, in arrays of the caller's own; see `TuneEnv`."""
        tunables = np.ascontiguousarray(self._values.T)
        return {**super().info(), "tunables": dict(zip(self.scaling.names, tunables, strict=True))}

    def info_of(self, index: int) -> dict[str, Any]:
        """The same of one environment, as it would give it alone."""
        tunables = dict(zip(self.scaling.names, self._values[index].tolist(), strict=True))
        return {**super().info_of(index), "tunables": tunables}

    # ---- details -----------------------------------------------------------------------------------------------

    def _left_aside(self, actions: ActType, begin: Sequence[int]) -> ActType:
        """The actions with harmless ones in place of those that do not count."""
        counting = np.array(actions)
        counting[begin] = self.action.default
        return counting

    def _act(self, actions: ActType, mask: Flags | None) -> None:
        """Sets the tunables and runs."""
        self._values, self._settings = self.action.apply(actions, self._settings)
        self._slots.write(self._worlds(), self._values)
        self._advance(mask)

    def _take_course(self, index: int, course: EpisodeSpec) -> tuple[Table, Coordinates]:
        values, actions = super()._take_course(index, course)
        self._values[index], self._settings[index] = values[0], actions[0]
        return values, actions

    def _coordinates(self, index: int) -> dict[str, float]:
        return dict(zip(self.scaling.names, self._settings[index].tolist(), strict=True))

    def _seen(self) -> ObsType:
        """The observations of all environments, the caller's own."""
        actor = self._stack.observations()
        return {"actor": actor, "critic": self.seen_by_critic()} if self._options.critic else actor

    def _view(self, learners: Table, settings: Coordinates, is_there: Flags | None) -> Observation:
        return self.observation.view(self._worlds().flow_fields, learners, settings, is_there)
