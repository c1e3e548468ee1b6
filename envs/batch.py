# SPDX-License-Identifier: GPL-2.0-only
"""Steps of N episodes, whoever acts: an action, held for some intervals, and what environments save of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.action import ActionMapping, ActType
from bbrgym.envs.critic import CriticObservation
from bbrgym.envs.episodes import Episodes, EpisodeSnapshot
from bbrgym.envs.features import Observation
from bbrgym.envs.infos import numbers_of
from bbrgym.envs.library import check_arms, load_library
from bbrgym.envs.memory import FlowMemory
from bbrgym.envs.observation import SenderObservation
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.envs.step_rewards import StepRewards
from bbrgym.worlds import Flags, VectorWorld


class Batch(ABC):
    """N episodes and those who act in them: a controller for each (`TuneBatch`), or for each tuned flow (`FlowBatch`).

    Every computation is one over all episodes, and gives each of them what it would get alone, bit for bit. Errors are
    those of `Episodes`.
    """

    observation_space: spaces.Space[Any]  # of an environment's observations, or of an agent's in it
    _normalised: NormalisedAction  # current tunables, [N, tunables], [N, L, tunables] of flows

    def __init__(self, num_envs: int, options: Options, *, is_per_flow: bool = False) -> None:
        self.num_envs = num_envs
        self._options = options
        library = None if options.library is None else load_library(options.library, options.variant)
        check_arms(options.world, options.variant, library)
        tunables = library.tunables if library is not None and options.tunables is None else options.tunables
        self.scaling = TunableScaling(options.variant, tunables)  # mapping between normalised actions and tunables
        # mapping from actions to tunables
        self.action = ActionMapping(
            self.scaling,
            options.action_kind,
            levels=options.levels,
            flat=options.flat,
            step_size=options.step_size,
            max_change=options.max_change,
            library=library,
        )
        self.episodes = Episodes(num_envs, options, self.scaling, is_per_flow=is_per_flow)
        self.max_tuned = self.episodes.max_tuned  # largest number of tuned flows in an environment
        self.rewards = StepRewards(options, self.episodes)
        # mapping from measurements to the privileged observation
        self.critic = CriticObservation(self.max_tuned, "pooled" if options.view == "pooled" else "each")
        # mapping from measurements to observations of the senders
        self.observation = SenderObservation(
            1 if is_per_flow else self.max_tuned,
            len(self.scaling.names),
            options.features,
            options.frame_stack,
            options.view,
        )
        fields, shape = VectorWorld.flow_fields, (self.max_tuned, num_envs)
        self._memory = FlowMemory(self.observation.memory_terms, fields, options.control_interval_s, shape)
        self._intervals_left = 0  # of the action that is held
        self._acts: Flags = np.zeros(num_envs, np.bool_)  # environments in which it is held

    def advance(self, mask: Flags | None) -> None:
        """Run for a control interval, see `Episodes.advance`."""
        interval_s = self.episodes.advance(mask)
        if interval_s is not None:
            self._memory.set_interval(interval_s)
            self.rewards.set_interval(interval_s)

    @abstractmethod
    def reset(self, indices: Sequence[int], seeds: Sequence[int]) -> Any:
        """Begin episodes in some environments and return the observations of all; see the derived class."""

    @abstractmethod
    def act(self, actions: ActType) -> None:
        """Set the tunables and run for the first control interval of a step; see the derived class."""

    def simulate(self, *arguments: Any) -> None:
        """Run for all control intervals of a step: `act` with these arguments, then `hold` while the action lasts."""
        self.act(*arguments)
        while self.is_holding:
            self.hold()

    @property
    def is_holding(self) -> bool:
        """Return whether the last action has control intervals left, in an environment whose episode goes on."""
        return self._intervals_left > 0 and bool((self.episodes.is_running & self._acts).any())

    def hold(self) -> None:
        """Run for another control interval of the last action, where the episode goes on."""
        mask: Flags = self.episodes.is_running & self._acts
        self.advance(mask)
        self._intervals_left -= 1
        others = np.flatnonzero(~mask)
        kept = [array[others] for array in self._arrays()] if len(others) else []
        self._measure_held()
        for array, former in zip(self._arrays(), kept, strict=False):
            array[others] = former
        self.rewards.add(mask)
        self.episodes.record(self._normalised, mask)

    def save(self, index: int) -> EpisodeSnapshot:
        """Return a snapshot of an environment's episode, for any number of `restore` calls."""
        return self.episodes.save(index, self._shaping(), self._arrays())

    def restore(self, index: int, snapshot: EpisodeSnapshot) -> None:
        """Continue an environment's episode from a snapshot of any with equal arguments, bit for bit.

        The scenario and the seed are the snapshot's, `observe` gives its observation. Pictures show the environment's
        own intervals.

        Raises:
            ConfigError: the snapshot is of other arguments, or the world cannot be restored; nothing has changed then.
            ResetNeeded, ClosedEnvironmentError: no episode has begun yet, or the environment is closed.
        """
        index = self.episodes.restore(index, snapshot, self._shaping())
        self.rewards.reserve()
        for array, saved in zip(self._arrays(), snapshot.arrays, strict=True):
            if saved.shape == array.shape[1:]:
                array[index] = saved
            else:  # smoothed rewards, of worlds with room for another number of flows
                room = min(saved.shape[-1], array.shape[-1])
                array[index] = 0.0
                array[index, ..., :room] = saved[..., :room]

    def observe_privileged(self) -> Observation:
        """Return the privileged observation of each environment, [N, numbers], the caller's own."""
        worlds, tuned = self.episodes.open_worlds(), self.episodes.tuned
        links = worlds.link_fields, worlds.link_stats
        return self.critic.view(*links, worlds.flow_fields, tuned.stats(worlds), tuned.base_rtt_ms, tuned.presence())

    def info_of(self, index: int) -> dict[str, Any]:
        """Return the privileged state of one environment, as if alone."""
        return self.as_asked(self.episodes.state_of(index))

    def as_asked(self, info: dict[str, Any], no_reward: Any = 0.0) -> dict[str, Any]:
        """Return an info with the numbers alone, if these are asked for.

        Args:
            info: of one environment or of all.
            no_reward: each of its reward terms if it has none.
        """
        if not self._options.numeric_infos:
            return info
        terms = info.get("reward_terms", dict.fromkeys(self.rewards.weights, no_reward))
        return numbers_of({**info, "reward_terms": terms})

    # ---- details -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _measure_held(self) -> None:
        """Take an interval in which the former action was held into the rewards' inputs and the observations."""

    def _begin_step(self, acts: Flags | None) -> None:
        """Begin a step of environments, [N] (None: all), whose first interval has been measured."""
        self.episodes.steps[slice(None) if acts is None else acts] += 1
        self._intervals_left = self._options.hold_intervals - 1
        if self._intervals_left:
            self._acts = np.ones(self.num_envs, np.bool_) if acts is None else acts.copy()
            self.rewards.begin_step(self._acts)

    def _forget(self, indices: Sequence[int]) -> None:
        """Forget the former episodes of environments in which another has begun."""
        self.rewards.begin(indices)
        self._memory.reset(indices)
        self._acts[indices] = False  # their last action was of an episode that is over

    def _arrays(self) -> list[NDArray[Any]]:
        """Return what an environment keeps from one interval to the next, [N, ...] each."""
        return [self.episodes.steps, *self._memory.arrays(), *self.rewards.arrays()]

    def _shaping(self) -> dict[str, Any]:
        """Return the arguments that must be equal for a snapshot to fit."""
        options = self._options
        return {
            "computation": type(self).__name__,
            "variant": self.scaling.variant,
            "tunables": self.scaling.names,
            "features": tuple(feature.name for feature in self.observation.features),
            "frame_stack": options.frame_stack,
            "view": options.view,
            "max_tuned": self.max_tuned,
            "control_interval_s": options.control_interval_s,
            "control_interval_rtts": options.control_interval_rtts,
            "hold_intervals": options.hold_intervals,
            "reward_horizon_s": options.reward_horizon_s,
            "score": options.score,
        }
