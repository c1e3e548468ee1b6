# SPDX-License-Identifier: GPL-2.0-only
"""N worlds side by side: stepped in one call, measured in one set of arrays."""

from __future__ import annotations

import importlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bbrgym.errors import ConfigError
from bbrgym.scenario.files import load_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import TUNABLES
from bbrgym.worlds.errors import WorldError
from bbrgym.worlds.layout import FIELD_LISTS, Table
from bbrgym.worlds.world import Snapshot, World, check_seed, field_names

Flags = NDArray[np.bool_]


class VectorWorld(ABC):
    """N runs; made by `bbrgym.worlds.make_vector_world`.

    The arrays are the same ones from one call to the next, until `reserve`; copy what you keep. A world has a row for
    each of its flows, in the scenario's order; the rows from there to `flow_capacity` are NaN.

    Attributes:
        tunables: [N, F, tunables], to be written: values in natural units, in force from the next interval; NaN where
            a flow has not that tunable.
        flow_stats: [N, F, flow_fields], the last interval's measurements.
        link_stats: [N, link_fields], the last interval's measurements of the bottleneck.
        now_s: [N], simulated time since each run's beginning.
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

    def __init__(
        self, name: str, scenarios: Sequence[Scenario], seeds: Sequence[int], flow_capacity: int | None
    ) -> None:
        self._name = name
        self.scenarios = list(scenarios)
        self.seeds = [check_seed(seed) for seed in seeds]
        most = max(map(flows_of, scenarios))
        if flow_capacity is not None and flow_capacity < most:
            raise ConfigError(f"flow_capacity: {flow_capacity}, allowed are numbers from {most}, a scenario's flows")
        self._flow_capacity = most if flow_capacity is None else flow_capacity
        self._is_running = np.zeros(len(scenarios), np.bool_)
        self._owner_pid = os.getpid()
        self._is_closed = False
        self.tunable_names = tuple(TUNABLES)
        self.flow_fields: tuple[str, ...] = ()
        self.link_fields: tuple[str, ...] = ()
        self.flow_summary_fields: tuple[str, ...] = ()
        self.link_summary_fields: tuple[str, ...] = ()

    # ---- for users ---------------------------------------------------------------------------------------------

    @property
    def num_worlds(self) -> int:
        """N."""
        return len(self.scenarios)

    @property
    def flow_capacity(self) -> int:
        """F: the most flows that a scenario can have here."""
        return self._flow_capacity

    def flow_names(self, index: int) -> tuple[str, ...]:
        """The first rows of a world's arrays."""
        return tuple(flow.name for flow in self.scenarios[index].resolved().flows)

    def reset(self, index: int, scenario: Any = None, seed: int | None = None) -> None:
        """Starts a world's run from its beginning.

        Args:
            index: which world.
            scenario: another scenario (a Scenario, a name, a path or a mapping); the same one without.
            seed: another seed, 0 to 2**63 - 1; the same one without.

        Raises:
            ScenarioError, ConfigError: the scenario or the seed is wrong, or has more flows than there is room for.
            WorldError: the simulation broke.
        """
        self._refuse_if_closed()
        given = None if scenario is None else load_scenario(scenario)
        new_seed = self.seeds[index] if seed is None else check_seed(seed)
        if given is not None and flows_of(given) > self._flow_capacity:
            raise ConfigError(
                f"scenario {given.name!r} has {flows_of(given)} flows, there is room for {self._flow_capacity}: "
                "give flow_capacity"
            )
        self._is_running[index] = False
        if given is not None:
            self.scenarios[index] = given
        self.seeds[index] = new_seed
        self._reset(index, given)
        self._is_running[index] = True

    def advance(self, seconds: float, mask: Flags | None = None) -> None:
        """Runs worlds for so much simulated time, each at most to its scenario's end, and measures that interval.

        Args:
            seconds: how long.
            mask: [N], which worlds; all without.

        Raises:
            ConfigError: seconds is not a finite number above 0.
            WorldError: a simulation broke. The other worlds have run.
        """
        self._refuse_if_closed()
        if not 0.0 < seconds < math.inf:
            raise ConfigError(f"advance: {seconds} s, allowed is a finite number of seconds above 0")
        chosen = np.ones(self.num_worlds, np.bool_) if mask is None else mask
        stopped = chosen & ~self._is_running
        if stopped.any():
            raise ValueError(f"world {int(stopped.argmax())} of {self!r} is not running: call reset() first")
        self._advance(seconds, chosen)

    def summary(self, index: int) -> tuple[Table, Table]:
        """A world's run from the end of its warm-up to now; see `World.summary`."""
        self._refuse_unless_running(index)
        return self._summary(index)

    def save(self, index: int) -> Snapshot:
        """A world's run as it is now; see `World.save`."""
        self._refuse_unless_running(index)
        return self._save(index)

    def restore(self, index: int, snapshot: Snapshot) -> None:
        """Continues a world from a snapshot, of any world of the same kind; see `World.restore`."""
        self._refuse_if_closed()
        if snapshot.world != self._name:
            raise ConfigError(f"snapshot: of a {snapshot.world!r} world, allowed is one of {self._name!r}")
        self.reserve(flows_of(snapshot.scenario))
        self._restore(index, snapshot)
        self.scenarios[index], self.seeds[index] = snapshot.scenario, snapshot.seed
        self._is_running[index] = True

    def reserve(self, flow_capacity: int) -> None:
        """Makes room for more flows, if need be: the arrays are new ones, the runs go on."""
        self._refuse_if_closed()
        if flow_capacity > self._flow_capacity:
            self._flow_capacity = flow_capacity
            self._lay_out()

    def close(self) -> None:
        """Ends the simulations and frees all they hold; again is harmless."""
        self._is_running[:] = False
        self._is_closed = True
        self._close()

    def __enter__(self) -> VectorWorld:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("worlds cannot be copied or pickled: call make_vector_world() where the others are needed")

    def __repr__(self) -> str:
        return f"<{self.num_worlds} worlds {self._name!r}>"

    # ---- for implementations -----------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self, index: int, scenario: Scenario | None) -> None:
        """Starts the run that `scenarios` and `seeds` say; the scenario is None where it is the one before."""

    @abstractmethod
    def _advance(self, seconds: float, mask: Flags) -> None:
        """Runs the worlds of the mask; clears `_is_running` of those that broke and raises for one of them."""

    @abstractmethod
    def _summary(self, index: int) -> tuple[Table, Table]:
        """Arrays of their own."""

    @abstractmethod
    def _save(self, index: int) -> Snapshot:
        """The run as it is now."""

    @abstractmethod
    def _restore(self, index: int, snapshot: Snapshot) -> None:
        """Back to it."""

    @abstractmethod
    def _lay_out(self) -> None:
        """Makes the arrays for the capacity there is; runs go on."""

    @abstractmethod
    def _close(self) -> None:
        """Frees the runs; may come twice."""

    def _make_arrays(self) -> None:
        flows = (self.num_worlds, self._flow_capacity)
        self.tunables = np.full((*flows, len(TUNABLES)), np.nan)
        self.flow_stats = np.full((*flows, len(self.flow_fields)), np.nan)
        self.link_stats = np.full((self.num_worlds, len(self.link_fields)), np.nan)
        self.now_s = np.zeros(self.num_worlds)
        self.done = np.zeros(self.num_worlds, np.bool_)

    def _refuse_if_closed(self) -> None:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(f"{self!r} belong to process {self._owner_pid}: a fork needs its own")
        if self._is_closed:
            raise ValueError(f"{self!r} are closed: make others with make_vector_world()")

    def _refuse_unless_running(self, index: int) -> None:
        self._refuse_if_closed()
        if not self._is_running[index]:
            raise ValueError(f"world {index} of {self!r} is not running: call reset() first")


