# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/TuneMulti-v2, many environments in one step, one policy for all flows, for Stable-Baselines3.

Needs the extra `train`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.batch_vec_env import BatchVecEnv, Indices, Monitor, Wrapper
from bbrgym.envs.features import Observation
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.options import arguments_of
from bbrgym.envs.seeding import Generators
from bbrgym.envs.sub_env import SubEnv
from bbrgym.worlds import Flags, Table


class FlowSubEnv(SubEnv):
    """Row of a `FlowVecEnv`."""

    _batch: FlowBatch

    def __init__(
        self, batch: FlowBatch, generators: Generators, world: int, tuned_flow: int, render_mode: str | None
    ) -> None:
        super().__init__(batch, generators, world, render_mode)
        self.world = world
        self.tuned_flow = tuned_flow

    @property
    def flow(self) -> str | None:
        """Name of the flow; None if it is absent."""
        names = self._batch.episodes.flow_names(self.world)
        return names[self.tuned_flow] if self.tuned_flow < len(names) else None

    def info(self) -> dict[str, Any]:
        """Return the info of an agent of `TuneMultiEnv` without `reward_terms`; that of the world if it is absent."""
        if self.flow is None:
            return super().info()
        return self._batch.info_of_flow(self.world, self.tuned_flow)


@dataclass(frozen=True)
class FlowVecOptions(FlowOptions):
    """Arguments of `FlowVecEnv`, beside those of `FlowOptions`.

    Attributes:
        num_worlds: number of worlds.
        full_infos: whether the infos of every step are complete for all flows that acted, which is slow.
    """

    num_worlds: int = 1
    _: KW_ONLY
    full_infos: bool = False


