# SPDX-License-Identifier: GPL-2.0-only
"""N environments in arrays: what `TuneEnv` (N = 1), `TuneVectorEnv` and the one for Stable-Baselines3 share.

Every computation is one over all N, and gives each environment what it would get alone, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from numpy.typing import NDArray

from bbrgym.distribution import is_distribution, load_distribution
from bbrgym.envs.action import Action, TunablesAction
from bbrgym.envs.observation import Observation, SenderObservation, Stack
from bbrgym.envs.render import History
from bbrgym.envs.reward import Interval, Reward
from bbrgym.errors import ConfigError
from bbrgym.scenario import Scenario
from bbrgym.scenario_files import Source, is_sequence, load_scenario, with_variant
from bbrgym.worlds import Isolation, Table, VectorWorld, WorldError, make_vector_world
from bbrgym.worlds.world import TUNABLE_COLUMNS, check_seed

Draw: TypeAlias = Callable[[int], Source]
"""Draws the scenario of a run from the run's seed; the same seed must give the same scenario."""

Flags: TypeAlias = NDArray[np.bool_]

_SEEDS = 2**31
_DRAW_WHEN_MADE = 0  # the seed of the drawn scenario that tells how many learner flows there are


@dataclass(frozen=True)
class Options:
    """The arguments that all environments share; see `TuneEnv`."""

    world: str = "ns3"
    scenario: Source | Draw | Sequence[Source | Draw] = "steady"
    variant: str = "bbq"
    tunables: Sequence[str] | None = None
    control_interval_s: float = 0.1
    features: Sequence[str] | None = None
    stack: int = 1
    reward_weights: Mapping[str, float] | None = None
    isolation: Isolation | None = None
    timeout_s: float = 60.0
    render_mode: str | None = None
    flow_capacity: int | None = None
    threads: int | None = None


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


