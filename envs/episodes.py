# SPDX-License-Identifier: GPL-2.0-only
"""N runs side by side: which scenario each is of, where its learner flows are, what an onlooker sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bbrgym.envs.action import ActionMapping
from bbrgym.envs.critic import CriticObservation
from bbrgym.envs.features import Observation
from bbrgym.envs.learners import EpisodeSpec, Flags, Learners
from bbrgym.envs.observation import SenderObservation
from bbrgym.envs.options import Draw, Options
from bbrgym.envs.render import History
from bbrgym.envs.scaling import Coordinates, TunableScaling
from bbrgym.envs.smoothing import ExponentialMeans
from bbrgym.envs.terms import TermInputs
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import is_distribution, load_distribution
from bbrgym.scenario.files import Source, is_sequence
from bbrgym.worlds import (
    TUNABLE_COLUMNS,
    Table,
    VectorWorld,
    WorldError,
    check_controllers,
    check_seed,
    make_vector_world,
    world_spec,
)

_DRAW_WHEN_MADE = 0  # the seed of the drawn scenario that tells how many learner flows there are
_RESET_FIRST = "call reset() first: no run has begun, or it has ended"


class _Rows(Mapping[str, Table]):
    """Rows of an array by name."""

    def __init__(self, places: Mapping[str, int], rows: Table) -> None:
        self._places = places
        self._rows = rows

    def __getitem__(self, name: str) -> Table:
        row: Table = self._rows[self._places[name]]
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Episodes(ABC):
    """N runs, whatever acts on them.

    Args:
        num_envs: N.
        options: of all of them.
        is_room_the_same: whether every run can have as many learner flows as any other; or as many as its own scenarios
            need, unless the options say.

    Attributes:
        scaling: from coordinates to tunables and back.
        action: from actions to coordinates.
        observation: from measurements to observations.
        observation_space: of an environment, or of an agent in it.
        critic: from measurements to what a critic sees.
        max_learners: the most learner flows that a run can have here.
        room: the same of each run: N numbers.
        worlds: where they run, from the first beginning on.
    """

    observation: SenderObservation
    observation_space: spaces.Space[Any]

    def __init__(self, num_envs: int, options: Options, *, is_room_the_same: bool = True) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs: {num_envs}, allowed are numbers from 1")
        self._n = num_envs
        self._options = options
        self.scaling = TunableScaling(options.variant, options.tunables)
        self.action = ActionMapping(
            self.scaling,
            options.action_kind,
            levels=options.levels,
            flat=options.flat,
            step_size=options.step_size,
            max_change=options.max_change,
        )
        self._given = self._courses_or_draws(options.scenario)
        needs = self._names_and_needs(self._given)
        self.max_learners = options.max_learners or max(learners for _, learners in needs)
        is_same = is_room_the_same or options.max_learners is not None
        self.room = [self.max_learners if is_same else learners for _, learners in needs]
        for index, (name, learners) in enumerate(needs):
            self._check_room(index, name, learners)
        self.critic = CriticObservation(self.max_learners, options.view)
        self._slots = Learners(num_envs, self.max_learners, [TUNABLE_COLUMNS[name] for name in self.scaling.names])
        self.worlds: VectorWorld | None = None
        self._is_running: Flags = np.zeros(num_envs, np.bool_)
        self._seeds = np.zeros(num_envs, np.int64)
        self._names = np.full(num_envs, None, object)
        self._courses: list[EpisodeSpec | None] = [None] * num_envs
        self._found_for: Table | None = None
        self._places: dict[str, int] = {}  # of the flows' fields
        self._averages: ExponentialMeans | None = None
        self._histories: list[History | None] = [None] * num_envs

    # ---- for environments --------------------------------------------------------------------------------------

    def take_options(self, options: Mapping[str, Any], indices: Sequence[int]) -> None:
        """The options of a reset: `scenario`, as in `TuneEnv`, for the runs from now on."""
        unknown = set(options) - {"scenario"}
        if unknown:
            raise ConfigError(f"reset options: {sorted(unknown)}, allowed is scenario")
        if "scenario" in options:
            given = self._courses_or_draws(options["scenario"])
            needs = self._names_and_needs(given)
            for index in indices:
                self._check_room(index, *needs[index])
            for index in indices:
                self._given[index] = given[index]

    def info(self) -> dict[str, Any]:
        """What an onlooker knows of each run, in arrays of the caller's own; see `TuneEnv`."""
        worlds = self._worlds()
        return {
            "now_s": worlds.now_s.copy(),
            "scenario": self._names.copy(),
            "seed": self._seeds.copy(),
            "flow_stats": worlds.flow_stats.copy(),
            "link_stats": worlds.link_stats.copy(),
        }

    def info_of(self, index: int) -> dict[str, Any]:
        """The same of one run, as it would give it alone."""
        worlds = self._worlds()
        return {
            "now_s": float(worlds.now_s[index]),
            "scenario": self._names[index],
            "seed": int(self._seeds[index]),
            "flow_stats": worlds.flow_stats[index, : len(worlds.flow_names(index))].copy(),
            "link_stats": worlds.link_stats[index].copy(),
        }

    def seen_by_critic(self) -> Observation:
        """What only an onlooker knows of each run, normalised: [N, numbers], the caller's own."""
        worlds, slots = self._worlds(), self._slots
        flows = slots.stats(worlds)
        return self.critic.view(
            worlds.link_fields, worlds.link_stats, worlds.flow_fields, flows, slots.base_rtt_ms, slots.there()
        )

    def render(self, index: int) -> NDArray[np.uint8] | None:
        """A picture of a run so far; None without a render mode."""
        if self._options.render_mode is None:
            return None
        history = self._histories[index]
        if history is None:
            raise ResetNeeded(_RESET_FIRST)
        return history.draw()

    @property
    def flow_fields(self) -> tuple[str, ...]:
        """The columns of ``flow_stats``; known from the first reset on."""
        return () if self.worlds is None else self.worlds.flow_fields

    @property
    def link_fields(self) -> tuple[str, ...]:
        """The columns of ``link_stats``; known from the first reset on."""
        return () if self.worlds is None else self.worlds.link_fields

    def close(self) -> None:
        """Ends the worlds."""
        if self.worlds is not None:
            self.worlds.close()
            self.worlds = None
        self._is_running[:] = False

    # ---- for what acts -----------------------------------------------------------------------------------------

    def _worlds(self) -> VectorWorld:
        if self.worlds is None:
            raise ResetNeeded(_RESET_FIRST)
        return self.worlds

    def _worlds_that_run(self, mask: Flags | None) -> VectorWorld:
        """The worlds, those of the mask running."""
        if not (self._is_running if mask is None else self._is_running[mask]).all():
            raise ResetNeeded(_RESET_FIRST)
        return self._worlds()

    def _begin(self, indices: Sequence[int], seeds: Sequence[int]) -> None:
        """Begins runs."""
        self._is_running[indices] = False
        checked = [check_seed(seed) for seed in seeds]
        given = [self._given[index] for index in indices]
        courses = [
            course if isinstance(course, EpisodeSpec) else EpisodeSpec.of(course(seed), self._options.variant)
            for course, seed in zip(given, checked, strict=True)
        ]
        for index, course in zip(indices, courses, strict=True):
            self._check_room(index, course.scenario.name, len(course.learners))
        if self.worlds is None:
            self._make_worlds(indices, courses, checked)
        else:
            self.worlds.reserve(max(course.flows for course in courses))
            for index, course, seed in zip(indices, courses, checked, strict=True):
                is_same = self.worlds.scenarios[index] is course.scenario
                self.worlds.reset(index, None if is_same else course.scenario, seed)
        for index, course, seed in zip(indices, courses, checked, strict=True):
            self._seeds[index] = seed
            self._take_course(index, course)
            if self._options.render_mode is not None:
                self._histories[index] = self._new_history(index)
        if self._averages is not None:
            self._averages.forget(indices)
        if self._found_for is not self._worlds().tunables:
            self._slots.find(self._worlds())
            self._found_for = self._worlds().tunables
        self._is_running[indices] = True

    def _take_course(self, index: int, course: EpisodeSpec) -> tuple[Table, Coordinates]:
        """What the rest needs to know of a run's scenario.

        Returns:
            Values and actions that its learner flows start with: [learners, tunables] both.
        """
        if self._courses[index] is not course:
            self._courses[index] = course
            self._names[index] = course.scenario.name
            self._slots.take(index, course, self._worlds())
        if course.start is None:
            values = self._slots.values(self._worlds(), index, course)
            course.start = (values, self.scaling.coordinates(values))
        return course.start

    def _advance(self, mask: Flags | None) -> None:
        """Runs for a control interval those of the mask, or all."""
        try:
            self._worlds().advance(self._options.control_interval_s, mask)
        except WorldError:
            self._is_running[:] = False
            raise

    def _take_ends(self) -> Flags:
        """Which runs are at their scenarios' ends; they do not run any more."""
        truncated: Flags = self._worlds().done.copy()
        self._is_running &= ~truncated
        return truncated

    def _interval(self, learners: Table, moved: Coordinates, begun: Sequence[int] = ()) -> TermInputs:
        """What the rewards of an interval are computed from.

        Args:
            learners: the slots' measurements: [fields, L * N].
            moved: [N, tunables].
            begun: runs for which it was none: they have just begun.
        """
        by_flow = learners.reshape(len(learners), self._slots.count, self._n)
        if self._averages is not None:
            by_flow = self._averages.add(by_flow)
            self._averages.forget(begun)
        return TermInputs(
            learners=_Rows(self._places, by_flow),
            flows=_Rows(self._places, self._worlds().flow_stats.T),
            base_rtt_ms=self._slots.base_rtt_ms,
            moved=moved,
        )

    @abstractmethod
    def _coordinates(self, index: int) -> Mapping[str, float]:
        """What is set of a run, from -1 to 1, by the names that pictures have for it."""

    def _remember(self, mask: Flags | None) -> None:
        """Keeps an interval of the runs of the mask for pictures."""
        worlds = self._worlds()
        for index in range(self._n) if mask is None else np.flatnonzero(mask).tolist():
            history = self._histories[index]
            if history is not None:
                stats = worlds.flow_stats[index, : len(worlds.flow_names(index))]
                flows = dict(zip(worlds.flow_fields, stats.T, strict=True))
                link = dict(zip(worlds.link_fields, worlds.link_stats[index].tolist(), strict=True))
                settings = np.array(list(self._coordinates(index).values()))
                history.add(float(worlds.now_s[index]), flows, link, (settings + 1.0) / 2.0)

    # ---- details -----------------------------------------------------------------------------------------------

    def _courses_or_draws(self, scenario: Source | Draw | Sequence[Source | Draw]) -> list[EpisodeSpec | Draw]:
        """Of each run."""
        several: list[Any] = list(scenario) if is_sequence(scenario) else [scenario]
        if is_sequence(scenario) and len(several) != self._n:
            raise ConfigError(f"scenario: {len(several)} for {self._n} environments, allowed are one or one for each")
        world = world_spec(self._options.world)
        given: list[EpisodeSpec | Draw] = []
        for source in several:
            one = load_distribution(source) if is_distribution(source) else source
            if callable(one):
                given.append(one)
            else:
                spec = EpisodeSpec.of(one, self._options.variant)
                check_controllers(world, spec.scenario)
                given.append(spec)
        return given if len(given) == self._n else given * self._n

    def _names_and_needs(self, given: Sequence[EpisodeSpec | Draw]) -> list[tuple[str, int]]:
        """Of each scenario or draw its name, and how many learner flows it has at most, as far as can be told."""
        needs: dict[int, tuple[str, int]] = {}
        for one in given:
            if id(one) not in needs:
                most = getattr(one, "max_learners", None)
                if most is None:
                    course = EpisodeSpec.of(one(_DRAW_WHEN_MADE), self._options.variant) if callable(one) else one
                    needs[id(one)] = (course.scenario.name, len(course.learners))
                else:
                    needs[id(one)] = (str(getattr(one, "name", one)), int(most))
        return [needs[id(one)] for one in given]

    def _check_room(self, index: int, name: str, learners: int) -> None:
        if learners > self.room[index]:
            raise ConfigError(
                f"scenario {name!r} has up to {learners} flows with role learner, this environment was made for "
                f"at most {self.room[index]}: make one with max_learners={learners}"
            )

    def _make_worlds(self, indices: Sequence[int], courses: Sequence[EpisodeSpec], seeds: Sequence[int]) -> None:
        if len(indices) < self._n:
            raise ResetNeeded(_RESET_FIRST)
        self.worlds = make_vector_world(
            self._options.world,
            self._n,
            [course.scenario for course in courses],
            seeds,
            flow_capacity=self._options.flow_capacity,
            threads=self._options.threads,
            isolation=self._options.isolation,
            timeout_s=self._options.timeout_s,
            options=self._options.world_options,
        )
        self._places = {name: place for place, name in enumerate(self.worlds.flow_fields)}
        horizon_s, interval_s = self._options.reward_horizon_s, self._options.control_interval_s
        if horizon_s is not None:
            self._averages = ExponentialMeans(
                self.worlds.flow_fields, horizon_s, interval_s, self._slots.is_there.shape
            )

    def _new_history(self, index: int) -> History:
        worlds = self._worlds()
        scenario = worlds.scenarios[index]
        title = f"{scenario.name}, {self._options.variant}, seed {self._seeds[index]}"
        return History(title, scenario.duration_s, worlds.flow_names(index), list(self._coordinates(index)))
