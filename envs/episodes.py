# SPDX-License-Identifier: GPL-2.0-only
"""N episodes side by side, whoever acts: scenarios, worlds, measurements and infos."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from numpy.typing import NDArray

from bbrgym.envs.action import ActionMapping, ActType
from bbrgym.envs.counted_flows import CountedFlows
from bbrgym.envs.critic import CriticObservation
from bbrgym.envs.episode_spec import EpisodeSource, EpisodeSpec, episode_sources, names_and_tuned
from bbrgym.envs.features import Observation
from bbrgym.envs.infos import numbers_of
from bbrgym.envs.library import load_library
from bbrgym.envs.memory import FlowMemory
from bbrgym.envs.observation import FrameStack, SenderObservation
from bbrgym.envs.options import Options
from bbrgym.envs.render import History
from bbrgym.envs.reward import Reward
from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.envs.smoothing import ExponentialMeans
from bbrgym.envs.terms import StepTerms, TermInputs, by_field
from bbrgym.envs.tuned_flows import TunedFlows
from bbrgym.errors import ConfigError, check_matplotlib
from bbrgym.schema import argument, shown
from bbrgym.worlds import (
    TUNABLE_COLUMNS,
    Flags,
    LateRunError,
    Snapshot,
    Table,
    VectorWorld,
    WorldError,
    check_seed,
    make_vector_world,
)

_LOG = logging.getLogger(__name__)

RESET_FIRST = "call reset() first: no episode has begun, or it has ended"
_CLOSED = "the environment is closed: make another one"


@dataclass(frozen=True)
class EpisodeSnapshot:
    """An episode at one moment, from `save` for `restore`; does not change while the episode goes on.

    It can be pickled for other processes, see `bbrgym.worlds.Snapshot`, if its scenario can.
    """

    world: Snapshot  # the simulation
    options: Mapping[str, Any]  # arguments of the environment that shape an observation or an action, by name
    spec: EpisodeSpec  # the scenario
    is_running: bool  # whether the episode goes on
    arrays: Sequence[NDArray[Any]]  # memory, observations and tunables of the environment


class Episodes(ABC):
    """N episodes side by side.

    A derived class says who acts: one controller for each episode (`TuneBatch`), or one for each tuned flow
    (`FlowBatch`). Every computation is one over all episodes, and gives each of them what it would get alone, bit for
    bit.

    A method raises ConfigError or ScenarioError if an argument is not allowed, ResetNeeded where no episode has begun
    or one has ended, ClosedEnvironmentError after `close`, and WorldError if a world broke.

    Args:
        num_envs: N.
        options: arguments of all environments.
        has_equal_capacity: whether all environments can have equally many tuned flows; or, unless
            `options.max_tuned` is given, each as many as its own scenarios need.
    """

    # whether an episode in real time that was late raises an error at its end, as its score needs; or it ends like any
    # other and the log says so, since its steps have been learnt from. Default: no
    refuses_late = False
    observation: SenderObservation  # mapping from measurements to observations of the senders
    observation_space: spaces.Space[Any]  # space of an environment's observations, or of an agent's in it
    _stack: FrameStack
    _memory: FlowMemory
    _inputs: TermInputs  # of the last interval's rewards, once there was one

    def __init__(self, num_envs: int, options: Options, *, has_equal_capacity: bool = True) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs: {num_envs}, allowed are numbers from 1")
        self.num_envs = num_envs
        self._options = options
        library = None if options.library is None else load_library(options.library, options.variant)
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
        self._sources = episode_sources(options.scenario, num_envs, options.variant, options.world)
        needs = names_and_tuned(self._sources, options.variant)
        # largest number of tuned flows in an environment
        self.max_tuned = options.max_tuned or max(tuned for _, tuned in needs)
        is_equal = has_equal_capacity or options.max_tuned is not None
        # the same for each environment, [N]
        self.tuned_capacity = [self.max_tuned if is_equal else tuned for _, tuned in needs]
        for index, (name, tuned) in enumerate(needs):
            self._check_capacity(index, name, tuned)
        # mapping from measurements to the privileged observation
        self.critic = CriticObservation(self.max_tuned, "pooled" if options.view == "pooled" else "each")
        self._reward = Reward(options.reward)
        self._tuned = TunedFlows(num_envs, self.max_tuned, [TUNABLE_COLUMNS[name] for name in self.scaling.names])
        # flows that the network's score counts; None where the tuned ones are rewarded alone
        self._counted = CountedFlows(num_envs) if options.rewards_network else None
        rewarded = self.max_tuned if self._counted is None else 0
        self._smoothing = (
            None
            if options.reward_horizon_s is None
            else ExponentialMeans(
                VectorWorld.flow_fields, options.reward_horizon_s, options.control_interval_s, (rewarded, num_envs)
            )
        )
        self.worlds: VectorWorld | None = None  # simulations, from the first reset on
        self._is_closed = False
        self._is_running: Flags = np.zeros(num_envs, np.bool_)
        self._seeds = np.zeros(num_envs, np.int64)
        self._names = np.full(num_envs, None, object)
        self._specs: list[EpisodeSpec | None] = [None] * num_envs
        self._located_in: Table | None = None  # the worlds' array in which the tuned flows have been located
        self._histories: list[History | None] = [None] * num_envs
        self._intervals_left = 0  # of the action that is held
        self._acts: Flags = np.zeros(num_envs, np.bool_)  # environments in which it is held
        self._step_terms = StepTerms()
        self._steps = np.zeros(num_envs, np.int64)  # of each episode so far

    # ---- for environments --------------------------------------------------------------------------------------

    @abstractmethod
    def reset(self, indices: Sequence[int], seeds: Sequence[int]) -> Any:
        """Begin episodes in some environments and return the observations of all."""

    @abstractmethod
    def act(self, actions: ActType) -> None:
        """Set the tunables and run for the first control interval of a step; see the derived class."""

    def simulate(self, *arguments: Any) -> None:
        """Run for all control intervals of a step: `act` with these arguments, then `hold` while the action lasts."""
        self.act(*arguments)
        while self.is_holding:
            self.hold()

    def set_options(self, options: Mapping[str, Any], indices: Sequence[int]) -> None:
        """Take the options of a reset: `scenario`, as for `TuneEnv`, for the next episodes of some environments.

        Raises:
            ConfigError: another option, or a scenario with too many tuned flows; nothing has changed then.
        """
        if not isinstance(options, Mapping):
            raise ConfigError(f"reset options: {shown(options)}, allowed is a mapping with scenario")
        unknown = set(options) - {"scenario"}
        if unknown:
            raise ConfigError(f"reset options: {sorted(map(str, unknown))}, allowed is scenario")
        if "scenario" in options:
            sources = episode_sources(options["scenario"], self.num_envs, self._options.variant, self._options.world)
            needs = names_and_tuned(sources, self._options.variant)
            for index in indices:
                self._check_capacity(index, *needs[index])
            for index in indices:
                self._sources[index] = sources[index]

    @property
    def has_been_used(self) -> bool:
        """Return whether the worlds have been made or closed."""
        return self._is_closed or self.worlds is not None

    @property
    def has_ended(self) -> Flags:
        """Environments whose episode has ended, or has not begun: [N], the caller's own."""
        return ~self._is_running

    def end_after(self, steps: int) -> None:
        """End the episodes that have had so many steps."""
        self._is_running &= self._steps < steps

    def info(self) -> dict[str, Any]:
        """Return the privileged state of all environments, in arrays that are the caller's own; see `TuneEnv`."""
        worlds = self._open_worlds()
        return {
            "now_s": worlds.now_s.copy(),
            "scenario": self._names.copy(),
            "seed": self._seeds.copy(),
            "flow_stats": self._shown(worlds.flow_stats),
            "link_stats": worlds.link_stats.copy(),
        }

    def info_of(self, index: int) -> dict[str, Any]:
        """Return the privileged state of one environment, as if alone."""
        return self.as_asked(self._state_of(index))

    def as_asked(self, info: dict[str, Any], no_reward: Any = 0.0) -> dict[str, Any]:
        """Return an info with the numbers alone, if these are asked for.

        Args:
            info: of one environment or of all.
            no_reward: each of its reward terms if it has none.
        """
        if not self._options.numeric_infos:
            return info
        return numbers_of(info if "reward_terms" in info else {**info, "reward_terms": self._terms_of(no_reward)})

    def _terms_of(self, value: Any) -> dict[str, Any]:
        return dict.fromkeys(self._reward.weights, value)

    def _shown(self, flow_stats: Table) -> Table:
        """Return measurements of flows for an info, the caller's own; infos of numbers have 0 beyond the flows."""
        if not self._options.numeric_infos:
            return flow_stats.copy()
        return np.where(np.isnan(flow_stats[..., :1]), 0.0, flow_stats)

    def _state_of(self, index: int) -> dict[str, Any]:
        """Return the privileged state of one environment; infos of numbers have all rows, so that no shape changes."""
        worlds = self._open_worlds()
        rows = worlds.flow_capacity if self._options.numeric_infos else len(worlds.flow_names(index))
        return {
            "now_s": float(worlds.now_s[index]),
            "scenario": self._names[index],
            "seed": int(self._seeds[index]),
            "flow_stats": self._shown(worlds.flow_stats[index, :rows]),
            "link_stats": worlds.link_stats[index].copy(),
        }

    def observe_privileged(self) -> Observation:
        """Return the privileged observation of each environment, [N, numbers], the caller's own."""
        worlds, tuned = self._open_worlds(), self._tuned
        flows = tuned.stats(worlds)
        return self.critic.view(
            worlds.link_fields,
            worlds.link_stats,
            worlds.flow_fields,
            flows,
            tuned.base_rtt_ms,
            tuned.presence(),
        )

    def render(self, index: int) -> NDArray[np.uint8] | None:
        """Return an RGB image [720, 960, 3] of an episode so far; None without a render mode."""
        if self._options.render_mode is None:
            return None
        check_matplotlib("render()")
        history = self._histories[index]
        if history is None:
            raise ResetNeeded(RESET_FIRST)
        return history.draw()

    def close(self) -> None:
        """End the worlds for good; may be called again."""
        self._is_closed = True
        self._is_running[:] = False
        if self.worlds is not None:
            self.worlds.close()
            self.worlds = None

    def save(self, index: int) -> EpisodeSnapshot:
        """Return a snapshot of an environment's episode, for any number of `restore` calls."""
        worlds, index = self._open_worlds(), self._index(index)
        spec = self._specs[index]
        if spec is None:
            raise ResetNeeded(RESET_FIRST)
        arrays = [array[index].copy() for array in self._arrays()]
        return EpisodeSnapshot(worlds.save(index), self._shaping(), spec, bool(self._is_running[index]), arrays)

    def restore(self, index: int, snapshot: EpisodeSnapshot) -> None:
        """Continue an environment's episode from a snapshot of any with equal arguments, bit for bit.

        The scenario and the seed are the snapshot's, `observe` gives its observation. Pictures show the environment's
        own intervals.

        Raises:
            ConfigError: the snapshot is of other arguments, or the world cannot be restored; nothing has changed then.
            ResetNeeded, ClosedEnvironmentError: no episode has begun yet, or the environment is closed.
        """
        worlds, index = self._open_worlds(), self._index(index)
        if not isinstance(snapshot, EpisodeSnapshot):
            raise ConfigError(f"snapshot: {shown(snapshot)}, allowed is what save() returned")
        for (name, own), other in zip(self._shaping().items(), snapshot.options.values(), strict=True):
            if own != other:
                raise ConfigError(f"snapshot: of an environment with {name} {other!r}, allowed is {own!r}")
        worlds.restore(index, snapshot.world)
        self._reserve()
        if self._specs[index] is not snapshot.spec:
            self._assign(index, snapshot.spec)
        self._locate()
        self._seeds[index] = snapshot.world.seed
        self._is_running[index] = snapshot.is_running
        for array, saved in zip(self._arrays(), snapshot.arrays, strict=True):
            if saved.shape == array.shape[1:]:
                array[index] = saved
            else:  # smoothed rewards, of worlds with room for another number of flows
                room = min(saved.shape[-1], array.shape[-1])
                array[index] = 0.0
                array[index, ..., :room] = saved[..., :room]

    def _index(self, index: Any) -> int:
        return int(argument("environment", index, int, f"are 0 to {self.num_envs - 1}", 0, self.num_envs - 1))

    @property
    def is_holding(self) -> bool:
        """Return whether the last action has control intervals left, in an environment whose episode goes on."""
        return self._intervals_left > 0 and bool(self._held().any())

    def hold(self) -> None:
        """Run for another control interval of the last action, where the episode goes on."""
        mask = self._held()
        self._advance(mask)
        self._intervals_left -= 1
        others = np.flatnonzero(~mask)
        kept = [array[others] for array in self._arrays()] if len(others) else []
        self._measure_held()
        for array, former in zip(self._arrays(), kept, strict=False):
            array[others] = former
        self._count_terms(mask)
        self._record(mask)

    # ---- for derived classes: begin and advance ----------------------------------------------------------------

    def _open_worlds(self) -> VectorWorld:
        """Return the worlds."""
        if self._is_closed:
            raise ClosedEnvironmentError(_CLOSED)
        if self.worlds is None:
            raise ResetNeeded(RESET_FIRST)
        return self.worlds

    def check_running(self, mask: Flags | None = None) -> None:
        """Refuse to act in environments, [N] (default: all), where no episode runs."""
        self._open_worlds()
        if not (self._is_running if mask is None else self._is_running[mask]).all():
            raise ResetNeeded(RESET_FIRST)

    def _begin(self, indices: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin episodes with these seeds in some environments."""
        if self._is_closed:
            raise ClosedEnvironmentError(_CLOSED)
        self._is_running[indices] = False
        checked = [check_seed(seed) for seed in seeds]
        specs = [self._spec_of(index, seed) for index, seed in zip(indices, checked, strict=True)]
        self._start_worlds(indices, specs, checked)
        self._reserve()
        for index, spec, seed in zip(indices, specs, checked, strict=True):
            self._seeds[index] = seed
            self._adopt(index, spec)
            if self._options.render_mode is not None:
                self._histories[index] = self._new_history(index)
        if self._smoothing is not None:
            self._smoothing.reset(indices)
        self._memory.reset(indices)
        self._steps[indices] = 0
        self._acts[indices] = False  # their last action was of an episode that is over
        self._locate()
        self._is_running[indices] = True

    def _reserve(self) -> None:
        """Make room for the flows of the worlds that are rewarded."""
        if self._counted is not None:
            count = self._open_worlds().flow_capacity
            self._counted.reserve(count)
            if self._smoothing is not None:
                self._smoothing.reserve(count)

    def _assign(self, index: int, spec: EpisodeSpec) -> None:
        """Take the flows of another scenario into an environment."""
        self._specs[index] = spec
        self._names[index] = spec.scenario.name
        self._tuned.assign(index, spec, self._open_worlds())
        if self._counted is not None:
            self._counted.assign(index, spec)

    def _locate(self) -> None:
        """Find the tuned flows again if the worlds' arrays have been laid out again."""
        worlds = self._open_worlds()
        if self._located_in is not worlds.tunables:
            self._tuned.locate(worlds)
            self._located_in = worlds.tunables

    def _arrays(self) -> list[NDArray[Any]]:
        """Return what an environment keeps from one interval to the next, [N, ...] each."""
        smoothing = [] if self._smoothing is None else self._smoothing.arrays()
        return [self._steps, *self._memory.arrays(), *smoothing]

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
            "hold_intervals": options.hold_intervals,
            "reward_horizon_s": options.reward_horizon_s,
            "score": options.score,
        }

    def _adopt(self, index: int, spec: EpisodeSpec) -> tuple[Table, NormalisedAction]:
        """Prepare an environment for the scenario of a new episode.

        Returns:
            Values of the tunables that its tuned flows start with, and their normalised action, [tuned flows, tunables]
            both.
        """
        if self._specs[index] is not spec:
            self._assign(index, spec)
        if spec.start is None:
            values = self._tuned.values(self._open_worlds(), index, spec)
            spec.start = (values, self.scaling.normalised(values))
        return spec.start

    def _advance(self, mask: Flags | None = None) -> None:
        """Run worlds, [N] (default: all), for a control interval; end episodes whose scenario is over.

        Raises:
            WorldError: a world broke, or was late where that is refused; all episodes have ended then.
        """
        worlds = self._open_worlds()
        try:
            worlds.advance(self._options.control_interval_s, mask)
        except WorldError as error:
            if self.refuses_late or not isinstance(error, LateRunError):
                self._is_running[:] = False
                raise
            for late in (str(error), *getattr(error, "__notes__", ())):
                _LOG.warning("%s; the episode is truncated here, its steps count", late)
        self._is_running &= ~worlds.done

    # ---- for derived classes: measure --------------------------------------------------------------------------

    @abstractmethod
    def _measure_held(self) -> None:
        """Take an interval in which the former action was held into the rewards' inputs and the observations."""

    def _held(self) -> Flags:
        """Return the environments whose last action is still held, [N]."""
        held: Flags = self._is_running & self._acts
        return held

    def _begin_step(self, acts: Flags | None) -> None:
        """Begin a step of environments, [N] (None: all), whose first interval has been measured."""
        self._steps[slice(None) if acts is None else acts] += 1
        self._intervals_left = self._options.hold_intervals - 1
        if self._intervals_left:
            self._acts = np.ones(self.num_envs, np.bool_) if acts is None else acts.copy()
            self._step_terms = StepTerms()
            self._count_terms(self._acts)

    def _count_terms(self, mask: Flags) -> None:
        """Add the reward terms of an interval, in which environments ran, [N], to those of the step."""
        self._step_terms.add(self._reward.terms(self._inputs), mask)

    def _terms_of_step(self) -> dict[str, Table]:
        """Return the reward terms of the last step, means over the step's intervals."""
        held = self._options.hold_intervals > 1
        return self._step_terms.means() if held else self._reward.terms(self._inputs)

    def _new_memory(self) -> FlowMemory:
        """Return what the observation's features remember, of no interval."""
        return FlowMemory(
            self.observation.memory_terms,
            VectorWorld.flow_fields,
            self._options.control_interval_s,
            (self.max_tuned, self.num_envs),
        )

    def _rewarded_stats(self, stats: Table, starting: Sequence[int] = ()) -> Table:
        """Return the measurements that rewards are computed from, smoothed if asked for: [fields, flows, N].

        Args:
            stats: measurements of the tuned flows in the interval, [fields, L * N].
            starting: environments whose episode starts.
        """
        by_flow = (
            stats.reshape(len(stats), self._tuned.count, self.num_envs)
            if self._counted is None
            else self._counted.stats(self._open_worlds())
        )
        if self._smoothing is not None:
            by_flow = self._smoothing.update(by_flow)
            self._smoothing.reset(starting)
        return by_flow

    def _inputs_of_all(self, stats: Table, change: NormalisedAction, starting: Sequence[int] = ()) -> TermInputs:
        """Return what the terms of N environments are computed from; ``change`` is [N, tunables]."""
        counted = self._counted
        return TermInputs(
            counted=by_field(self._rewarded_stats(stats, starting)),
            flows=by_field(self._open_worlds().flow_stats.T),
            base_rtt_ms=self._tuned.base_rtt_ms if counted is None else counted.base_rtt_ms,
            change=change,
            most_share=None if counted is None else counted.most_share,
        )

    @abstractmethod
    def _normalised_of(self, index: int) -> Mapping[str, float]:
        """Return the normalised current tunables of an environment, by the names that a picture shows."""

    def _record(self, mask: Flags | None = None) -> None:
        """Keep the last interval of environments that ran, [N] (default: all), if pictures are asked for."""
        if self._options.render_mode is None:
            return
        worlds = self._open_worlds()
        for index in range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist():
            history = self._histories[index]
            if history is not None:
                stats = worlds.flow_stats[index, : len(worlds.flow_names(index))]
                flows = dict(zip(worlds.flow_fields, stats.T, strict=True))
                link = dict(zip(worlds.link_fields, worlds.link_stats[index].tolist(), strict=True))
                normalised = np.array(list(self._normalised_of(index).values()))
                history.add(float(worlds.now_s[index]), flows, link, (normalised + 1.0) / 2.0)

    # ---- details -----------------------------------------------------------------------------------------------

    def _spec_of(self, index: int, seed: int) -> EpisodeSpec:
        source: EpisodeSource = self._sources[index]
        spec = source if isinstance(source, EpisodeSpec) else EpisodeSpec.of(source(seed), self._options.variant)
        self._check_capacity(index, spec.scenario.name, len(spec.tuned))
        return spec

    def _check_capacity(self, index: int, name: str, tuned: int) -> None:
        if tuned > self.tuned_capacity[index]:
            raise ConfigError(
                f"scenario {name!r} has up to {tuned} flows with role tuned, this environment was made for "
                f"at most {self.tuned_capacity[index]}: make one with max_tuned={tuned}"
            )

    def _start_worlds(self, indices: Sequence[int], specs: Sequence[EpisodeSpec], seeds: Sequence[int]) -> None:
        """Make the worlds, or reset some."""
        if self.worlds is not None:
            self.worlds.reserve(max(spec.flows for spec in specs))
            for index, spec, seed in zip(indices, specs, seeds, strict=True):
                is_same = self.worlds.scenarios[index] is spec.scenario
                self.worlds.reset(index, None if is_same else spec.scenario, seed)
            return
        if len(indices) < self.num_envs:
            raise ResetNeeded(RESET_FIRST)
        self.worlds = make_vector_world(
            self._options.world,
            self.num_envs,
            [spec.scenario for spec in specs],
            seeds,
            flow_capacity=self._flow_capacity(),
            threads=self._options.threads,
            isolation=self._options.isolation,
            timeout_s=self._options.timeout_s,
            options=self._options.world_options,
        )

    def _flow_capacity(self) -> int | None:
        """Return the largest number of flows to make room for; infos of numbers have a row per flow."""
        if self._options.flow_capacity is not None or not self._options.numeric_infos:
            return self._options.flow_capacity
        flows = [one.flows if isinstance(one, EpisodeSpec) else getattr(one, "max_flows", 0) for one in self._sources]
        return max(flows) or None

    def _new_history(self, index: int) -> History:
        worlds = self._open_worlds()
        scenario = worlds.scenarios[index]
        title = f"{scenario.name}, {self._options.variant}, seed {self._seeds[index]}"
        return History(title, scenario.duration_s, worlds.flow_names(index), list(self._normalised_of(index)))