class FlowVecEnv(BatchVecEnv):
    """Worlds side by side, with a row for each tuned flow: one policy acts for all of them.

    A row is an agent of `TuneMultiEnv`: its observation, action and reward equal, bit for bit, those of worlds run one
    by one. Each world has a row for each tuned flow that its scenarios can have, in the order of the worlds; world i
    is seeded as environment i of a `TuneVecEnv`.

    **Idle rows.** A row is idle in the steps in which its flow does not run: before it starts, after it stops, or
    because the episode has fewer flows. Its observation and reward are 0 then, and its action is ignored. Nothing can
    be learned from idle rows; to save them, give worlds scenarios with about equally many flows, or mask the rows:
    `row_will_act` marks those that act in the next step, `row_is_active` those that acted in the last one.

    **Ends.** The last step of a flow is `done` with `TimeLimit.truncated` and `terminal_observation`. The last step of
    an idle stretch is `done` too, but as a termination: no value follows it. An episode that has ended is followed by
    the next one at once.

    **Infos** are complete at the last step of a flow only: the info of `TuneMultiEnv`, and `episode` (`r`, `l`: return
    and steps of the flow), as of Monitor. So do not wrap it in VecMonitor, which would count idle stretches as episodes
    of return 0. Other infos hold `absent`: whether the row was idle.

    Arguments are those of `bbrgym.envs.options.Options`, `bbrgym.envs.flow_batch.FlowOptions` and `FlowVecOptions`, by
    name. `max_tuned` is that of each world. Default: the number that its own scenario can have.

    Attributes:
        num_worlds: number of worlds.
        world_of_row, tuned_of_row: the world of each row, and which of its tuned flows: [rows].
        row_will_act: rows whose flows run in the next step, [rows].
        row_is_active: rows whose flows ran in the last step, [rows].
    """

    _batch: FlowBatch

    @arguments_of(FlowVecOptions)
    def __init__(self, options: FlowVecOptions) -> None:
        self.num_worlds = options.num_worlds
        batch, generators = FlowBatch(self.num_worlds, options), Generators(self.num_worlds)
        self._full_infos = options.full_infos
        self.world_of_row = np.repeat(np.arange(self.num_worlds), batch.episodes.tuned_capacity)
        self.tuned_of_row = np.concatenate([np.arange(tuned) for tuned in batch.episodes.tuned_capacity])
        self._places = self.world_of_row * batch.max_tuned + self.tuned_of_row  # in [worlds, tuned flows]
        rows = len(self._places)
        self.row_will_act: Flags = np.zeros(rows, np.bool_)
        self.row_is_active: Flags = np.zeros(rows, np.bool_)
        self._returns = np.zeros(rows)
        self._lengths = np.zeros(rows, np.int64)
        envs = [
            FlowSubEnv(batch, generators, world, tuned_flow, options.render_mode)
            for world, tuned_flow in zip(self.world_of_row.tolist(), self.tuned_of_row.tolist(), strict=True)
        ]
        super().__init__(batch, generators, envs)

    def reset(self) -> Observation:
        """Begin all episodes, with the seeds and options given to `seed` and `set_options` since the last reset.

        World i takes those of row i.
        """
        observations = self._reset_all()
        self.row_is_active = np.zeros(self.num_envs, np.bool_)
        self._returns[:] = self._lengths[:] = 0
        return self._observe_rows(observations)

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Set the tunables of each flow, run for a control interval and reset the worlds whose episode has ended."""
        batch = self._batch
        batch.simulate(self._of_worlds(self._actions))
        observations = batch.observe()
        terms = batch.reward_terms()
        rewards = self._of_rows(batch.reward(terms))
        self.row_is_active = self._of_rows(batch.has_acted)
        self._returns += rewards
        self._lengths += self.row_is_active
        row_has_ended = batch.episodes.has_ended[self.world_of_row]
        done = self._of_rows(batch.has_left | batch.has_joined) | row_has_ended
        infos = self._infos(observations, terms, done)
        if row_has_ended.any():
            observations = self._reset_ended()
            for row in np.flatnonzero(row_has_ended).tolist():
                self.reset_infos[row] = self._sub_envs[row].info()
        return self._observe_rows(observations), rewards.astype(np.float32), done, infos

    def env_is_wrapped(self, wrapper_class: Wrapper, indices: Indices = None) -> list[bool]:
        """Return whether the class is Monitor, for each row: the infos hold what Monitor adds."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]

    # ---- details -----------------------------------------------------------------------------------------------

    def _of_worlds(self, rows: ActType) -> ActType:
        """Put actions of rows at the places of their flows: [rows, ...] -> [worlds, tuned flows, ...]."""
        worlds = np.zeros((self.num_worlds * self._batch.max_tuned, *rows.shape[1:]), rows.dtype)
        worlds[self._places] = rows
        return worlds.reshape(self.num_worlds, self._batch.max_tuned, *rows.shape[1:])

    def _of_rows(self, worlds: NDArray[Any]) -> NDArray[Any]:
        """Take the values of rows from those of worlds: [worlds, tuned flows, ...] -> [rows, ...]."""
        rows: NDArray[Any] = worlds.reshape(-1, *worlds.shape[2:])[self._places]
        return rows

    def _observe_rows(self, observations: Observation) -> Observation:
        """Return the observations of rows, 0 where they are idle in the next step: [rows, numbers]."""
        self.row_will_act = self._of_rows(self._batch.will_act)
        rows: Observation = self._of_rows(observations)
        rows[~self.row_will_act] = 0.0
        return rows

    def _infos(self, observations: Observation, terms: dict[str, Table], done: Flags) -> list[dict[str, Any]]:
        """Return the info of each row."""
        infos: list[dict[str, Any]] = [
            {"TimeLimit.truncated": False, "absent": not has_acted} for has_acted in self.row_is_active.tolist()
        ]
        has_left = self._of_rows(self._batch.has_left)
        for row in np.flatnonzero(self.row_is_active if self._full_infos else has_left).tolist():
            infos[row] |= self._batch.info_of_flow(int(self.world_of_row[row]), int(self.tuned_of_row[row]), terms)
        for row in np.flatnonzero(done).tolist():
            if has_left[row]:
                last = observations[self.world_of_row[row], self.tuned_of_row[row]]
                infos[row] |= {"TimeLimit.truncated": True, "terminal_observation": last.copy()}
                infos[row]["episode"] = {"r": float(self._returns[row]), "l": int(self._lengths[row])}
            else:
                infos[row]["terminal_observation"] = np.zeros_like(observations[0, 0])
            self._returns[row] = self._lengths[row] = 0
        return infos
