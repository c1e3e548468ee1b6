# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/TuneMulti-v0 many times over for Stable-Baselines3, one policy for all flows; needs the extra `sb3`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.batch_vec_env import BatchVecEnv, Indices, Monitor, SubEnv, Wrapper
from bbrgym.envs.features import Observation
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions, FlowStep
from bbrgym.envs.learners import Flags
from bbrgym.envs.options import arguments_of
from bbrgym.envs.seeding import Generators


class FlowSubEnv(SubEnv):
    """One row of a `FlowVecEnv`.

    Attributes:
        world, slot: whose row it is.
    """

    def __init__(
        self, batch: FlowBatch, generators: Generators, world: int, slot: int, render_mode: str | None
    ) -> None:
        super().__init__(batch, generators, world, render_mode)
        self._flows = batch
        self.world = world
        self.slot = slot

    @property
    def flow(self) -> str | None:
        """The name of its flow; None if it is absent."""
        names = self._flows.flow_names(self.world)
        return names[self.slot] if self.slot < len(names) else None

    def info(self) -> dict[str, Any]:
        """What `TuneMultiEnv` has in an agent's info, without `reward_terms`; what there is of it without a flow."""
        if self.flow is None:
            return super().info()
        return self._flows.info_of_flow(self.world, self.slot)


@dataclass(frozen=True)
class FlowVecOptions(FlowOptions):
    """What `FlowVecEnv` takes beside `FlowOptions`.

    Attributes:
        num_worlds: how many worlds.
        full_infos: complete infos of all that acted at every step; that is slow.
    """

    num_worlds: int = 1
    _: KW_ONLY
    full_infos: bool = False