class LoopedWorlds(VectorWorld):
    """Any worlds, one after the other; those in worker processes side by side.

    Args:
        name: of the world.
        scenarios: of each world.
        seeds: of each world.
        flow_capacity: as in `make_vector_world`.
        make: starts a world.
        threads: how many worlds run at once.
    """

    def __init__(
        self,
        name: str,
        scenarios: Sequence[Scenario],
        seeds: Sequence[int],
        flow_capacity: int | None,
        make: Callable[[Scenario, int], World],
        threads: int,
    ) -> None:
        super().__init__(name, scenarios, seeds, flow_capacity)
        self._pool = ThreadPoolExecutor(threads) if min(threads, len(scenarios)) > 1 else None
        self._worlds: list[World] = []
        try:
            self._worlds += [make(scenario, seed) for scenario, seed in zip(self.scenarios, self.seeds, strict=True)]
        except BaseException:
            self.close()
            raise
        first = self._worlds[0]
        self.flow_fields, self.link_fields = first.flow_fields, first.link_fields
        self.flow_summary_fields, self.link_summary_fields = first.flow_summary_fields, first.link_summary_fields
        self._is_running[:] = True
        self._lay_out()

    def _reset(self, index: int, scenario: Scenario | None) -> None:
        self._worlds[index].reset(scenario, self.seeds[index])
        self._show_run(index)

    def _advance(self, seconds: float, mask: Flags) -> None:
        errors: list[Exception] = []

        def run(index: int) -> None:
            world = self._worlds[index]
            try:
                world.write_tunables(self.tunables[index, : len(world.flow_names)])
                world.advance(seconds)
            except WorldError as error:
                self._is_running[index] = False
                errors.append(error)
            except ValueError as error:
                errors.append(error)
            else:
                self._show_interval(index)

        indices: Iterable[int] = np.flatnonzero(mask).tolist()
        if self._pool is None:
            for index in indices:
                run(index)
        else:
            list(self._pool.map(run, indices))
        try:
            if errors:
                raise errors[0]
        finally:
            errors.clear()  # an error that its own traceback holds would keep the worlds

    def _summary(self, index: int) -> tuple[Table, Table]:
        return self._worlds[index].summary()

    def _save(self, index: int) -> Snapshot:
        return self._worlds[index].save()

    def _restore(self, index: int, snapshot: Snapshot) -> None:
        self._worlds[index].restore(snapshot)
        self._show_run(index)

    def _lay_out(self) -> None:
        self._make_arrays()
        for index in np.flatnonzero(self._is_running).tolist():
            self._show_run(index)

    def _close(self) -> None:
        while self._worlds:
            self._worlds.pop().close()
        if self._pool is not None:
            self._pool.shutdown()

    def _show_run(self, index: int) -> None:
        world = self._worlds[index]
        self.tunables[index] = self.flow_stats[index] = np.nan
        self.tunables[index, : len(world.flow_names)] = world.tunables()
        self._show_interval(index)

    def _show_interval(self, index: int) -> None:
        world = self._worlds[index]
        self.flow_stats[index, : len(world.flow_names)] = world.flow_stats()
        self.link_stats[index] = world.link_stats()
        self.now_s[index] = world.now_s
        self.done[index] = world.done


