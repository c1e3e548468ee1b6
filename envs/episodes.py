# SPDX-License-Identifier: GPL-2.0-only
"""N episodes side by side, whoever acts: scenarios, worlds, infos and pictures."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from numpy.typing import NDArray

from bbrgym.envs.counted_flows import CountedFlows
from bbrgym.envs.episode_spec import EpisodeSource, EpisodeSpec, episode_sources, names_and_tuned
from bbrgym.envs.options import Options
from bbrgym.envs.render import History
from bbrgym.envs.scaling import NormalisedAction, TunableScaling
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

_SRTT = VectorWorld.flow_fields.index("srtt_ms")

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


class Episodes:
    """N episodes side by side: what a batch runs and measures, whoever acts in them.

    A method raises ConfigError or ScenarioError if an argument is not allowed, ResetNeeded where no episode has begun
    or one has ended, ClosedEnvironmentError after `close`, and WorldError if a world broke.

    Args:
        num_envs: N.
        options: arguments of all environments.
        scaling: of the tunables that are set.
        is_per_flow: whether each tuned flow has its own tunables. Then environments have room for as many tuned flows
            as their own scenarios need, else all for equally many; or, both, for `options.max_tuned`.
    """

    # whether an episode in real time that was late raises an error at its end, as its score needs; or it ends like any
    # other and the log says so, since its steps have been learnt from. Default: no
    refuses_late = False

    def __init__(self, num_envs: int, options: Options, scaling: TunableScaling, *, is_per_flow: bool = False) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs: {num_envs}, allowed are numbers from 1")
        self.num_envs = num_envs
        self._options = options
        self._scaling = scaling
        self._is_per_flow = is_per_flow
        self._sources = episode_sources(options.scenario, num_envs, options.variant, options.world)
        needs = names_and_tuned(self._sources, options.variant)
        # largest number of tuned flows in an environment
        self.max_tuned = options.max_tuned or max(tuned for _, tuned in needs)
        is_equal = not is_per_flow or options.max_tuned is not None
        # the same for each environment, [N]
        self.tuned_capacity = [self.max_tuned if is_equal else tuned for _, tuned in needs]
        for index, (name, tuned) in enumerate(needs):
            self._check_capacity(index, name, tuned)
        self.tuned = TunedFlows(num_envs, self.max_tuned, [TUNABLE_COLUMNS[name] for name in scaling.names])
        # flows that the network's score counts; None where the tuned ones are rewarded alone
        self.counted = CountedFlows(num_envs) if options.rewards_network else None
        self.worlds: VectorWorld | None = None  # simulations, from the first reset on
        self._is_closed = False
        self.is_running: Flags = np.zeros(num_envs, np.bool_)
        self._seeds = np.zeros(num_envs, np.int64)
        self._names = np.full(num_envs, None, object)
        self._specs: list[EpisodeSpec | None] = [None] * num_envs
        self._located_in: Table | None = None  # the worlds' array in which the tuned flows have been located
        self._histories: list[History | None] = [None] * num_envs
        self.steps = np.zeros(num_envs, np.int64)  # of each episode so far

    # ---- for environments --------------------------------------------------------------------------------------

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
        return ~self.is_running

    def end_after(self, steps: int) -> None:
        """End the episodes that have had so many steps."""
        self.is_running &= self.steps < steps

    def info(self) -> dict[str, Any]:
        """Return the privileged state of all environments, in arrays that are the caller's own; see `TuneEnv`."""
        worlds = self.open_worlds()
        return {
            "now_s": worlds.now_s.copy(),
            "scenario": self._names.copy(),
            "seed": self._seeds.copy(),
            "flow_stats": self._shown(worlds.flow_stats),
            "link_stats": worlds.link_stats.copy(),
        }

    def _shown(self, flow_stats: Table) -> Table:
        """Return measurements of flows for an info, the caller's own; infos of numbers have 0 beyond the flows."""
        if not self._options.numeric_infos:
            return flow_stats.copy()
        return np.where(np.isnan(flow_stats[..., :1]), 0.0, flow_stats)

    def state_of(self, index: int) -> dict[str, Any]:
        """Return the privileged state of one environment; infos of numbers have all rows, so that no shape changes."""
        worlds = self.open_worlds()
        rows = worlds.flow_capacity if self._options.numeric_infos else len(worlds.flow_names(index))
        return {
            "now_s": float(worlds.now_s[index]),
            "scenario": self._names[index],
            "seed": int(self._seeds[index]),
            "flow_stats": self._shown(worlds.flow_stats[index, :rows]),
            "link_stats": worlds.link_stats[index].copy(),
        }

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
        self.is_running[:] = False
        if self.worlds is not None:
            self.worlds.close()
            self.worlds = None

    def save(self, index: int, options: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> EpisodeSnapshot:
        """Return a snapshot of an environment's episode, with the rows of a batch's arrays."""
        worlds, index = self.open_worlds(), self._index(index)
        spec = self._specs[index]
        if spec is None:
            raise ResetNeeded(RESET_FIRST)
        rows = [array[index].copy() for array in arrays]
        return EpisodeSnapshot(worlds.save(index), options, spec, bool(self.is_running[index]), rows)

    def restore(self, index: int, snapshot: EpisodeSnapshot, options: Mapping[str, Any]) -> int:
        """Continue an environment's episode from a snapshot of any with equal options; return the plain index."""
        worlds, index = self.open_worlds(), self._index(index)
        if not isinstance(snapshot, EpisodeSnapshot):
            raise ConfigError(f"snapshot: {shown(snapshot)}, allowed is what save() returned")
        for (name, own), other in zip(options.items(), snapshot.options.values(), strict=True):
            if own != other:
                raise ConfigError(f"snapshot: of an environment with {name} {other!r}, allowed is {own!r}")
        worlds.restore(index, snapshot.world)
        self._reserve()
        if self._specs[index] is not snapshot.spec:
            self._assign(index, snapshot.spec)
        self._locate()
        self._seeds[index] = snapshot.world.seed
        self.is_running[index] = snapshot.is_running
        return index

    def _index(self, index: Any) -> int:
        return int(argument("environment", index, int, f"are 0 to {self.num_envs - 1}", 0, self.num_envs - 1))

    # ---- for batches: begin and advance ------------------------------------------------------------------------

    def open_worlds(self) -> VectorWorld:
        """Return the worlds."""
        if self._is_closed:
            raise ClosedEnvironmentError(_CLOSED)
        if self.worlds is None:
            raise ResetNeeded(RESET_FIRST)
        return self.worlds

    def check_running(self, mask: Flags | None = None) -> None:
        """Refuse to act in environments, [N] (default: all), where no episode runs."""
        self.open_worlds()
        if not (self.is_running if mask is None else self.is_running[mask]).all():
            raise ResetNeeded(RESET_FIRST)

    def begin(self, indices: Sequence[int], seeds: Sequence[int]) -> list[tuple[Table, NormalisedAction]]:
        """Begin episodes with these seeds in some environments.

        Returns:
            For each of them the values of the tunables with which its tuned flows start, and their normalised action,
            [tuned flows, tunables] both.
        """
        if self._is_closed:
            raise ClosedEnvironmentError(_CLOSED)
        self.is_running[indices] = False
        checked = [check_seed(seed) for seed in seeds]
        specs = [self._spec_of(index, seed) for index, seed in zip(indices, checked, strict=True)]
        self._start_worlds(indices, specs, checked)
        self._reserve()
        starts = []
        for index, spec, seed in zip(indices, specs, checked, strict=True):
            self._seeds[index] = seed
            if self._specs[index] is not spec:
                self._assign(index, spec)
            if spec.start is None:
                values = self.tuned.values(self.open_worlds(), index, spec)
                spec.start = (values, self._scaling.normalised(values))
            starts.append(spec.start)
            if self._options.render_mode is not None:
                self._histories[index] = self._new_history(index)
        self.steps[indices] = 0
        self._locate()
        self.is_running[indices] = True
        return starts

    def _reserve(self) -> None:
        """Make room for the flows of the worlds that count."""
        if self.counted is not None:
            self.counted.reserve(self.open_worlds().flow_capacity)

    def _assign(self, index: int, spec: EpisodeSpec) -> None:
        """Take the flows of another scenario into an environment."""
        self._specs[index] = spec
        self._names[index] = spec.scenario.name
        self.tuned.assign(index, spec, self.open_worlds())
        if self.counted is not None:
            self.counted.assign(index, spec)

    def _locate(self) -> None:
        """Find the tuned flows again if the worlds' arrays have been laid out again."""
        worlds = self.open_worlds()
        if self._located_in is not worlds.tunables:
            self.tuned.locate(worlds)
            self._located_in = worlds.tunables

    def advance(self, mask: Flags | None = None) -> Table | None:
        """Run worlds, [N] (default: all), for a control interval; end episodes whose scenario is over.

        Returns:
            The seconds of each world's interval, [N], where intervals last round trips.

        Raises:
            WorldError: a world broke, or was late where that is refused; all episodes have ended then.
        """
        worlds, interval_s = self.open_worlds(), None
        try:
            if self._options.control_interval_rtts is None:
                worlds.advance(self._options.control_interval_s, mask)
            else:
                interval_s = self._round_trips_s(worlds, self._options.control_interval_rtts)
                worlds.advance(interval_s, mask)
        except WorldError as error:
            if self.refuses_late or not isinstance(error, LateRunError):
                self.is_running[:] = False
                raise
            for late in (str(error), *getattr(error, "__notes__", ())):
                _LOG.warning("%s; the episode is truncated here, its steps count", late)
        self.is_running &= ~worlds.done
        return interval_s

    def _round_trips_s(self, worlds: VectorWorld, rtts: float) -> Table:
        """Return so many of the longest RTT of each world's tuned flows, [N]: measured, or before that propagation's.

        They are whole microseconds.
        """
        rtt_ms = self.tuned.stats(worlds)[_SRTT].reshape(self.tuned.count, -1).max(axis=0)
        known_ms = np.where(rtt_ms > 0.0, rtt_ms, (self.tuned.base_rtt_ms * self.tuned.is_present).max(axis=0))
        seconds: Table = np.maximum(np.round(known_ms * 1e3 * rtts), 1.0) / 1e6
        return seconds

    def flow_names(self, index: int) -> tuple[str, ...]:
        """Return the names of the tuned flows of an environment's episode, in order."""
        spec = self._specs[index]
        return () if spec is None else spec.names

    def given_flow_names(self, index: int) -> tuple[str, ...] | None:
        """Return the names of the tuned flows in an environment's next episode; None if its scenario is drawn."""
        source = self._sources[index]
        return source.names if isinstance(source, EpisodeSpec) else None

    def record(self, normalised: NormalisedAction, mask: Flags | None = None) -> None:
        """Keep the last interval of environments that ran, [N] (default: all), if pictures are asked for.

        Args:
            normalised: current tunables, [N, tunables]; [N, L, tunables] if each flow has its own.
            mask: the environments.
        """
        if self._options.render_mode is None:
            return
        worlds = self.open_worlds()
        for index in range(self.num_envs) if mask is None else np.flatnonzero(mask).tolist():
            history = self._histories[index]
            if history is not None:
                stats = worlds.flow_stats[index, : len(worlds.flow_names(index))]
                flows = dict(zip(worlds.flow_fields, stats.T, strict=True))
                link = dict(zip(worlds.link_fields, worlds.link_stats[index].tolist(), strict=True))
                shown_tunables = normalised[index].ravel()[: len(self._tunable_names(index))].astype(np.float64)
                history.add(float(worlds.now_s[index]), flows, link, (shown_tunables + 1.0) / 2.0)

    def _tunable_names(self, index: int) -> list[str]:
        """Return the names of the tunables of an environment that a picture shows."""
        if not self._is_per_flow:
            return list(self._scaling.names)
        return [f"{flow} {name}" for flow in self.flow_names(index) for name in self._scaling.names]

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
        worlds = self.open_worlds()
        scenario = worlds.scenarios[index]
        title = f"{scenario.name}, {self._options.variant}, seed {self._seeds[index]}"
        return History(title, scenario.duration_s, worlds.flow_names(index), self._tunable_names(index))