class FlowVecEnv(BatchVecEnv):
    """Worlds side by side, a row for each of their learner flows: one policy acts for all of them.

    A row is what an agent of `TuneMultiEnv` has: its observation, action and reward, equal bit for bit to those of
    worlds run one by one. Each world has a row for each learner flow that its scenarios can have, in the order of the
    worlds; world i is seeded as environment i of a `TuneVecEnv`.

    **Idle rows.** A row is idle in the steps in which its flow does not run: before it starts, after it stops, or
    because the run has fewer flows. Then its observation and reward are 0 and its action is left aside. Idle rows
    teach nothing but that; to save them, give worlds scenarios of about as many flows each, or mask them:
    `row_will_act` says which rows the observations are worth an action of, `row_is_active` in which the last step was
    more than idle.

    **Ends.** A flow's last step is `done` with `TimeLimit.truncated` and `terminal_observation`; so is each step that
    ends an idle stretch, but as a real end, after which nothing is worth anything. A run that has ended is followed by
    the next one at once.

    **Infos** are complete at a flow's last step only: what `TuneMultiEnv` has there, and `episode` (`r`, `l`: the
    flow's return and steps), as Monitor has it. So do not wrap it in VecMonitor, which would count idle stretches as
    episodes of return 0. Other infos hold `absent`: whether the row was idle.

    It takes the arguments of `bbrgym.envs.options.Options`, `bbrgym.envs.flow_batch.FlowOptions` and `FlowVecOptions`,
    by name. `max_learners` is of each world; without, as many as its own scenario can have learner flows.

    Attributes:
        num_worlds: how many.
        world_of_row, slot_of_row: whose each row is, [rows].
        row_will_act: rows whose flows run in the next step, [rows].
        row_is_active: rows whose flows ran in the last step, [rows].
    """

    @arguments_of(FlowVecOptions)
    def __init__(self, options: FlowVecOptions) -> None:
        num_worlds = self.num_worlds = options.num_worlds
        self._batch = FlowBatch(num_worlds, options)
        self._generators = Generators(num_worlds)
        self._full_infos = options.full_infos
        rooms = self._batch.room
        self.world_of_row = np.repeat(np.arange(num_worlds), rooms)
        self.slot_of_row = np.concatenate([np.arange(room) for room in rooms])
        self._places = self.world_of_row * self._batch.max_learners + self.slot_of_row  # in [worlds, slots]
        rows = len(self._places)
        self._members = [
            FlowSubEnv(self._batch, self._generators, world, slot, options.render_mode)
            for world, slot in zip(self.world_of_row.tolist(), self.slot_of_row.tolist(), strict=True)
        ]
        self.row_will_act: Flags = np.zeros(rows, np.bool_)
        self.row_is_active: Flags = np.zeros(rows, np.bool_)
        self._returns = np.zeros(rows)
        self._lengths = np.zeros(rows, np.int64)
        super().__init__(rows, self._batch.observation_space, self._batch.action.space)
        self._actions: ActType = np.stack([self._batch.action.default] * rows)

    def reset(self) -> Observation:
        """Starts all runs, with the seeds and options given to `seed` and `set_options` since the last time.

        World i takes those of row i.
        """
        worlds = list(range(self.num_worlds))
        for world in worlds:
            self._batch.take_options(self._options[world], [world])
        observations = self._batch.reset(worlds, self._generators.draw_seeds(worlds, self._seeds[: self.num_worlds]))
        self.reset_infos = self.env_method("info")
        self._reset_seeds()
        self._reset_options()
        self.row_is_active = np.zeros(self.num_envs, np.bool_)
        self._returns[:] = self._lengths[:] = 0
        return self._seen(observations)

    def step_async(self, actions: ActType) -> None:
        """Takes the actions; `step_wait` runs."""
        self._actions = actions

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Sets each flow's tunables, runs for a control interval and resets what has ended."""
        table = np.zeros((self.num_worlds * self._batch.max_learners, *self._actions.shape[1:]), self._actions.dtype)
        table[self._places] = self._actions
        step = self._batch.step(table.reshape(self.num_worlds, self._batch.max_learners, *table.shape[1:]))
        rewards = self._of_rows(step.rewards)
        self.row_is_active = self._of_rows(step.has_acted)
        self._returns += rewards
        self._lengths += self.row_is_active
        done = self._of_rows(step.has_left | step.has_joined) | step.has_ended[self.world_of_row]
        infos = self._infos(step, done)
        observations = step.observations
        if step.has_ended.any():
            ended = np.flatnonzero(step.has_ended).tolist()
            observations = self._batch.reset(ended, self._generators.draw_seeds(ended, [None] * len(ended)))
            for row in np.flatnonzero(step.has_ended[self.world_of_row]).tolist():
                self.reset_infos[row] = self._members[row].info()
        return self._seen(observations), rewards.astype(np.float32), done, infos

    def close(self) -> None:
        """Ends the worlds."""
        self._batch.close()

    def env_is_wrapped(self, wrapper_class: Wrapper, indices: Indices = None) -> list[bool]:
        """Whether it is Monitor: the infos hold what that would put there."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]

    def get_images(self) -> list[NDArray[np.uint8] | None]:
        """A picture of each world's run so far."""
        return [self._batch.render(world) for world in range(self.num_worlds)]

    # ---- details -----------------------------------------------------------------------------------------------

    def _of_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """[worlds, slots, ...] -> [rows, ...]."""
        rows: NDArray[Any] = values.reshape(-1, *values.shape[2:])[self._places]
        return rows

    def _seen(self, observations: Observation) -> Observation:
        """What the rows see next: 0 where they will be idle."""
        self.row_will_act = self._of_rows(self._batch.will_act)
        seen: Observation = self._of_rows(observations)
        seen[~self.row_will_act] = 0.0
        return seen

    def _infos(self, step: FlowStep, done: Flags) -> list[dict[str, Any]]:
        infos: list[dict[str, Any]] = [
            {"TimeLimit.truncated": False, "absent": not has_acted} for has_acted in self.row_is_active.tolist()
        ]
        has_left = self._of_rows(step.has_left)
        for row in np.flatnonzero(self.row_is_active if self._full_infos else has_left).tolist():
            infos[row] |= self._info(row, step)
        for row in np.flatnonzero(done).tolist():
            if has_left[row]:
                last = step.observations[self.world_of_row[row], self.slot_of_row[row]]
                infos[row] |= {"TimeLimit.truncated": True, "terminal_observation": last.copy()}
                infos[row]["episode"] = {"r": float(self._returns[row]), "l": int(self._lengths[row])}
            else:
                infos[row]["terminal_observation"] = np.zeros_like(step.observations[0, 0])
            self._returns[row] = self._lengths[row] = 0
        return infos

    def _info(self, row: int, step: FlowStep) -> dict[str, Any]:
        world, slot = int(self.world_of_row[row]), int(self.slot_of_row[row])
        terms = {name: float(term[world, slot]) for name, term in step.terms.items()}
        return {**self._batch.info_of_flow(world, slot), "reward_terms": terms}
