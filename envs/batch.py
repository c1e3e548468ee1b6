# SPDX-License-Identifier: GPL-2.0-only
"""N environments in arrays: what `TuneEnv` (N = 1), `TuneVectorEnv` and the one for Stable-Baselines3 share.

Every computation is one over all N, and gives each environment what it would get alone, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from numpy.typing import NDArray

from bbrgym.distribution import is_distribution, load_distribution
from bbrgym.envs.action import Action, TunablesAction
from bbrgym.envs.control import Control, Move
from bbrgym.envs.observation import Observation, SenderObservation, Stack
from bbrgym.envs.options import Draw, Options
from bbrgym.envs.render import History
from bbrgym.envs.reward import Reward
from bbrgym.envs.slots import Course, Flags, Slots
from bbrgym.envs.terms import Interval
from bbrgym.errors import ConfigError
from bbrgym.scenario_files import Source, is_sequence
from bbrgym.worlds import Table, VectorWorld, WorldError, make_vector_world
from bbrgym.worlds.world import TUNABLE_COLUMNS, check_seed

_SEEDS = 2**31
_DRAW_WHEN_MADE = 0  # the seed of the drawn scenario that tells how many learner flows there are


@dataclass(frozen=True)
class Step:
    """What a step gave, of each environment.

    Attributes:
        observations: [N, numbers].
        rewards: [N], 0 for those that did not run.
        truncated: [N], whether a run ended with this step.
        terms: of the rewards by name, [N] each.
    """

    observations: Observation
    rewards: Table
    truncated: Flags
    terms: dict[str, Table]


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


class TuneBatch:
    """N environments.

    Args:
        num_envs: N.
        options: of all of them.

    Attributes:
        action: from settings to tunables and back.
        control: from actions to settings.
        observation: from measurements to observations.
        max_learners: the most learner flows that a scenario can have here.
        worlds: where they run, from the first reset on.
    """

    def __init__(self, num_envs: int, options: Options) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs: {num_envs}, allowed are numbers from 1")
        if options.max_learners is not None and (not isinstance(options.max_learners, int) or options.max_learners < 1):
            raise ConfigError(f"max_learners: {options.max_learners!r}, allowed are whole numbers from 1")
        if not 0.0 < options.control_interval_s < math.inf:
            raise ConfigError(f"control_interval_s: {options.control_interval_s}, allowed is a finite number above 0")
        if options.render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode: {options.render_mode!r}, allowed are None and 'rgb_array'")
        self._n = num_envs
        self._options = options
        self.action = TunablesAction(options.variant, options.tunables)
        self.control = Control(
            self.action,
            options.action_kind,
            levels=options.levels,
            flat=options.flat,
            step_size=options.step_size,
            max_change=options.max_change,
        )
        self._reward = Reward(options.reward)
        self._given = self._courses_or_draws(options.scenario)
        needs = self._needs(self._given)
        self.max_learners = (
            max(learners for _, learners in needs) if options.max_learners is None else options.max_learners
        )
        self._check_room(needs)
        tunables = len(self.action.names)
        self.observation = SenderObservation(self.max_learners, tunables, options.features, options.stack, options.view)
        self._slots = Slots(num_envs, self.max_learners, [TUNABLE_COLUMNS[name] for name in self.action.names])
        self.worlds: VectorWorld | None = None
        self._is_running = np.zeros(num_envs, np.bool_)
        self._stack = Stack(num_envs, self.observation)
        self._settings = np.zeros((num_envs, tunables), np.float32)
        self._values = np.zeros((num_envs, tunables))
        self._seeds = np.zeros(num_envs, np.int64)
        self._names = np.full(num_envs, None, object)
        self._courses: list[Course | None] = [None] * num_envs
        self._found_for: Table | None = None
        self._places: dict[str, int] = {}  # of the flows' fields
        self._histories: list[History | None] = [None] * num_envs

    # ---- runs --------------------------------------------------------------------------------------------------

    def take_options(self, options: Mapping[str, Any], indices: Sequence[int]) -> None:
        """The options of a reset: `scenario`, as in `TuneEnv`, for the runs from now on."""
        unknown = set(options) - {"scenario"}
        if unknown:
            raise ConfigError(f"reset options: {sorted(unknown)}, allowed is scenario")
        if "scenario" in options:
            given = self._courses_or_draws(options["scenario"])
            self._check_room(self._needs(given))
            for index in indices:
                self._given[index] = given[index]

    def reset(self, indices: Sequence[int], seeds: Sequence[int]) -> Observation:
        """Begins runs with these seeds; the observations of all environments."""
        self._begin(indices, seeds)
        learners = self._slots.stats(self._worlds(), indices)
        self._stack.begin(indices, self._view(learners, self._settings[indices], self._slots.there(indices)))
        return self._stack.observations()

    def step(self, actions: Move, begin: Sequence[int] = (), seeds: Sequence[int] = ()) -> Step:
        """Sets the tunables and runs for a control interval; or begins a run.

        Args:
            actions: [N, tunables]; [N] if flat.
            begin: environments that begin a run instead; their actions are left aside, their rewards and terms are 0.
            seeds: of these runs.
        """
        mask = None
        if len(begin):
            mask = np.ones(self._n, np.bool_)
            mask[begin] = False
        if self.worlds is None or not (self._is_running if mask is None else self._is_running[mask]).all():
            raise ResetNeeded("call reset() first: no run has begun, or it has ended")
        if np.shape(actions) != (self._n, *np.shape(self.control.default)):
            raise self.control.refusal(actions)
        previous = self._settings
        if len(begin) < self._n:
            self._act(actions if mask is None else self._left_aside(actions, begin), mask)
        if len(begin):
            self._begin(begin, seeds)
        truncated = self.worlds.done.copy()
        self._is_running &= ~truncated
        learners = self._slots.stats(self.worlds)
        terms = self._reward.terms(self._interval(learners, np.abs(self._settings - previous)))
        rewards = self._reward.total(terms)
        if mask is not None:
            has_begun = ~mask
            for numbers in (rewards, *terms.values()):
                np.copyto(numbers, 0.0, where=has_begun)
        if self._options.render_mode is not None:
            self._remember(mask)
        view = self._view(learners, self._settings, self._slots.there())
        self._stack.add(view)
        if len(begin):
            self._stack.begin(begin, view[begin])
        return Step(self._stack.observations(), rewards, truncated, terms)

    def info(self) -> dict[str, Any]:
        """What an onlooker knows of each environment, in arrays of the caller's own; see `TuneEnv`."""
        worlds = self._worlds()
        return {
            "now_s": worlds.now_s.copy(),
            "scenario": self._names.copy(),
            "seed": self._seeds.copy(),
            "tunables": dict(zip(self.action.names, np.ascontiguousarray(self._values.T), strict=True)),
            "flow_stats": worlds.flow_stats.copy(),
            "link_stats": worlds.link_stats.copy(),
        }

    def info_of(self, index: int) -> dict[str, Any]:
        """The same of one environment, as it would give it alone."""
        worlds = self._worlds()
        return {
            "now_s": float(worlds.now_s[index]),
            "scenario": self._names[index],
            "seed": int(self._seeds[index]),
            "tunables": dict(zip(self.action.names, self._values[index].tolist(), strict=True)),
            "flow_stats": worlds.flow_stats[index, : len(worlds.flow_names(index))].copy(),
            "link_stats": worlds.link_stats[index].copy(),
        }

    def render(self, index: int) -> NDArray[np.uint8] | None:
        """A picture of an environment's run so far; None without a render mode."""
        if self._options.render_mode is None:
            return None
        history = self._histories[index]
        if history is None:
            raise ResetNeeded("call reset() first: no run has begun")
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

    # ---- details -----------------------------------------------------------------------------------------------

    def _worlds(self) -> VectorWorld:
        if self.worlds is None:
            raise ResetNeeded("call reset() first: no run has begun")
        return self.worlds

    def _courses_or_draws(self, scenario: Source | Draw | Sequence[Source | Draw]) -> list[Course | Draw]:
        """Of each environment."""
        several: list[Any] = list(scenario) if is_sequence(scenario) else [scenario]
        if is_sequence(scenario) and len(several) != self._n:
            raise ConfigError(f"scenario: {len(several)} for {self._n} environments, allowed are one or one for each")
        given: list[Course | Draw] = []
        for source in several:
            one = load_distribution(source) if is_distribution(source) else source
            given.append(one if callable(one) else Course.of(one, self._options.variant))
        return given if len(given) == self._n else given * self._n

    def _needs(self, given: Sequence[Course | Draw]) -> list[tuple[str, int]]:
        """Names of scenarios and draws, and how many learner flows they have at most, as far as can be told."""
        needs = []
        for one in {id(one): one for one in given}.values():
            most = getattr(one, "max_learners", None)
            if most is None:
                course = Course.of(one(_DRAW_WHEN_MADE), self._options.variant) if callable(one) else one
                needs.append((course.scenario.name, len(course.learners)))
            else:
                needs.append((str(getattr(one, "name", one)), int(most)))
        return needs

    def _check_room(self, needs: Sequence[tuple[str, int]]) -> None:
        for name, learners in needs:
            if learners > self.max_learners:
                raise ConfigError(
                    f"scenario {name!r} has up to {learners} flows with role learner, this environment was made for "
                    f"at most {self.max_learners}: make one with max_learners={learners}"
                )

    def _drawn(self, draw: Draw, seed: int) -> Course:
        course = Course.of(draw(seed), self._options.variant)
        self._check_room([(course.scenario.name, len(course.learners))])
        return course

    def _left_aside(self, actions: Move, begin: Sequence[int]) -> Move:
        """The actions with harmless ones in place of those that do not count."""
        counting = np.array(actions)
        counting[begin] = self.control.default
        return counting

    def _act(self, actions: Move, mask: Flags | None) -> None:
        """Sets the tunables and runs."""
        worlds = self._worlds()
        self._values, self._settings = self.control.settle(actions, self._settings)
        self._slots.write(worlds, self._values)
        try:
            worlds.advance(self._options.control_interval_s, mask)
        except WorldError:
            self._is_running[:] = False
            raise

    def _begin(self, indices: Sequence[int], seeds: Sequence[int]) -> None:
        """Begins runs."""
        self._is_running[indices] = False
        checked = [check_seed(seed) for seed in seeds]
        given = [self._given[index] for index in indices]
        courses = [
            course if isinstance(course, Course) else self._drawn(course, seed)
            for course, seed in zip(given, checked, strict=True)
        ]
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
        if self._found_for is not self._worlds().tunables:
            self._slots.find(self._worlds())
            self._found_for = self._worlds().tunables
        self._is_running[indices] = True

    def _take_course(self, index: int, course: Course) -> None:
        """What the rest needs to know of an environment's scenario."""
        if self._courses[index] is not course:
            self._courses[index] = course
            self._names[index] = course.scenario.name
            self._slots.take(index, course, self._worlds())
        if course.start is None:
            values = self._slots.values(self._worlds(), index, course)
            course.start = (values, self.action.actions(values))
        values, actions = course.start
        self._values[index], self._settings[index] = values[0], actions[0]

    def _make_worlds(self, indices: Sequence[int], courses: Sequence[Course], seeds: Sequence[int]) -> None:
        if len(indices) < self._n:
            raise ResetNeeded("call reset() first: no run has begun")
        self.worlds = make_vector_world(
            self._options.world,
            self._n,
            [course.scenario for course in courses],
            seeds,
            flow_capacity=self._options.flow_capacity,
            threads=self._options.threads,
            isolation=self._options.isolation,
            timeout_s=self._options.timeout_s,
        )
        self._places = {name: place for place, name in enumerate(self.worlds.flow_fields)}

    def _view(self, learners: Table, settings: Action, is_there: Flags | None) -> Observation:
        return self.observation.view(self._worlds().flow_fields, learners, settings, is_there)

    def _interval(self, learners: Table, moved: Action) -> Interval:
        worlds = self._worlds()
        by_flow = learners.reshape(len(learners), self._slots.count, self._n)
        return Interval(
            learners=_Rows(self._places, by_flow),
            flows=_Rows(self._places, worlds.flow_stats.T),
            base_rtt_ms=self._slots.base_rtt_ms,
            moved=moved,
        )

    def _new_history(self, index: int) -> History:
        worlds = self._worlds()
        scenario = worlds.scenarios[index]
        title = f"{scenario.name}, {self._options.variant}, seed {self._seeds[index]}"
        return History(title, scenario.duration_s, worlds.flow_names(index), self.action.names)

    def _remember(self, mask: Flags | None) -> None:
        worlds = self._worlds()
        for index in range(self._n) if mask is None else np.flatnonzero(mask).tolist():
            history = self._histories[index]
            if history is not None:
                stats = worlds.flow_stats[index, : len(worlds.flow_names(index))]
                flows = dict(zip(worlds.flow_fields, stats.T, strict=True))
                link = dict(zip(worlds.link_fields, worlds.link_stats[index].tolist(), strict=True))
                history.add(float(worlds.now_s[index]), flows, link, (self._settings[index] + 1.0) / 2.0)


class Generators:
    """One for each of N environments, from which the seeds of its runs are drawn."""

    def __init__(self, num_envs: int) -> None:
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._seeds = [-1] * num_envs

    def all(self) -> tuple[np.random.Generator, ...]:
        """Of each environment."""
        return tuple(self._of(index, None) for index in range(len(self._generators)))

    def seeds(self) -> tuple[int, ...]:
        """What each was seeded with."""
        self.all()
        return tuple(self._seeds)

    def runs(self, indices: Sequence[int], seeds: Sequence[int | None]) -> list[int]:
        """Seeds of the environments' next runs: the given one, which seeds the generator too, or else one drawn."""
        pairs = [(self._of(index, seed), seed) for index, seed in zip(indices, seeds, strict=True)]
        return [draw_seed(generator) if seed is None else seed for generator, seed in pairs]

    def _of(self, index: int, seed: int | None) -> np.random.Generator:
        generator = self._generators[index]
        if generator is None or seed is not None:
            generator, self._seeds[index] = seeding.np_random(seed)
            self._generators[index] = generator
        return generator


def draw_seed(generator: np.random.Generator) -> int:
    """The seed of a run that was given none."""
    return int(generator.integers(_SEEDS))
