# SPDX-License-Identifier: GPL-2.0-only
"""Worlds side by side: advanced in one call, measured in one set of arrays."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from bbrgym.errors import ConfigError, MissingExtraError, ScenarioError, WorldError, nearest
from bbrgym.plugins import PLUGINS, load_into
from bbrgym.scenario.bounds import BOUNDS
from bbrgym.scenario.files import load_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.schema import argument, shown
from bbrgym.tunables import TUNABLE_NAMES
from bbrgym.worlds.engine import engine_class
from bbrgym.worlds.errors import LateRunError, LateRunFailure, reason_of
from bbrgym.worlds.fields import (
    FLOW_FIELDS,
    FLOW_SUMMARY_FIELDS,
    LINK_FIELDS,
    LINK_SUMMARY_FIELDS,
    names_of,
)
from bbrgym.worlds.layout import Arrays, Flags, Shape, SharedArrays, Table
from bbrgym.worlds.specs import DEFAULT_TIMEOUT_S, Isolation, WorldSpec, registered_worlds, world_spec
from bbrgym.worlds.worker_engine import WorkerEngine

_MAX_ROWS = 2**40  # of a trace
_MAX_FLOWS = int(BOUNDS["flows"].high)


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment, from `World.save` for `World.restore`. Does not change while the run goes on.

    Pickled it is small: what was asked of the run. Where it is unpickled or copied, the run is simulated again up to
    that moment, bit for bit, but without traces of ACKs and packets.
    """

    world: str  # the world's registered name
    state: Any  # the engine's own; opaque
    scenario: Scenario  # the scenario that runs
    seed: int  # seed of the run
    options: Mapping[str, Any]  # the world's own options

    def __reduce__(self) -> tuple[Any, ...]:
        return _repeated, (self.world, self.scenario, self.seed, dict(self.options), self.state.history())


