# SPDX-License-Identifier: GPL-2.0-only
"""Training of a model of Stable-Baselines3 in segments: see `bbrgym.agents.training.loop`."""

from __future__ import annotations

import io
import json
import math
import numbers
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv

from bbrgym.agents.base import Agent
from bbrgym.agents.training.about import KEY
from bbrgym.agents.training.checkpoints import finite_or_refuse, save_state
from bbrgym.agents.training.folder import MODEL
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.envs.flow_vec_env import FlowVecEnv
from bbrgym.runs.checksum import add_checksum

_MAY_BE_NAN = ("train/explained_variance",)  # where all returns are equal


class SegmentCallback(BaseCallback):
    """Begins the segments of a training, writes checkpoints, records measurements and stops at NaN.

    Attributes:
        rows: rows of an environment; the algorithm counts a step of each.
    """

    def __init__(
        self,
        run: TrainingRun,
        model: BaseAlgorithm,
        env: VecEnv,
        about: Mapping[str, Any],
        make_agent: Callable[[], Agent],
    ) -> None:
        super().__init__()
        self.model = model
        self.rows = env.num_envs // run.settings.envs_side_by_side
        self._run = run
        self._env = env
        self._about = about
        self._make_agent = make_agent

    @property
    def step(self) -> int:
        """Return the steps that all environments together have taken."""
        return self.model.num_timesteps // self.rows

    def _on_rollout_start(self) -> None:
        step = self.step
        self._run.check_finite(step, self._measured())
        if self._run.segment_is_over(step):
            self._checkpoint()
            _restart(self.model, self._env, self._run, step)
        elif self._run.row_is_due(step):
            self._record()

    def _on_step(self) -> bool:
        now = self.locals
        rewards, ended = now["rewards"], now["dones"]
        if isinstance(self._env, FlowVecEnv):
            rewards, ended = rewards[self._env.row_is_active], ended & self._env.row_is_active
        self._run.stepped(self.step, now["new_obs"], rewards, ended)
        return True

    def end(self) -> None:
        """Write the last checkpoint."""
        self._run.check_finite(self.step, self._measured())
        self._checkpoint()

    def _checkpoint(self) -> None:
        finite_or_refuse(self.model.policy, self._run, self.step)
        self._record()

        def save(name: str, about: Mapping[str, Any]) -> None:
            state = {"policy": self.model.policy.state_dict()} if name == "best" else _state(self.model)
            save_state(self._run.folder, name, about, state)
            if name == "best":
                model = zipped(self.model, self._about)
                self._run.folder.write_file(MODEL, lambda partial: partial.write_bytes(model))

        self._run.checkpoint(self.step, self._make_agent(), save)

    def _record(self) -> None:
        """Record what the algorithm has measured since the last record."""
        self._run.record(self.step, self._measured())
        for measured in (self.logger.name_to_value, self.logger.name_to_count, self.logger.name_to_excluded):
            measured.clear()

    def _measured(self) -> dict[str, float]:
        values: Mapping[str, Any] = self.logger.name_to_value
        measured = {name: float(value) for name, value in values.items() if isinstance(value, numbers.Real)}
        return {name: value for name, value in measured.items() if math.isfinite(value) or not _may_be_nan(name)}


def _may_be_nan(name: str) -> bool:
    """Return whether a measurement is NaN in a training that is well; one of a caller's callback may be anything."""
    return name in _MAY_BE_NAN or not name.startswith(("train/", "rollout/"))


def _restart(model: BaseAlgorithm, env: VecEnv, run: TrainingRun, step: int) -> None:
    """Begin a segment: seed all random numbers and reset all environments."""
    options, seeds = run.reset_options(), run.next_segment(step)
    set_random_seed(seeds.torch)
    model.action_space.seed(seeds.torch)
    env.seed(seeds.envs)
    env.set_options(options)
    model._last_obs = env.reset()  # type: ignore[assignment]
    model._last_episode_starts = np.ones(env.num_envs, np.bool_)  # a recurrent policy forgets at these
    if model.use_sde:
        cast(Any, model.policy).reset_noise(env.num_envs)


# ---- the state of a model -----------------------------------------------------------------------------

# The next segment depends on these, beside networks and optimisers.
_COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "exploration_rate", "_current_progress_remaining")
_OF_TRAINING = ("_last_obs", "_last_original_obs", "_last_episode_starts", "_last_lstm_states", "ep_info_buffer")
_OF_FLOWS = ("rollout_buffer_class", "rollout_buffer_kwargs", "replay_buffer_class", "replay_buffer_kwargs")
_OF_REPLAY = ("replay_buffer.pos", "replay_buffer.full")
_REPLAYED = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _state(model: BaseAlgorithm) -> dict[str, Any]:
    """Return all that the next segment depends on, as tensors and plain numbers."""
    parts, tensors = model._get_torch_save_params()
    state = {
        **{name: _attribute(model, name).state_dict() for name in parts},
        "tensors": {name: _attribute(model, name).detach() for name in tensors},
        "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
    }
    if isinstance(model, OffPolicyAlgorithm) and model.replay_buffer is not None:
        buffer = model.replay_buffer
        used = buffer.buffer_size if buffer.full else buffer.pos
        state["replay"] = {name: torch.from_numpy(getattr(buffer, name)[:used]) for name in _REPLAYED}
        state["counters"] |= dict(zip(_OF_REPLAY, (buffer.pos, buffer.full), strict=True))
    return state


def zipped(model: BaseAlgorithm, about: Mapping[str, Any]) -> bytes:
    """Return the zip file that a model's class loads, here or elsewhere; what needs the environments is left out."""
    of_flows = [name for name in _OF_FLOWS if isinstance(model.get_env(), FlowVecEnv) and hasattr(model, name)]
    file = io.BytesIO()
    model.save(file, exclude=[*_OF_TRAINING, *of_flows])
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(f"{KEY}.json", json.dumps(dict(about), indent=1) + "\n")
    add_checksum(file)
    return file.getvalue()


def restore(model: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    """Restore the state of a model at a checkpoint.

    Raises:
        KeyError, RuntimeError, ValueError: it is the state of another model.
    """
    parts, tensors = model._get_torch_save_params()
    for name in parts:
        _attribute(model, name).load_state_dict(state[name])
    for name in tensors:
        _attribute(model, name).data.copy_(state["tensors"][name])
    for path, count in state["counters"].items():
        if path not in (*_COUNTERS, *_OF_REPLAY):
            raise KeyError(path)
        owner, _, name = path.rpartition(".")
        setattr(_attribute(model, owner), name, count)
    for name, rows in state.get("replay", {}).items():
        if name not in _REPLAYED:
            raise KeyError(name)
        _attribute(model, f"replay_buffer.{name}")[: len(rows)] = rows.numpy()


def _attribute(model: BaseAlgorithm, path: str) -> Any:
    found: Any = model
    for name in filter(None, path.split(".")):
        found = getattr(found, name)
    return found
