# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v0 many times over, stepped in one call."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.features import ObsType, observation_at
from bbrgym.envs.learners import Flags
from bbrgym.envs.options import Options, arguments_of
from bbrgym.envs.seeding import Generators
from bbrgym.envs.tune_batch import Step, TuneBatch
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.errors import ConfigError
from bbrgym.worlds import Table


@dataclass(frozen=True)
class VectorOptions(Options):
    """What `TuneVectorEnv` takes beside what all environments take.

    Attributes:
        num_envs: how many environments.
        autoreset_mode: what follows the end of a run, see `gymnasium.vector.AutoresetMode`: `NextStep` (the next step
            resets the environment and leaves its action aside), `SameStep` (it is reset at once; ``final_obs`` and
            ``final_info`` are the run's last ones) or `Disabled`.
    """

    num_envs: int = 1
    _: KW_ONLY
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP


class TuneVectorEnv(VectorEnv[ObsType, ActType, NDArray[Any]]):
    """N environments `TuneEnv`, stepped in one call; made by `gymnasium.make_vec("bbrgym/Tune-v0", num_envs=N)`.

    What comes back equals what N environments in `gymnasium.vector.SyncVectorEnv` give, bit for bit: observations,
    rewards, truncations, infos, and the seeds that resets draw. The worlds' engine does the stepping, in threads.

    Infos are arrays with a mask `_name` beside each. ``flow_stats`` is [N, F, fields], F the most flows of an
    environment; the rows of flows that an environment has not are NaN. Masks may be read-only and shared.

    It takes the arguments of `bbrgym.envs.options.Options` and `VectorOptions`, by name.
    """

    @arguments_of(VectorOptions)
    def __init__(self, options: VectorOptions) -> None:
        num_envs, autoreset_mode = options.num_envs, options.autoreset_mode
        modes = [mode.value for mode in AutoresetMode]
        if autoreset_mode not in modes and not isinstance(autoreset_mode, AutoresetMode):
            raise ConfigError(f"autoreset_mode: {autoreset_mode!r}, allowed are {', '.join(modes)}")
        self._mode = AutoresetMode(autoreset_mode)
        self._batch = TuneBatch(num_envs, options)
        self._generators = Generators(num_envs)
        self._everywhere = _read_only(np.ones(num_envs, np.bool_))
        self._nowhere = _read_only(np.zeros(num_envs, np.bool_))
        self._has_ended: Flags = self._nowhere  # and waits for its reset
        self.num_envs = num_envs
        self.render_mode = options.render_mode
        self.metadata = {**TuneEnv.metadata, "autoreset_mode": self._mode}
        self.single_action_space = self._batch.action.space
        self.single_observation_space = self._batch.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    # ---- Gymnasium ---------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Starts all runs, or those of ``options["reset_mask"]``.

        Args:
            seed: of the first environment, each next one's is one more; or one for each; or none.
            options: `scenario` as in `TuneEnv`, or a sequence with one for each; `reset_mask`, [N] of bool.
        """
        others = dict(options or {})
        mask = self._checked_mask(others.pop("reset_mask", self._everywhere))
        seeds = self._checked_seeds(seed)
        indices = np.flatnonzero(mask).tolist()
        self._batch.take_options(others, indices)
        observations = self._restart(indices, [seeds[index] for index in indices])
        remain = self._has_ended & ~mask
        self._has_ended = remain if remain.any() else self._nowhere
        return observations, _where(mask, self._batch.info())

    def step(self, actions: ActType) -> tuple[ObsType, Table, Flags, Flags, dict[str, Any]]:
        """Sets the tunables and runs for a control interval; see the autoreset mode for what follows a run's end."""
        ended = self._has_ended
        begin = np.flatnonzero(ended).tolist() if self._mode is AutoresetMode.NEXT_STEP else []
        step = self._batch.step(
            actions, begin, self._generators.draw_seeds(begin, [None] * len(begin)) if begin else ()
        )
        observations, infos = step.observations, dict[str, Any]()
        if self._mode is AutoresetMode.SAME_STEP and step.truncated.any():
            ended = step.truncated
            observations, infos = self._restart_at_once(step)
        infos |= _where(self._everywhere, self._batch.info(), is_blank=True)
        if not ended.all():
            is_paid = self._everywhere if ended is self._nowhere else ~ended
            is_blank = self._mode is not AutoresetMode.SAME_STEP or is_paid is self._everywhere
            infos |= _where(is_paid, {"reward_terms": step.terms}, is_blank)
        if self._mode is not AutoresetMode.SAME_STEP:
            self._has_ended = step.truncated.copy() if step.truncated.any() else self._nowhere
        return observations, step.rewards, self._nowhere.copy(), step.truncated, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """An image of each environment, as of `TuneEnv`; None without a render mode."""
        pictures = [self._batch.render(index) for index in range(self.num_envs)]
        return None if self.render_mode is None else tuple(picture for picture in pictures if picture is not None)

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002 - Gymnasium hands on what close() was given
        """Ends the worlds."""
        self._batch.close()

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override] # as SyncVectorEnv has it
        """The environments' generators, from which a reset without seed draws one."""
        return self._generators.all()

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override] # as SyncVectorEnv has it
        """What they were seeded with."""
        return self._generators.seeds()

    # ---- what it is made of ------------------------------------------------------------------------------------

    @property
    def tunables(self) -> tuple[str, ...]:
        """The coordinates of an action."""
        return self._batch.scaling.names

    @property
    def default_actions(self) -> ActType:
        """Each environment's default action, see `TuneEnv`: [N, tunables], or [N] if flat."""
        return np.stack([self._batch.action.default] * self.num_envs)

    @property
    def max_learners(self) -> int:
        """How many learner flows a run can have."""
        return self._batch.max_learners

    @property
    def flow_fields(self) -> tuple[str, ...]:
        """The columns of ``infos["flow_stats"]``; known from the first reset on."""
        return self._batch.flow_fields

    @property
    def link_fields(self) -> tuple[str, ...]:
        """The columns of ``infos["link_stats"]``; known from the first reset on."""
        return self._batch.link_fields

    # ---- details -----------------------------------------------------------------------------------------------

    def _restart(self, indices: Sequence[int], seeds: Sequence[int | None] | None = None) -> ObsType:
        return self._batch.reset(indices, self._generators.draw_seeds(indices, seeds or [None] * len(indices)))

    def _restart_at_once(self, step: Step) -> tuple[ObsType, dict[str, Any]]:
        """Resets what ended: the observations of all, and the last ones and infos of those that ended."""
        ended = np.flatnonzero(step.truncated).tolist()
        final_obs = np.full(self.num_envs, None, object)
        for index in ended:
            final_obs[index] = copy.deepcopy(observation_at(step.observations, index))
        final_info = _where(step.truncated, {**self._batch.info(), "reward_terms": dict(step.terms)})
        infos = {
            "final_obs": final_obs,
            "_final_obs": step.truncated.copy(),
            "final_info": final_info,
            "_final_info": step.truncated.copy(),
        }
        return self._restart(ended), infos

    def _checked_mask(self, mask: Any) -> Flags:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ConfigError(f"reset options: reset_mask {mask!r}, allowed is an array of {self.num_envs} bool")
        if not mask.any():
            raise ConfigError("reset options: reset_mask has no True, allowed is one at least")
        return mask

    def _checked_seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ConfigError(f"seed: {len(seed)} seeds for {self.num_envs} environments, allowed is one for each")
        return seed


def _where(mask: Flags, info: dict[str, Any], is_blank: bool | None = None) -> dict[str, Any]:
    """The infos of the environments of the mask, and 0 or None for the others; the mask beside each, as `_name`.

    Args:
        mask: [N].
        info: of all.
        is_blank: whether it is 0 or None already where the mask is False; looked up in the mask without.
    """
    if is_blank is None:
        is_blank = bool(mask.all())
    infos: dict[str, Any] = {}
    for name, values in info.items():
        if isinstance(values, dict):
            infos[name] = _where(mask, values, is_blank)
        elif is_blank:
            infos[name] = values
        else:
            infos[name] = np.zeros_like(values) if values.dtype != object else np.full_like(values, None)
            infos[name][mask] = values[mask]
        infos[f"_{name}"] = mask
    return infos


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