class VectorWorld:
    """N runs; made by `bbrgym.worlds.make_vector_world`. Methods of the same name raise the errors of `World`.

    It may be used by any thread, by one at a time. The arrays are the same ones from one call to the next, until
    `reserve`; copy what you keep. A world has a row for each of its flows, in the scenario's order; the rows from there
    to `flow_capacity` are NaN.

    Attributes:
        tunables: [N, F, tunables], to be written: values in natural units, in force from the next interval; NaN where
            a flow does not have a tunable.
        flow_stats: [N, F, flow_fields], the last interval's measurements.
        link_stats: [N, link_fields], the last interval's measurements of the bottleneck.
        now_s: [N], simulated seconds since each run's beginning.
        done: [N], whether a run is at its scenario's end.
        scenarios: of each world.
        seeds: of each world.
        tunable_names, flow_fields, link_fields, flow_summary_fields, link_summary_fields: the arrays' columns.
    """

    tunables: Table
    flow_stats: Table
    link_stats: Table
    now_s: Table
    done: Flags

    tunable_names = TUNABLE_NAMES
    flow_fields = names_of(FLOW_FIELDS)
    link_fields = names_of(LINK_FIELDS)
    flow_summary_fields = names_of(FLOW_SUMMARY_FIELDS)
    link_summary_fields = names_of(LINK_SUMMARY_FIELDS)

    def __init__(
        self,
        spec: WorldSpec,
        scenarios: Sequence[Scenario],
        seeds: Sequence[int],
        *,
        flow_capacity: int | None,
        threads: int,
        isolation: Isolation,
        timeout_s: float,
        options: Mapping[str, Any],
    ) -> None:
        self._spec = spec
        self.scenarios = list(scenarios)
        self.seeds = [check_seed(seed) for seed in seeds]
        is_apart = isolation == "process" or spec.is_program
        for scenario in scenarios:
            check_world_has(spec, scenario, is_apart=is_apart)
        most = max(map(flows_of, scenarios))
        if flow_capacity is not None:
            allowed = f"are numbers from {most}, a scenario's flows, to {_MAX_FLOWS}"
            argument("flow_capacity", flow_capacity, int, allowed, most, _MAX_FLOWS)
        timeout_s = argument("timeout_s", timeout_s, float, "is a finite number of seconds above 0")
        if not 0.0 < timeout_s < math.inf:
            raise ConfigError(f"timeout_s: {timeout_s}, allowed is a finite number of seconds above 0")
        self._timeout_s = timeout_s
        self._options = options
        self._owner_pid = os.getpid()
        self._is_closed = False

        self._shared = SharedArrays.create() if is_apart else None
        is_one_engine = isolation == "none" and spec.holds_many
        self._per_engine = len(scenarios) if is_one_engine else 1
        self._engines: list[Any] = [None] * (len(scenarios) // self._per_engine)
        self._threads = min(threads, len(scenarios))  # others would be woken at each step for nothing
        self._pool = ThreadPoolExecutor(self._threads) if min(self._threads, len(self._engines)) > 1 else None
        self._loaded: list[Scenario | None] = [None] * len(scenarios)  # what engines can begin again by themselves
        self._stopped = set(range(len(scenarios)))
        self._lay_out(most if flow_capacity is None else flow_capacity, [])
        try:
            self._each(range(len(scenarios)), self._begin)
        except BaseException:
            self.close()
            raise

    # ---- for users ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The world's registered name."""
        return self._spec.name

    @property
    def num_worlds(self) -> int:
        """Number of worlds, N."""
        return len(self.scenarios)

    @property
    def flow_capacity(self) -> int:
        """F: the most flows that a scenario can have here."""
        return self._arrays.shape.flows

    def flow_names(self, index: int) -> tuple[str, ...]:
        """Return the names of a world's flows, the first rows of the world's arrays."""
        return tuple(flow.name for flow in self.scenarios[self._index(index)].resolved().flows)

    def reset(self, index: int, scenario: Any = None, seed: int | None = None) -> None:
        """Start a world's run from the beginning, see `World.reset`.

        Raises:
            ScenarioError, ConfigError: the scenario or the seed is wrong, or has more flows than there is room for.
            WorldError: the simulation broke.
        """
        self.check_open()
        index = self._index(index)
        given = self.scenarios[index] if scenario is None else load_scenario(scenario)
        new_seed = self.seeds[index] if seed is None else check_seed(seed)
        if scenario is not None:
            check_world_has(self._spec, given, is_apart=self._shared is not None)
            if flows_of(given) > self.flow_capacity:
                raise ConfigError(
                    f"scenario {given.name!r} has {flows_of(given)} flows, there is room for {self.flow_capacity}: "
                    "give flow_capacity"
                )
        self.scenarios[index], self.seeds[index] = given, new_seed
        self._begin(index)

    def advance(self, seconds: float | Table, mask: Flags | None = None) -> None:
        """Run worlds for so much simulated time, each at most to the scenario's end, and measure that interval.

        Args:
            seconds: simulated time, above 0; of all worlds, or of each, [N].
            mask: [N], the worlds that run. Default: all.

        Raises:
            ConfigError: seconds is not a finite number above 0, or no multiple of a policy's interval.
            ConfigError: a tunable is out of its range; its world has not run, the others have.
            WorldError: a simulation broke. The other worlds have run.
            LateRunError: worlds in real time were late, and none broke: these are done, and their last interval is
                measured.
        """
        self.check_open()
        if not isinstance(seconds, np.ndarray) or seconds.shape != (self.num_worlds,):
            seconds = argument("advance", seconds, float, "is a finite number of seconds above 0")
        durations_s = np.full(self.num_worlds, seconds, np.float64)
        if not ((durations_s > 0.0) & (durations_s < math.inf)).all():
            raise ConfigError(f"advance: {shown(seconds)} s, allowed is a finite number of seconds above 0")
        if mask is not None:
            given, mask = mask, np.asarray(mask)
            if mask.dtype != np.bool_ or mask.shape != (self.num_worlds,):
                raise ConfigError(f"mask: {shown(given)}, allowed is an array of {self.num_worlds} bool")
        if self._stopped:
            for index in sorted(self._stopped):
                if mask is None or mask[index]:
                    self.check_running(index)
        if mask is not None:
            durations_s[~mask] = -1.0
        if len(self._engines) == 1:
            self._advance(0, durations_s)
        else:
            chosen = np.flatnonzero(durations_s > 0.0).tolist()
            self._each(chosen, lambda index: self._advance(index, durations_s[index : index + 1]))

    def run_to_end(self) -> None:
        """Run all worlds to the ends of the scenarios, as one interval each."""
        longest_s = max(scenario.duration_s for scenario in self.scenarios)
        while not self.done.all():
            self.advance(longest_s, ~self.done)

    def summary(self, index: int) -> tuple[Table, Table]:
        """Return a world's measurements from the end of the warm-up to now, see `World.summary`."""
        index = self.check_running(index)
        flows = self._arrays.flow_summary[index, : flows_of(self.scenarios[index])]
        link = self._arrays.link_summary[index]
        self._ask(index, lambda engine, index: engine.summary(index, flows, link))
        return flows.copy(), link.copy()

    def link_stats_of(self, index: int, link: str) -> Table:
        """Return the last interval's measurements of one of a world's links, [link_fields], see `World.link_stats`."""
        return self._link_row(index, link, self.link_stats[index])[: len(self.link_fields)]

    def link_summary_of(self, index: int, link: str) -> Table:
        """Return the measurements of one of a world's links, [link_summary_fields], see `World.link_summary`."""
        return self._link_row(index, link, self.summary(index)[1])[-len(self.link_summary_fields) :]

    def _link_row(self, index: int, link: str, alone: Table) -> Table:
        """Return a link's row of `Engine.links`; of the only link another."""
        index = self.check_running(index)
        names = list(self.scenarios[index].all_links())
        if link not in names:
            raise ConfigError(f"link {shown(link)}: {nearest(str(link), names)}")
        if len(names) == 1:
            return alone
        if self._spec.is_program or not self._spec.has_paths:
            raise ConfigError(f"link {shown(link)}: {self!r} measures one link")
        row: Table = self._ask(index, lambda engine, index: engine.links(index))[names.index(link)]
        return row

    def save(self, index: int) -> Snapshot:
        """Return a snapshot of a world's run, see `World.save`."""
        index = self.check_running(index)
        self._check_savable("save")
        state = self._ask(index, lambda engine, index: engine.save(index))
        return Snapshot(self.name, state, self.scenarios[index], self.seeds[index], self._options)

    def restore(self, index: int, snapshot: Snapshot) -> None:
        """Continue a world from a snapshot of any world of the same kind, see `World.restore`."""
        self.check_open()
        self._check_savable("restore")
        index = self._index(index)
        if not isinstance(snapshot, Snapshot):
            raise ConfigError(f"snapshot: {shown(snapshot)}, allowed is what save() returned")
        if snapshot.world != self.name:
            raise ConfigError(f"snapshot: of a {snapshot.world!r} world, allowed is one of {self.name!r}")
        if snapshot.options != self._options:
            raise ConfigError(f"snapshot: of a world with options {snapshot.options}, allowed are {self._options}")
        self.reserve(flows_of(snapshot.scenario))
        self._ask(index, lambda engine, index: engine.restore(index, snapshot.state))
        self.scenarios[index], self.seeds[index] = snapshot.scenario, snapshot.seed
        self._loaded[index] = snapshot.scenario
        self._stopped.discard(index)

    def trace_acks(self, index: int, flow: int | str, max_rows: int) -> None:
        """Record the ACKs of a flow from now on, see `World.trace_acks`."""
        index = self.check_running(index)
        self._check_traceable()
        flow = self.flow_index(index, flow)
        max_rows = argument("max_rows", max_rows, int, f"are whole numbers from 0 to {_MAX_ROWS}", 0, _MAX_ROWS)
        self._ask(index, lambda engine, index: engine.trace_acks(index, flow, max_rows))

    def ack_trace(self, index: int, flow: int | str) -> Any:
        """Return the recorded ACKs of a flow, see `World.ack_trace`."""
        index = self.check_running(index)
        self._check_traceable()
        flow = self.flow_index(index, flow)
        return self._ask(index, lambda engine, index: engine.ack_trace(index, flow))

    def trace_packets(self, index: int) -> None:
        """Log every packet and every ACK's decision of a world, see `World.trace_packets`."""
        index = self.check_running(index)
        self._check_traceable("trace_packets")
        self._ask(index, lambda engine, index: engine.trace_packets(index))

    def take_packets(self, index: int) -> tuple[Any, Any]:
        """Return what a world logged since the last call, see `World.take_packets`."""
        index = self.check_running(index)
        self._check_traceable("take_packets")
        taken: tuple[Any, Any] = self._ask(index, lambda engine, index: engine.take_packets(index))
        return taken

    def reserve(self, flow_capacity: int) -> None:
        """Make room for more flows, if there is need: the arrays are new ones, the runs go on."""
        self.check_open()
        flow_capacity = argument("flow_capacity", flow_capacity, int, f"are 0 to {_MAX_FLOWS}", 0, _MAX_FLOWS)
        if flow_capacity > self.flow_capacity:
            self._lay_out(flow_capacity, [array.copy() for array in self._arrays.rows(slice(None))])

    def close(self) -> None:
        """End the simulations for good and free all resources; a second call does nothing."""
        self._is_closed = True
        for number in range(len(self._engines)):
            self._drop(number)
        if self._pool is not None:
            self._pool.shutdown()
        if self._shared is not None:
            self._shared.close()

    def check_open(self) -> None:
        """Raise ValueError after `close`, RuntimeError in a fork of the process."""
        if os.getpid() != self._owner_pid:
            raise RuntimeError(f"{self!r} belongs to process {self._owner_pid}: a fork must make its own")
        if self._is_closed:
            raise ValueError(f"{self!r} is closed: make another with make_world() or make_vector_world()")

    def check_running(self, index: int) -> int:
        """Return the index of a world, in Python's own type; raise ValueError unless the world runs."""
        self.check_open()
        index = self._index(index)
        if index in self._stopped:
            which = f"{self!r}" if self.num_worlds == 1 else f"world {index} of {self!r}"
            raise ValueError(f"{which} is not running, its run broke or was interrupted: call reset() first")
        return index

    def flow_index(self, index: int, flow: int | str) -> int:
        """Return the index of a flow of a world, given by index or name.

        Raises:
            ConfigError: there is none.
        """
        names = self.flow_names(index)
        if isinstance(flow, str):
            if flow in names:
                return names.index(flow)
            raise ConfigError(f"flow {flow!r}: {nearest(flow, names, 'flow_names')}")
        return int(argument("flow", flow, int, f"are 0 to {len(names) - 1}", 0, len(names) - 1))

    def __enter__(self) -> VectorWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("worlds cannot be copied or pickled: call make_vector_world() where the others are needed")

    def __repr__(self) -> str:
        if self.num_worlds == 1:
            return f"<world {self.name!r}: scenario {self.scenarios[0].name!r}, seed {self.seeds[0]}>"
        return f"<vector of {self.num_worlds} worlds {self.name!r}>"

    def _index(self, index: int) -> int:
        if type(index) is int and 0 <= index < self.num_worlds:
            return index
        return int(argument("world", index, int, f"are 0 to {self.num_worlds - 1}", 0, self.num_worlds - 1))

    # ---- engines -----------------------------------------------------------------------------------------------

    def _begin(self, index: int) -> None:
        """Start the run that `scenarios` and `seeds` say."""
        self._stopped.add(index)
        self.now_s[index], self.done[index] = 0.0, False
        scenario, seed = self.scenarios[index], self.seeds[index]
        text = None if self._loaded[index] is scenario else scenario.resolved_json()
        self._loaded[index] = None
        self._ask(index, lambda engine, index: engine.reset(index, text, seed))
        self._loaded[index] = scenario
        self._stopped.discard(index)

    def _ask(self, index: int, act: Callable[[Any, int], Any]) -> Any:
        """Act on a world's engine and the world's index there."""
        number, place = divmod(index, self._per_engine)
        try:
            return act(self._engine(number), place)
        except (ConfigError, MissingExtraError):
            raise
        except ValueError as error:  # of the engine, or of its worker
            raise ConfigError(str(error)) from error
        except BaseException as error:  # also Ctrl-C: nobody knows where the engine is now
            self._break(number, [index])
            if isinstance(error, Exception):
                raise self._error(index, error) from error
            raise

    def _advance(self, number: int, durations_s: Table) -> None:
        """Advance the worlds of an engine."""
        try:
            self._engines[number].advance(durations_s)
        except ValueError as error:  # of the engine, or of its worker
            raise ConfigError(str(error)) from error
        except BaseException as error:
            chosen = [number * self._per_engine + place for place in np.flatnonzero(durations_s > 0.0).tolist()]
            self._break(number, chosen)
            if isinstance(error, Exception):
                place = getattr(error, "place", None)
                broken = chosen[0] if place is None else number * self._per_engine + place
                raise self._error(broken, error) from error
            raise

    def _each(self, worlds: Iterable[int], act: Callable[[int], None]) -> None:
        """Act on worlds, also on the others if one fails; raise the first failure, one that is not late before others.

        The others are its notes.
        """
        errors: dict[int, Exception] = {}

        def attempt(index: int) -> None:
            try:
                act(index)
            except Exception as error:  # noqa: BLE001 - raised below
                errors[index] = error

        worlds = list(worlds)
        try:
            for _ in map(attempt, worlds) if self._pool is None else self._pool.map(attempt, worlds):
                pass
        except BaseException:  # Ctrl-C while others wait
            for index in worlds:
                self._break(index // self._per_engine, [index])
            raise
        try:
            if errors:
                first, *others = sorted(errors, key=lambda index: (isinstance(errors[index], LateRunError), index))
                for index in others:
                    errors[first].add_note(str(errors[index]))
                raise errors[first]
        finally:
            errors.clear()  # an error that its own traceback holds would keep the worlds

    def _engine(self, number: int) -> Any:
        """Return an engine; make a new one if there is none or it has broken."""
        engine = self._engines[number]
        if engine is None:
            first = number * self._per_engine
            threads = self._threads if len(self._engines) == 1 else 1
            if self._shared is None:
                kind = engine_class(self._spec.engine)
                load_into(self._spec.engine, PLUGINS)
                try:
                    engine = kind(self._per_engine, threads, self._timeout_s, **self._options)
                except ValueError as error:  # of an option
                    raise ConfigError(str(error)) from error
            else:
                worker = engine_class(self._spec.engine) if self._spec.is_program else WorkerEngine
                engine = worker(self._spec.engine, self._options, self._timeout_s, self._shared, first)
            self._engines[number] = engine
            self._show(engine, first)
        return engine

    def _show(self, engine: Any, first: int) -> None:
        """Let an engine use the current arrays, from the rows of the engine's first world on."""
        engine.lay_out(self.flow_capacity, *self._arrays.rows(slice(first, first + self._per_engine)))

    def _drop(self, number: int) -> None:
        engine, self._engines[number] = self._engines[number], None
        if engine is not None:
            engine.close()

    def _break(self, number: int, worlds: Iterable[int]) -> None:
        """Give worlds up until the next reset, which makes an engine of one world again."""
        for index in worlds:
            self._stopped.add(index)
            self._loaded[index] = None
        if self._per_engine == 1:
            self._drop(number)

    def _error(self, index: int, error: Exception) -> WorldError:
        kind = LateRunError if isinstance(error, LateRunFailure) else WorldError
        return kind(self.scenarios[index].name, self.seeds[index], float(self.now_s[index]), reason_of(error))

    # ---- arrays ------------------------------------------------------------------------------------------------

    def _lay_out(self, flow_capacity: int, former: Sequence[Table | Flags]) -> None:
        """Make the arrays for a capacity, with the contents of the former ones; runs go on."""
        fields = (FLOW_FIELDS, LINK_FIELDS, FLOW_SUMMARY_FIELDS, LINK_SUMMARY_FIELDS)
        shape = Shape(self.num_worlds, flow_capacity, len(TUNABLE_NAMES), *map(len, fields))
        self._arrays = Arrays(shape) if self._shared is None else self._shared.arrays(shape)
        self._arrays.fill(former)
        self.tunables, self.flow_stats, self.link_stats, self.now_s, self.done = self._arrays.rows(slice(None))
        made = [number for number, engine in enumerate(self._engines) if engine is not None]
        self._each(
            (number * self._per_engine for number in made),
            lambda index: self._ask(index, lambda engine, _: self._show(engine, index)),
        )

    # ---- capabilities ------------------------------------------------------------------------------------------

    def _check_savable(self, method: str) -> None:
        if not self._spec.can_save or self._shared is not None:
            able = ", ".join(name for name, spec in registered_worlds().items() if spec.can_save)
            raise ConfigError(f"{method}: {self!r} cannot; allowed are worlds in this process whose engine can: {able}")

    def _check_traceable(self, method: str = "ack_trace") -> None:
        if not hasattr(self._engines[0], method):
            what = "ack trace" if method == "ack_trace" else "trace of packets"
            raise ConfigError(f"{what}: {self!r} has none; allowed are simulated worlds with isolation none")


def check_seed(seed: Any) -> int:
    """Return the seed as an int.

    Raises:
        ConfigError: it is not a whole number from 0 to 2**63 - 1.
    """
    return int(argument("seed", seed, int, "are integers from 0 to 2**63 - 1", 0, 2**63 - 1))


def _repeated(world: str, scenario: Scenario, seed: int, options: Mapping[str, Any], history: Table) -> Snapshot:
    """Return the snapshot of a run that is simulated again, see `Snapshot`."""
    settings: dict[str, Any] = {"threads": 1, "isolation": "none", "timeout_s": DEFAULT_TIMEOUT_S, "options": options}
    with VectorWorld(world_spec(world), [scenario], [seed], flow_capacity=None, **settings) as worlds:
        numbers = iter(history.tolist())
        for seconds in numbers:
            for _ in range(int(next(numbers))):
                place = int(next(numbers))
                worlds.tunables.reshape(-1)[place] = next(numbers)
            worlds.advance(seconds)
        return worlds.save(0)


def check_world_has(spec: WorldSpec, scenario: Scenario, *, is_apart: bool = False) -> None:
    """Check that a world, in a process of its own or not, has the congestion controls and the links of a scenario.

    Raises:
        ScenarioError: it does not.
    """
    for index, flow in enumerate(scenario.flows):
        if not spec.has_controller(flow.cc):
            able = ", ".join(name for name, one in registered_worlds().items() if one.has_controller(flow.cc))
            raise ScenarioError(
                f"flows[{index}].cc",
                f"is {flow.cc!r}, which world {spec.name!r} does not have; it needs world {able}",
                scenario.name,
            )
        if is_apart and PLUGINS.get(flow.cc) == "":
            raise ScenarioError(
                f"flows[{index}].cc",
                f"is {flow.cc!r}, a class of this process; expected isolation none, or its file as FILE.py:{flow.cc}",
                scenario.name,
            )
        if flow.quic is not None and not spec.runs_quic:
            able = ", ".join(name for name, one in registered_worlds().items() if one.runs_quic)
            raise ScenarioError(
                f"flows[{index}].quic",
                f"is {flow.quic!r}, which world {spec.name!r} does not run; use world {able}",
                scenario.name,
            )
    if len(scenario.links) > 1 and not spec.has_paths:
        able = ", ".join(name for name, one in registered_worlds().items() if one.has_paths)
        raise ScenarioError(
            "links", f"is given, which world {spec.name!r} does not have; use world {able}", scenario.name
        )
    hop = scenario.link.last_hop
    if hop is not None and not spec.has_last_hops:
        able = ", ".join(name for name, one in registered_worlds().items() if one.has_last_hops)
        raise ScenarioError(
            "link.last_hop",
            f"is {hop.kind}, which world {spec.name!r} does not have; use world {able}, or record the hop with "
            "`bbrgym scenario NAME record=FILE` and follow that file with link.trace_path",
            scenario.name,
        )


def flows_of(scenario: Scenario) -> int:
    """Return the number of flows of a scenario."""
    return len(scenario.resolved().flows)