@dataclass
class _Course:
    """A scenario as an environment runs it.

    Attributes:
        scenario: with the variant in its learner flows.
        learners: their indices.
        base_rtt_ms: theirs.
        flows: how many there are in all.
        start: values and action of the setting that it starts with, once it has been started.
    """

    scenario: Scenario
    learners: NDArray[np.intp]
    base_rtt_ms: Table
    flows: int
    start: tuple[Table, Action] | None = None

    @classmethod
    def of(cls, source: Source, variant: str) -> _Course:
        scenario = with_variant(load_scenario(source), variant)
        flows = scenario.resolved().flows
        learners = np.array([i for i, flow in enumerate(flows) if flow.role == "learner"], np.intp)
        if not len(learners):
            raise ConfigError(f"scenario {scenario.name!r} has no flow with role learner: nothing would be controlled")
        return cls(scenario, learners, np.array([flows[i].rtt_ms for i in learners]), len(flows))


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
        action: from actions to tunables.
        observation: from measurements to observations.
        worlds: where they run, from the first reset on.
    """

    def __init__(self, num_envs: int, options: Options) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs: {num_envs}, allowed are numbers from 1")
        if not 0.0 < options.control_interval_s < math.inf:
            raise ConfigError(f"control_interval_s: {options.control_interval_s}, allowed is a finite number above 0")
        if options.render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode: {options.render_mode!r}, allowed are None and 'rgb_array'")
        self._n = num_envs
        self._options = options
        self.action = TunablesAction(options.variant, options.tunables)
        self._reward = Reward(options.reward_weights)
        self._learners = 0  # the first course says how many
        self._given = self._courses_or_draws(options.scenario)
        tunables = len(self.action.names)
        self.observation = SenderObservation(self._learners, tunables, options.features, options.stack)
        self._columns = np.array([TUNABLE_COLUMNS[name] for name in self.action.names], np.intp)
        self.worlds: VectorWorld | None = None
        self._is_running = np.zeros(num_envs, np.bool_)
        self._stack = Stack(num_envs, self.observation)
        self._settings = np.zeros((num_envs, tunables), np.float32)
        self._values = np.zeros((num_envs, tunables))
        self._seeds = np.zeros(num_envs, np.int64)
        self._names = np.full(num_envs, None, object)
        self._learner_flows = np.zeros((num_envs, self._learners), np.intp)
        self._courses: list[_Course | None] = [None] * num_envs
        self._base_rtt_ms = np.ones((self._learners, num_envs))
        self._rows = np.zeros((self._learners, num_envs), np.intp)  # of the flows, in flow_stats
        self._cells = np.zeros((num_envs, self._learners, tunables), np.intp)  # of their tunables, in all tunables
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
            for index in indices:
                self._given[index] = given[index]

    def reset(self, indices: Sequence[int], seeds: Sequence[int]) -> Observation:
        """Begins runs with these seeds; the observations of all environments."""
        self._begin(indices, seeds)
        self._stack.begin(indices, self._view(self._learner_stats(indices), self._settings[indices]))
        return self._stack.observations()

    def step(self, actions: Action, begin: Sequence[int] = (), seeds: Sequence[int] = ()) -> Step:
        """Sets the tunables and runs for a control interval; or begins a run.

        Args:
            actions: [N, tunables].
            begin: environments that begin a run instead; their actions are left aside, their rewards and terms are 0.
            seeds: of these runs.
        """
        mask = None
        if len(begin):
            mask = np.ones(self._n, np.bool_)
            mask[begin] = False
        if self.worlds is None or not (self._is_running if mask is None else self._is_running[mask]).all():
            raise ResetNeeded("call reset() first: no run has begun, or it has ended")
        if np.shape(actions) != self._settings.shape:
            raise self.action.refusal(actions)
        previous = self._settings
        if len(begin) < self._n:
            self._act(actions if mask is None else np.where(mask[:, None], actions, previous), mask)
        if len(begin):
            self._begin(begin, seeds)
        truncated = self.worlds.done.copy()
        self._is_running &= ~truncated
        learners = self._learner_stats()
        terms = self._reward.terms(self._interval(learners, np.abs(self._settings - previous)))
        rewards = self._reward.total(terms)
        if mask is not None:
            has_begun = ~mask
            for numbers in (rewards, *terms.values()):
                np.copyto(numbers, 0.0, where=has_begun)
        if self._options.render_mode is not None:
            self._remember(mask)
        view = self._view(learners, self._settings)
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

    def _courses_or_draws(self, scenario: Source | Draw | Sequence[Source | Draw]) -> list[_Course | Draw]:
        """Of each environment. The first one ever says how many learner flows there are."""
        several: list[Any] = list(scenario) if is_sequence(scenario) else [scenario]
        if is_sequence(scenario) and len(several) != self._n:
            raise ConfigError(f"scenario: {len(several)} for {self._n} environments, allowed are one or one for each")
        given: list[_Course | Draw] = []
        for source in several:
            one = load_distribution(source) if is_distribution(source) else source
            course = self._course(one(_DRAW_WHEN_MADE) if callable(one) else one)
            given.append(one if callable(one) else course)
        return given if len(given) == self._n else given * self._n

    def _course(self, source: Source) -> _Course:
        course = _Course.of(source, self._options.variant)
        self._learners = self._learners or len(course.learners)
        if len(course.learners) != self._learners:
            raise ConfigError(
                f"scenario {course.scenario.name!r} has {len(course.learners)} flows with role learner, this "
                f"environment was made for {self._learners}: make another one for it"
            )
        return course

    def _act(self, actions: Action, mask: Flags | None) -> None:
        """Sets the tunables and runs."""
        worlds = self._worlds()
        self._values, self._settings = self.action.settle(actions)
        every = np.repeat(self._values, self._learners, axis=0) if self._learners > 1 else self._values
        worlds.tunables.reshape(-1)[self._cells.reshape(-1)] = every.reshape(-1)
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
            course if isinstance(course, _Course) else self._course(course(seed))
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
            self._find_learners(slice(None))
            self._found_for = self._worlds().tunables
        self._is_running[indices] = True

    def _take_course(self, index: int, course: _Course) -> None:
        """What the rest needs to know of an environment's scenario."""
        if self._courses[index] is not course:
            self._courses[index] = course
            self._names[index] = course.scenario.name
            self._learner_flows[index] = course.learners
            self._base_rtt_ms[:, index] = course.base_rtt_ms
            self._find_learners(slice(index, index + 1))
        if course.start is None:
            values = self._worlds().tunables[index, course.learners[0], self._columns]
            course.start = (values, self.action.actions(values))
        self._values[index], self._settings[index] = course.start

    def _make_worlds(self, indices: Sequence[int], courses: Sequence[_Course], seeds: Sequence[int]) -> None:
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

    def _find_learners(self, envs: slice) -> None:
        """Where some environments' learner flows are in the worlds' arrays."""
        worlds = self._worlds()
        rows = self._learner_flows[envs] + worlds.flow_capacity * np.arange(self._n)[envs, None]
        self._rows[:, envs] = rows.T
        self._cells[envs] = (rows * len(worlds.tunable_names))[:, :, None] + self._columns

    def _learner_stats(self, indices: Sequence[int] | None = None) -> Table:
        """Measurements of the learner flows of (some of) the environments: [fields, learners * environments]."""
        stats = self._worlds().flow_stats
        rows = self._rows if indices is None else self._rows[:, indices]
        by_flow: Table = stats.reshape(-1, stats.shape[-1]).take(rows.ravel(), axis=0)
        return np.ascontiguousarray(by_flow.T)

    def _view(self, learners: Table, settings: Action) -> Observation:
        return self.observation.view(self._worlds().flow_fields, learners, settings)

    def _interval(self, learners: Table, moved: Action) -> Interval:
        worlds = self._worlds()
        by_flow = learners.reshape(len(learners), self._learners, self._n)
        return Interval(
            learners=_Rows(self._places, by_flow),
            flows=_Rows(self._places, worlds.flow_stats.T),
            base_rtt_ms=self._base_rtt_ms,
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
