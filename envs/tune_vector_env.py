# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v2, many environments in one step, as a `VectorEnv` of Gymnasium."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.episodes import EpisodeSnapshot
from bbrgym.envs.features import ObsType, observation_at
from bbrgym.envs.options import Options, arguments_of
from bbrgym.envs.seeding import Generators
from bbrgym.envs.sub_env import TuneSubEnv
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.envs.tune_properties import TuneProperties
from bbrgym.errors import ConfigError
from bbrgym.scenario.files import is_sequence
from bbrgym.schema import plain, shown
from bbrgym.worlds import Flags, Table, check_seed


@dataclass(frozen=True)
class VectorOptions(Options):
    """Arguments of `TuneVectorEnv`, beside those of all environments.

    Attributes:
        num_envs: number of environments.
        autoreset_mode: reset after the end of an episode, see `gymnasium.vector.AutoresetMode`: `NextStep` (the next
            step resets the environment and ignores its action), `SameStep` (it is reset at once; ``final_obs`` and
            ``final_info`` are the last ones of the episode) or `Disabled`.
        max_episode_steps: number of steps after which an episode is truncated. Default: at the end of the scenario.
    """

    num_envs: int = 1
    _: KW_ONLY
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    max_episode_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        modes = [mode.value for mode in AutoresetMode]
        if self.autoreset_mode not in modes and not isinstance(self.autoreset_mode, AutoresetMode):
            raise ConfigError(f"autoreset_mode: {self.autoreset_mode!r}, allowed are {', '.join(modes)}")
        if self.max_episode_steps is not None and self.max_episode_steps < 1:
            raise ConfigError(f"max_episode_steps: {self.max_episode_steps}, allowed are whole numbers from 1, or None")


