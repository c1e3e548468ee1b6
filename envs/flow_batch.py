# SPDX-License-Identifier: GPL-2.0-only
"""N environments in arrays, each learner flow with a controller of its own: what those for many agents share.

A flow acts in the intervals in which it runs, be it for a part of them: from the one in which it starts to the one in
which it stops. Its setting is the variant's own (and what the scenario sets of it) until it acts for the first time.

Every computation is one over all flows, and gives each environment what it would get alone, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from bbrgym.envs.action import ActType
from bbrgym.envs.episodes import Episodes
from bbrgym.envs.features import Observation
from bbrgym.envs.learners import EpisodeSpec, Flags, to_ns
from bbrgym.envs.observation import SenderObservation, Stack
from bbrgym.envs.options import Options
from bbrgym.envs.reward import Reward
from bbrgym.envs.row_sums import sum_rows
from bbrgym.envs.scaling import Coordinates
from bbrgym.envs.terms import TermInputs
from bbrgym.errors import ConfigError
from bbrgym.worlds import Table

RewardScope: TypeAlias = Literal["team", "own"]


@dataclass(frozen=True, kw_only=True)
class FlowOptions(Options):
    """What environments with a controller for each learner flow take beside what all environments take.

    Attributes:
        reward_scope: `team`: each flow is paid what one controller of all learner flows would be, the mean over the
            active ones. `own`: the same terms of it alone.
    """

    reward_scope: RewardScope = "team"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.view != "each":
            raise ConfigError(f"view: {self.view!r}, allowed is 'each': an agent sees its own flow")
        if self.critic:
            raise ConfigError("critic: True, allowed is False: for agents of flows TuneMultiEnv.state() has it")
        if self.reward_scope not in get_args(RewardScope):
            raise ConfigError(f"reward_scope: {self.reward_scope!r}, allowed are {' and '.join(get_args(RewardScope))}")


@dataclass(frozen=True)
class FlowStep:
    """What a step gave, of each of the L slots of N environments.

    Attributes:
        observations: [N, L, numbers]; means nothing where the flow neither acted nor will act.
        rewards: [N, L], 0 of flows that did not act.
        terms: of the rewards by name, [N, L] each.
        has_acted: which flows acted in this step, [N, L].
        has_left: which of these will not act again in this run, [N, L].
        has_joined: which flows will act for the first time, [N, L].
        has_ended: which runs ended with this step, [N].
    """

    observations: Observation
    rewards: Table
    terms: dict[str, Table]
    has_acted: Flags
    has_left: Flags
    has_joined: Flags
    has_ended: Flags


class FlowBatch(Episodes):
    """N environments with a controller for each learner flow.

    A run ends with its scenario, or earlier when its last learner flow has stopped.

    Args:
        num_envs: N.
        options: of all of them.
        is_to_the_end: runs go on to their scenarios' ends even when no learner flow is left.

    Attributes:
        observation: from measurements to observations, of one flow.
        will_act: which flows act in the next step, [N, L].

        The others are those of `Episodes`; a run has room for the learner flows of its own scenarios.
    """

    def __init__(self, num_envs: int, options: FlowOptions, *, is_to_the_end: bool = False) -> None:
        super().__init__(num_envs, options, is_room_the_same=False)
        self._is_to_the_end = is_to_the_end
        tunables, slots = len(self.scaling.names), (num_envs, self.max_learners)
        self._reward = Reward(options.reward)
        self._is_own = options.reward_scope == "own"
        self.observation = SenderObservation(1, tunables, options.features, options.stack)
        self.observation_space = self.observation.space
        self._stack = Stack(num_envs * self.max_learners, self.observation)
        self._settings = np.zeros((*slots, tunables), np.float32)
        self._values = np.zeros((*slots, tunables))
        self._interval_ns = int(to_ns([options.control_interval_s])[0])
        self.will_act: Flags = np.zeros(slots, np.bool_)

    def reset(self, indices: Sequence[int], seeds: Sequence[int]) -> Observation:
        """Begins runs with these seeds; the observations of all flows: [N, L, numbers]."""
        self._begin(indices, seeds)
        self._look_ahead()
        rows = np.array(indices)[:, None] * self.max_learners + np.arange(self.max_learners)
        view = self._view(self._slots.stats(self._worlds(), indices), self._settings[indices])
        self._stack.begin(rows.ravel().tolist(), view)
        return self._observations()

    def step(self, actions: ActType) -> FlowStep:
        """Sets the tunables of the flows that act and runs for a control interval.

        Args:
            actions: [N, L, tunables], [N, L] if flat; those of flows that do not act are left aside.
        """
        worlds = self._worlds_that_run(None)
        if np.shape(actions) != (*self.will_act.shape, *np.shape(self.action.default)):
            raise self.action.refusal(actions)
        has_acted, previous = self.will_act, self._settings
        self._act(actions)
        self._take_ends()
        self._look_ahead()
        stats = self._slots.stats(worlds)
        terms = self._terms(stats, np.abs(self._settings - previous), has_acted)
        rewards = self._reward.total({name: values.ravel() for name, values in terms.items()}).reshape(has_acted.shape)
        if self._options.render_mode is not None:
            self._remember(None)
        view = self._view(stats, self._settings)
        self._stack.add(view)
        has_joined = self.will_act & ~has_acted
        if has_joined.any():
            rows = np.flatnonzero(has_joined)
            self._stack.begin(rows.tolist(), view[rows])
        return FlowStep(
            observations=self._observations(),
            rewards=rewards,
            terms=terms,
            has_acted=has_acted,
            has_left=has_acted & ~self.will_act,
            has_joined=has_joined,
            has_ended=~self._is_running,
        )

    def flow_names(self, index: int) -> tuple[str, ...]:
        """Of a run's learner flows, in the order of the slots."""
        course = self._courses[index]
        return () if course is None else course.names

    def given_flow_names(self, index: int) -> tuple[str, ...] | None:
        """The same of the scenario given for the next run; None if it will be drawn."""
        given = self._given[index]
        return given.names if isinstance(given, EpisodeSpec) else None

    def is_waiting(self, index: int) -> bool:
        """Whether a run goes on, and none of its flows acts next."""
        return bool(self._is_running[index]) and not self.will_act[index].any()

    def info_of_flow(self, index: int, slot: int) -> dict[str, Any]:
        """What an onlooker knows of a run, and of a learner flow its name and the values in force."""
        tunables = dict(zip(self.scaling.names, self._values[index, slot].tolist(), strict=True))
        return {**self.info_of(index), "tunables": tunables, "flow": self.flow_names(index)[slot]}

    # ---- details -----------------------------------------------------------------------------------------------

    def _take_course(self, index: int, course: EpisodeSpec) -> tuple[Table, Coordinates]:
        values, actions = super()._take_course(index, course)
        self._values[index, : len(values)], self._settings[index, : len(values)] = values, actions
        return values, actions

    def _act(self, actions: ActType) -> None:
        """Sets the tunables and runs."""
        acts = self.will_act[:, :, None]
        counting = np.array(actions)
        counting[~self.will_act] = self.action.default
        values, settings = self.action.apply(counting, self._settings)
        self._values = np.where(acts, values, self._values)
        self._settings = np.where(acts, settings, self._settings)
        self._slots.write_each(self._worlds(), self._values)
        self._advance(None)

    def _look_ahead(self) -> None:
        """Finds out which flows act next, and which runs have ended."""
        now_ns = to_ns(self._worlds().now_s)
        is_to_stop = self._slots.stop_ns > now_ns
        if not self._is_to_the_end:
            self._is_running &= is_to_stop.any(axis=0)
        is_on = is_to_stop & (self._slots.start_ns < now_ns + self._interval_ns) & self._is_running
        self.will_act = np.ascontiguousarray(is_on.T)

    def _terms(self, stats: Table, moved: Coordinates, has_acted: Flags) -> dict[str, Table]:
        """Every term of the reward, weighted or not: [N, L] each, 0 of flows that did not act."""
        slots = self._slots.count
        if self._is_own:
            by_flow = self._reward.terms(_of_each(self._interval(stats, moved[:, 0]), moved))
            terms = {name: values.reshape(slots, self._n).T for name, values in by_flow.items()}
        else:
            acted = has_acted.T[:, :, None]
            moved_in_all = sum_rows(moved.transpose(1, 0, 2) * acted)
            mean_moved = (moved_in_all / np.maximum(sum_rows(acted), 1.0)).astype(np.float32)
            of_run = self._reward.terms(self._interval(stats, mean_moved))
            terms = {name: np.repeat(values[:, None], slots, axis=1) for name, values in of_run.items()}
        return {name: np.where(has_acted, values, 0.0) for name, values in terms.items()}

    def _view(self, stats: Table, settings: Coordinates) -> Observation:
        """One interval's numbers of each flow of (some of) the environments: [environments * L, width].

        Args:
            stats: the slots' measurements: [fields, L * environments].
            settings: in force: [environments, L, tunables].
        """
        runs, slots, tunables = settings.shape
        flows = stats.reshape(-1, slots, runs).transpose(0, 2, 1).reshape(len(stats), -1)
        return self.observation.view(self._worlds().flow_fields, flows, settings.reshape(-1, tunables))

    def _observations(self) -> Observation:
        return self._stack.observations().reshape(*self.will_act.shape, -1)

    def _coordinates(self, index: int) -> dict[str, float]:
        return {
            f"{flow} {name}": coordinate
            for flow, setting in zip(self.flow_names(index), self._settings[index].tolist(), strict=False)
            for name, coordinate in zip(self.scaling.names, setting, strict=True)
        }


def _of_each(interval: TermInputs, moved: Coordinates) -> TermInputs:
    """The interval of N environments with L learner flows as one of L * N that have one of them each.

    Args:
        interval: of N.
        moved: distance that each coordinate of each flow's action moved: [N, L, tunables].
    """
    slots = moved.shape[1]
    return TermInputs(
        learners=_Mapped(interval.learners, lambda rows: rows.reshape(1, -1)),
        flows=_Mapped(interval.flows, lambda rows: np.tile(rows, (1, slots))),
        base_rtt_ms=interval.base_rtt_ms.reshape(1, -1),
        moved=moved.transpose(1, 0, 2).reshape(-1, moved.shape[2]),
    )


class _Mapped(Mapping[str, Table]):
    """Tables by name, each brought to another form when it is asked for."""

    def __init__(self, tables: Mapping[str, Table], form: Any) -> None:
        self._tables = tables
        self._form = form

    def __getitem__(self, name: str) -> Table:
        table: Table = self._form(self._tables[name])
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)
