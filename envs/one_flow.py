# SPDX-License-Identifier: GPL-2.0-only
"""One flow of `bbrgym/TuneMulti-v2` as an environment of Gymnasium; needs the extra `multi`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.features import Observation
from bbrgym.envs.multi import TuneMultiEnv


class OneFlowEnv(gymnasium.Env[Observation, ActType]):
    """Set the tunables of the first tuned flow; the other flows take the default action.

    Its observations, actions and rewards are those of an agent of `TuneMultiEnv`, whose arguments it takes. An episode
    is the flow's own: it is truncated when the flow stops.
    """

    metadata = {key: TuneMultiEnv.metadata[key] for key in ("render_modes", "render_fps")}  # noqa: RUF012 - as of Gymnasium

    def __init__(self, **arguments: Any) -> None:
        self._flows = TuneMultiEnv(**arguments)
        self._agent = self._flows.possible_agents[0]
        self.render_mode = self._flows.render_mode
        self.action_space = self._flows.action_space(self._agent)
        self.observation_space: Any = self._flows.observation_space(self._agent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode, when the flow starts; see `TuneMultiEnv.reset`."""
        super().reset(seed=seed)
        observations, infos = self._flows.reset(seed, options)
        while self._agent not in self._flows.agents:
            observations, *_, infos = self._flows.step(self._defaults())
        return observations[self._agent], infos[self._agent]

    def step(self, action: ActType) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Set the tunables and run for a control interval; see `TuneMultiEnv.step`."""
        observations, rewards, _, truncations, infos = self._flows.step({**self._defaults(), self._agent: action})
        agent = self._agent
        return observations[agent], rewards[agent], False, truncations[agent], infos[agent]

    def render(self) -> NDArray[np.uint8] | None:
        """Return an RGB image [720, 960, 3] of the episode so far; None without a render mode."""
        return self._flows.render()

    def close(self) -> None:
        """End the world for good."""
        self._flows.close()

    def _defaults(self) -> dict[str, ActType]:
        return dict.fromkeys(self._flows.agents, self._flows.default_action)