class TuneVectorEnv(TuneProperties, VectorEnv[ObsType, ActType, NDArray[Any]]):
    """N environments `TuneEnv`, stepped in one call; made by `gymnasium.make_vec("bbrgym/Tune-v2", num_envs=N)`.

    Results equal those of `gymnasium.vector.SyncVectorEnv` with N environments, bit for bit: observations, rewards,
    truncations, infos, and the seeds that resets draw. The worlds run in threads.

    Infos are arrays with a mask `_name` beside each. ``flow_stats`` is [N, F, fields], F the largest number of flows
    of an environment; the rows beyond the flows of an environment are NaN. Masks may be read-only and shared.

    Arguments are those of `bbrgym.envs.options.Options` and `VectorOptions`, by name. Errors are those of `TuneEnv`.

    One step of three of them:

        >>> import gymnasium, bbrgym
        >>> envs = gymnasium.make_vec("bbrgym/Tune-v2", num_envs=3, world="twin", scenario="steady", variant="bbq")
        >>> observations, infos = envs.reset(seed=1)
        >>> observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())
        >>> observations.shape[0], rewards.shape
        (3, (3,))
        >>> envs.close()

    Attributes:
        autoreset_mode: what follows the end of an episode.
    """

    _batch: TuneBatch

    @arguments_of(VectorOptions)
    def __init__(self, options: VectorOptions) -> None:
        num_envs = options.num_envs
        self.autoreset_mode = AutoresetMode(options.autoreset_mode)
        self._max_episode_steps = options.max_episode_steps
        self._has_numeric_infos = options.numeric_infos
        self._batch = TuneBatch(num_envs, options)
        self._generators = Generators(num_envs)
        self._sub_envs = [TuneSubEnv(self, self._batch, self._generators, index, options) for index in range(num_envs)]
        self._everywhere = _read_only(np.ones(num_envs, np.bool_))
        self._nowhere = _read_only(np.zeros(num_envs, np.bool_))
        self._needs_reset: Flags = self._nowhere
        self.num_envs = num_envs
        self.render_mode = options.render_mode
        self.metadata = {**TuneEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_action_space = self._batch.action.space
        self.single_observation_space = self._batch.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    # ---- Gymnasium ---------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Begin all episodes, or those of ``options["reset_mask"]``.

        Args:
            seed: seed of the first environment, that of each next one is one more; or a list with one for each.
                Default: drawn.
            options: `scenario` as for `TuneEnv`, or a list with one for each environment; `reset_mask`, [N] of bool.
        """
        if not isinstance(options, Mapping | None):
            raise ConfigError(f"reset options: {shown(options)}, allowed is a mapping with scenario and reset_mask")
        others = dict(options or {})
        mask = self._checked_mask(others.pop("reset_mask", self._everywhere))
        seeds = self._checked_seeds(seed)
        indices = np.flatnonzero(mask).tolist()
        self._batch.episodes.set_options(others, indices)
        observations = self._restart(indices, [seeds[index] for index in indices])
        remain = self._needs_reset & ~mask
        self._needs_reset = remain if remain.any() else self._nowhere
        return observations, _where(mask, self._info())

    def step(self, actions: ActType) -> tuple[ObsType, Table, Flags, Flags, dict[str, Any]]:
        """Set the tunables and run for a control interval; the autoreset mode says what follows an episode.

        Args:
            actions: [N, tunables], [N] if flat.
        """
        batch, episode_starts = self._batch, self._needs_reset
        begin = np.flatnonzero(episode_starts).tolist() if self.autoreset_mode is AutoresetMode.NEXT_STEP else []
        batch.simulate(actions, begin, self._generators.draw_seeds(begin, [None] * len(begin)))
        if self._max_episode_steps is not None:
            batch.episodes.end_after(self._max_episode_steps)
        observations = batch.observe()
        terms = batch.reward_terms()
        rewards = batch.reward(terms)
        truncated = batch.episodes.has_ended
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            observations, infos = self._infos_and_resets(observations, terms, truncated)
        else:
            infos = self._infos(terms, episode_starts)
            self._needs_reset = truncated.copy() if truncated.any() else self._nowhere
        return observations, rewards, self._nowhere.copy(), truncated, infos

    def save(self, index: int) -> EpisodeSnapshot:
        """Return a snapshot of an environment's episode; see `TuneEnv.save`."""
        return self._batch.save(index)

    def restore(self, index: int, snapshot: EpisodeSnapshot) -> tuple[ObsType, dict[str, Any]]:
        """Continue an environment from a snapshot of any with equal arguments; see `TuneEnv.restore`."""
        self._batch.restore(index, snapshot)
        self._needs_reset = self._needs_reset.copy()
        self._needs_reset[index] = not snapshot.is_running
        return observation_at(self._batch.observe(), index), self._batch.info_of(index)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return an attribute of each environment, a `bbrgym.envs.sub_env.TuneSubEnv`, or a method's result."""
        found = [getattr(env, name) for env in self._sub_envs]
        return tuple(one(*args, **kwargs) if callable(one) else one for one in found)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of each environment, as `call` does."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment, known or new: to one value, or to each of a list."""
        each = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ConfigError(f"{name}: {len(each)} values for {self.num_envs} environments, allowed is one for each")
        for env, value in zip(self._sub_envs, each, strict=True):
            setattr(env, name, value)

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Return an RGB image [720, 960, 3] of each episode so far; None without a render mode."""
        images = [self._batch.episodes.render(index) for index in range(self.num_envs)]
        return None if self.render_mode is None else tuple(image for image in images if image is not None)

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002 - Gymnasium passes the arguments of close()
        """End the worlds for good."""
        self._batch.episodes.close()

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override] # as of SyncVectorEnv
        """Generators of the environments, from which a reset without seed draws one."""
        return self._generators.all()

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override] # as of SyncVectorEnv
        """Seeds of the generators."""
        return self._generators.seeds()

    # ---- properties --------------------------------------------------------------------------------------------

    @property
    def default_actions(self) -> ActType:
        """Default action of each environment, see `TuneEnv`: [N, tunables], or [N] if flat."""
        return np.stack([self._batch.action.default] * self.num_envs)

    # ---- details -----------------------------------------------------------------------------------------------

    def _restart(self, indices: Sequence[int], seeds: Sequence[int | None] | None = None) -> ObsType:
        return self._batch.reset(indices, self._generators.draw_seeds(indices, seeds or [None] * len(indices)))

    def _info(self, terms: dict[str, Table] | None = None) -> dict[str, Any]:
        """Return the info of all environments, with reward terms if there are any."""
        info = self._batch.info()
        if terms is not None:
            info["reward_terms"] = dict(terms)
        return self._batch.as_asked(info, np.zeros(self.num_envs))

    def _infos(self, terms: dict[str, Table], episode_starts: Flags) -> dict[str, Any]:
        """Return the infos of a step; without reward terms where an episode began instead."""
        if self._has_numeric_infos:
            return _where(self._everywhere, self._info(terms), is_blank=True)
        infos = _where(self._everywhere, self._batch.info(), is_blank=True)
        if not episode_starts.all():
            ran = self._everywhere if episode_starts is self._nowhere else ~episode_starts
            infos |= _where(ran, {"reward_terms": terms}, is_blank=True)
        return infos

    def _infos_and_resets(
        self, observations: ObsType, terms: dict[str, Table], ended: Flags
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset the environments whose episode has ended; return the observations and infos of all."""
        infos: dict[str, Any] = {}
        if ended.any():
            indices = np.flatnonzero(ended).tolist()
            final_obs = np.full(self.num_envs, None, object)
            for index in indices:
                final_obs[index] = copy.deepcopy(observation_at(observations, index))
            infos = {
                "final_obs": final_obs,
                "_final_obs": ended.copy(),
                "final_info": _where(ended, self._info(terms)),
                "_final_info": ended.copy(),
            }
            observations = self._restart(indices)
        if self._has_numeric_infos:
            left = {name: np.where(ended, 0.0, values) for name, values in terms.items()}
            return observations, infos | _where(self._everywhere, self._info(left), is_blank=True)
        infos |= _where(self._everywhere, self._batch.info(), is_blank=True)
        if not ended.all():
            infos |= _where(~ended if ended.any() else self._everywhere, {"reward_terms": terms})
        return observations, infos

    def _checked_mask(self, mask: Any) -> Flags:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ConfigError(f"reset options: reset_mask {shown(mask)}, allowed is an array of {self.num_envs} bool")
        if not mask.any():
            raise ConfigError("reset options: reset_mask has no True, allowed is one at least")
        return mask

    def _checked_seeds(self, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
        seed = plain(seed)
        if seed is None:
            return [None] * self.num_envs
        if not is_sequence(seed):
            return [check_seed(seed) + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ConfigError(f"seed: {len(seed)} seeds for {self.num_envs} environments, allowed is one for each")
        return [None if one is None else check_seed(one) for one in seed]


def _where(mask: Flags, info: dict[str, Any], is_blank: bool | None = None) -> dict[str, Any]:
    """Return infos of the environments of a mask, 0 or None for the others, and the mask beside each as `_name`.

    Args:
        mask: [N].
        info: infos of all.
        is_blank: whether they are 0 or None already where the mask is False. Default: whether the mask is True
            everywhere.
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
