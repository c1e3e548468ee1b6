# SPDX-License-Identifier: GPL-2.0-only
"""Buffers of Stable-Baselines3 for `FlowVecEnv`, which keep only the steps in which a flow ran.

A `FlowVecEnv` has a row for each tuned flow that an episode can have. The row idles before the flow starts, after it
stops, and in episodes with fewer flows; the buffers leave these steps out.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples, RolloutBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from bbrgym.envs.flow_vec_env import FlowVecEnv
from bbrgym.errors import TrainingError

_ARRAYS = ("observations", "actions", "values", "log_probs", "advantages", "returns")


class FlowRolloutBuffer(RolloutBuffer):
    """Rollout buffer of PPO.

    A flow begins with an episode start and leaves with an episode end, so no advantage passes from one to another.
    """

    def __init__(self, *arguments: Any, env: FlowVecEnv, **others: Any) -> None:
        self._env = env
        super().__init__(*arguments, **others)

    def reset(self) -> None:
        """Begin a rollout."""
        self._was_active = np.zeros((self.buffer_size, self.n_envs), np.bool_)
        super().reset()

    def add(self, *step: Any) -> None:
        """Add a step of all rows."""
        self._was_active[self.pos] = self._env.row_is_active
        super().add(*step)

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """Yield the kept steps in random order, in minibatches of nearly equal size of at most ``batch_size``.

        Raises:
            TrainingError: no flow ran in the rollout.
        """
        if not self.generator_ready:
            kept = self.swap_and_flatten(self._was_active).ravel()
            for name in _ARRAYS:
                setattr(self, name, self.swap_and_flatten(getattr(self, name))[kept])
            self.generator_ready = True
        count = len(self.values)
        if count == 0:
            raise TrainingError(f"no tuned flow ran in {self.buffer_size} steps; a larger agent.n_steps may help")
        order = np.random.permutation(count)  # noqa: NPY002 - from the stream that Stable-Baselines3 draws it from
        for indices in np.array_split(order, math.ceil(count / (batch_size or count))):
            yield self._get_samples(indices)


class FlowReplayBuffer(ReplayBuffer):
    """Replay buffer of SAC, TQC and DQN; `buffer_size` counts steps of flows in any row."""

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        env: FlowVecEnv,
        n_envs: int = 1,  # noqa: ARG002 - steps of all rows lie one after the other
        **others: Any,
    ) -> None:
        self._env = env
        super().__init__(buffer_size, observation_space, action_space, n_envs=1, **others)

    def add(
        self,
        obs: NDArray[Any],
        next_obs: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Add a step of all rows."""
        rows = np.flatnonzero(self._env.row_is_active)
        places = (self.pos + np.arange(len(rows))) % self.buffer_size
        self.observations[places, 0] = obs[rows]
        self.next_observations[places, 0] = next_obs[rows]
        self.actions[places, 0] = action.reshape(len(obs), self.action_dim)[rows]
        self.rewards[places, 0] = reward[rows]
        self.dones[places, 0] = done[rows]
        self.timeouts[places, 0] = [infos[row]["TimeLimit.truncated"] for row in rows.tolist()]
        self.full = self.full or self.pos + len(rows) >= self.buffer_size
        self.pos = (self.pos + len(rows)) % self.buffer_size

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        """Return steps drawn from all that are kept.

        Raises:
            TrainingError: no flow has run yet.
        """
        if self.size() == 0:
            raise TrainingError("no tuned flow has run yet; a larger agent.learning_starts may help")
        return super().sample(batch_size, env)