class EngineWorlds(VectorWorld):
    """Worlds of an engine that steps many at once itself: its module has a class `Vector`.

    Args:
        name: of the world.
        scenarios: of each world.
        seeds: of each world.
        flow_capacity: as in `make_vector_world`.
        engine: dotted name of the module.
        threads: that the engine runs them in.
    """

    def __init__(
        self,
        name: str,
        scenarios: Sequence[Scenario],
        seeds: Sequence[int],
        flow_capacity: int | None,
        engine: str,
        threads: int,
    ) -> None:
        super().__init__(name, scenarios, seeds, flow_capacity)
        self._engine: Any = importlib.import_module(engine)
        self._threads = min(threads, len(scenarios))  # others would be woken at each step for nothing
        fields = [field_names(getattr(self._engine, each)()) for each in FIELD_LISTS]
        self.flow_fields, self.link_fields, self.flow_summary_fields, self.link_summary_fields = fields
        self._vector: Any = None
        self._lay_out()
        for index, scenario in enumerate(self.scenarios):
            self._reset(index, scenario)
        self._is_running[:] = True

    def _reset(self, index: int, scenario: Scenario | None) -> None:
        try:
            if scenario is None and self._is_loaded[index]:
                self._vector.reset_seed(index, self.seeds[index])
            else:
                self._vector.reset(index, self.scenarios[index].resolved_json(), self.seeds[index])
        except ValueError:
            raise
        except Exception as error:
            raise self._error(index, error) from error
        self._is_loaded[index] = True

    def _advance(self, seconds: float, mask: Flags) -> None:
        try:
            self._vector.advance(seconds, mask.view(np.uint8))
        except ValueError:
            raise
        except Exception as error:
            self._is_running[mask] = False  # which one broke is in the text; the others stopped where they were
            raise self._error(int(mask.argmax()), error) from error

    def _summary(self, index: int) -> tuple[Table, Table]:
        flows = np.empty((flows_of(self.scenarios[index]), len(self.flow_summary_fields)))
        link = np.empty(len(self.link_summary_fields))
        self._vector.summary(index, flows, link)
        return flows, link

    def _save(self, index: int) -> Snapshot:
        return Snapshot(self._name, self._vector.save(index), self.scenarios[index], self.seeds[index])

    def _restore(self, index: int, snapshot: Snapshot) -> None:
        self._vector.restore(index, snapshot.state)
        self._is_loaded[index] = True

    def _lay_out(self) -> None:
        running = {index: self._vector.save(index) for index in np.flatnonzero(self._is_running).tolist()}
        self._close()
        self._make_arrays()
        self._is_loaded = np.zeros(self.num_worlds, np.bool_)
        self._vector = self._engine.Vector(
            self._flow_capacity,
            self._threads,
            self.tunables,
            self.flow_stats,
            self.link_stats,
            self.now_s,
            self.done.view(np.uint8),
        )
        for index, state in running.items():
            self._reset(index, None)
            self._vector.restore(index, state)

    def _close(self) -> None:
        if self._vector is not None:
            self._vector.close()
            self._vector = None

    def _error(self, index: int, error: Exception) -> WorldError:
        reason = f"{type(error).__name__}: {error}"
        return WorldError(self.scenarios[index].name, self.seeds[index], float(self.now_s[index]), reason)


def flows_of(scenario: Scenario) -> int:
    """How many flows it has."""
    return len(scenario.resolved().flows)
