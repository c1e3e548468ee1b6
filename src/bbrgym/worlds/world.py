# SPDX-License-Identifier: GPL-2.0-only
"""The interface of every world: one run of one scenario, driven in control intervals."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.files import load_scenario
from bbrgym.scenario.model import FieldProblem, Scenario, check_tunables
from bbrgym.tunables import TUNABLES
from bbrgym.worlds.layout import Shape, Table, Tables

Field = tuple[str, str, str, str]
"""Name, unit, visibility (``sender`` or ``omniscient``), meaning."""

_MAX_SEED = 2**63 - 1

TUNABLE_COLUMNS = {name: column for column, name in enumerate(TUNABLES)}
"""Of the worlds' tables of tunables."""


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment; made by `World.save`, for `World.restore`. Keeps its value whatever the run does.

    Attributes:
        world: the world's registered name.
        state: the engine's own; opaque.
        scenario: what runs.
        seed: of the run.
    """

    world: str
    state: Any
    scenario: Scenario
    seed: int


class World(ABC):
    """One run of one scenario; made by `bbrgym.make_world`.

    A world may be used by any thread, by one at a time. The arrays it hands out are read-only views that the next
    call of advance() or reset() changes; copy what you keep.
    """

    def __init__(self, name: str, scenario: Any, seed: int, timeout_s: float) -> None:
        if not timeout_s > 0 or math.isinf(timeout_s):
            raise ConfigError(f"timeout_s: {timeout_s}, allowed is a finite number of seconds above 0")
        self._name = name
        self._timeout_s = timeout_s
        self._owner_pid = os.getpid()
        self._is_running = False
        self._is_closed = False
        self._take(scenario, seed)

    # ---- for users ---------------------------------------------------------------------------------------------

    def reset(self, scenario: Any = None, seed: int | None = None) -> None:
        """Starts a run from its beginning.

        Args:
            scenario: another scenario (a Scenario, a name, a path or a mapping); the same one without.
            seed: another seed, 0 to 2**63 - 1; the same one without, which repeats the run to the byte.

        Raises:
            ScenarioError, ConfigError: the scenario or the seed is wrong.
            WorldError: the simulation broke.
        """
        self._refuse_if_closed()
        self._take(self._scenario if scenario is None else scenario, self._seed if seed is None else seed)
        self._is_running = False
        self._reset()
        self._is_running = True

    def set_tunables(self, flow: int | str, values: Mapping[str, float]) -> None:
        """Sets tunables of one flow, in force from the beginning of the next interval.

        Args:
            flow: index or name.
            values: natural units by name; see `bbrgym.tunables.TUNABLES`.

        Raises:
            ConfigError: no such flow, the flow has no such tunable, or a value out of its range; nothing is set then.
        """
        self._refuse_unless_running()
        index = self._flow_index(flow)
        try:
            check_tunables(self._flows[index].cc, values)
        except FieldProblem as error:
            raise ConfigError(f"flow {self._flows[index].name!r}: {error.path} {error.problem}") from None
        for name, value in values.items():
            self._tunables[index, TUNABLE_COLUMNS[name]] = value

    def write_tunables(self, values: Table) -> None:
        """Sets all tunables of all flows: [flows, tunables], NaN where a flow has not that tunable.

        A value out of its range is found by the next advance(), which raises ConfigError or ValueError then.
        """
        self._refuse_unless_running()
        self._tunables[:] = values

    def advance(self, seconds: float) -> None:
        """Runs for so much simulated time, at most to the scenario's end, and measures that interval.

        Raises:
            ConfigError: seconds is not a finite number above 0.
            WorldError: the simulation broke.
        """
        self._refuse_unless_running()
        if not 0.0 < seconds < math.inf:
            raise ConfigError(f"advance: {seconds} s, allowed is a finite number of seconds above 0")
        self._advance(seconds)

    def flow_stats(self) -> Table:
        """The last interval's measurements: [flows, flow_fields]."""
        self._refuse_unless_running()
        return self._flow_stats_view

    def link_stats(self) -> Table:
        """The last interval's measurements of the bottleneck: [link_fields]."""
        self._refuse_unless_running()
        return self._link_stats_view

    def tunables(self) -> Table:
        """Values in force from the next interval: [flows, tunables], NaN where a flow has not that tunable."""
        self._refuse_unless_running()
        return self._tunables_view

    def summary(self) -> tuple[Table, Table]:
        """The run from the end of its warm-up to now: arrays [flows, flow_summary_fields], [link_summary_fields]."""
        self._refuse_unless_running()
        return self._summary()

    def save(self) -> Snapshot:
        """The run as it is now, to come back to any number of times.

        Raises:
            ConfigError: this world cannot be saved; the twin in this process can.
        """
        self._refuse_unless_running()
        self._refuse_unless_savable("save")
        return Snapshot(self._name, self._save(), self._scenario, self._seed)

    def restore(self, snapshot: Snapshot) -> None:
        """Continues from a snapshot of a world of the same kind, its scenario and seed included, bit for bit.

        Raises:
            ConfigError: the snapshot is another kind of world's, or this one cannot; it goes on as it was.
        """
        self._refuse_if_closed()
        self._refuse_unless_savable("restore")
        if snapshot.world != self._name:
            raise ConfigError(f"snapshot: of a {snapshot.world!r} world, allowed is one of {self._name!r}")
        self._take(snapshot.scenario, snapshot.seed)
        self._restore(snapshot.state)
        self._is_running = True

    def close(self) -> None:
        """Ends the simulation and frees all it holds; again is harmless."""
        self._is_running = False
        self._is_closed = True
        self._close()

    @property
    def name(self) -> str:
        """The world's registered name."""
        return self._name

    @property
    def scenario(self) -> Scenario:
        """What runs."""
        return self._scenario

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return self._seed

    @property
    def flow_names(self) -> tuple[str, ...]:
        """The rows of the flows' arrays."""
        return self._flow_names

    @property
    def tunable_names(self) -> tuple[str, ...]:
        """The columns of ``tunables()``."""
        return tuple(TUNABLES)

    @property
    def flow_fields(self) -> tuple[str, ...]:
        """The columns of ``flow_stats()``."""
        return self._flow_fields

    @property
    def link_fields(self) -> tuple[str, ...]:
        """The entries of ``link_stats()``."""
        return self._link_fields

    @property
    def flow_summary_fields(self) -> tuple[str, ...]:
        """The columns of the summary's flows."""
        return self._flow_summary_fields

    @property
    def link_summary_fields(self) -> tuple[str, ...]:
        """The entries of the summary's link."""
        return self._link_summary_fields

    @property
    @abstractmethod
    def now_s(self) -> float:
        """Simulated time in seconds since the run's beginning."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the scenario's end is reached."""

    def __enter__(self) -> World:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a world cannot be copied or pickled: call make_world() where the other one is needed")

    def __repr__(self) -> str:
        return f"<world {self._name!r}: scenario {self._scenario.name!r}, seed {self._seed}>"

    # ---- for implementations -----------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self) -> None:
        """Starts `_scenario_json` with `_seed`, and hands the new tables to `_show`."""

    @abstractmethod
    def _advance(self, seconds: float) -> None:
        """Runs; raises ValueError or WorldError."""

    @abstractmethod
    def _summary(self) -> tuple[Table, Table]:
        """Arrays of their own."""

    @abstractmethod
    def _close(self) -> None:
        """Frees the run and what it ran in; may come twice."""

    def _can_save(self) -> bool:
        """Whether there are _save and _restore."""
        return False

    def _save(self) -> Any:
        """The engine's state."""
        raise NotImplementedError

    def _restore(self, state: Any) -> None:
        """Takes over a state of _save, and hands the tables to `_show`."""
        raise NotImplementedError

    def _take_fields(
        self,
        flow_fields: list[Field],
        link_fields: list[Field],
        flow_summary_fields: list[Field],
        link_summary_fields: list[Field],
    ) -> None:
        """The engine's own lists, once it is known."""
        self._flow_fields = field_names(flow_fields)
        self._link_fields = field_names(link_fields)
        self._flow_summary_fields = field_names(flow_summary_fields)
        self._link_summary_fields = field_names(link_summary_fields)

    def _shape(self) -> Shape:
        """Of the tables that the scenario needs."""
        return Shape(
            flows=len(self._flow_names),
            tunables=len(TUNABLES),
            flow_fields=len(self._flow_fields),
            link_fields=len(self._link_fields),
            flow_summary_fields=len(self._flow_summary_fields),
            link_summary_fields=len(self._link_summary_fields),
        )

    def _show(self, tables: Tables) -> None:
        """The tables of the run that begins."""
        self._tunables = tables.tunables
        self._tunables_view = _read_only(tables.tunables)
        self._flow_stats_view = _read_only(tables.flow_stats)
        self._link_stats_view = _read_only(tables.link_stats)

    def _take(self, scenario: Any, seed: int) -> None:
        self._seed = check_seed(seed)
        self._scenario = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
        self._scenario_json = self._scenario.resolved_json()
        self._flows = self._scenario.resolved().flows
        self._flow_names = tuple(flow.name for flow in self._flows)

    def _flow_index(self, flow: int | str) -> int:
        if isinstance(flow, str):
            if flow in self._flow_names:
                return self._flow_names.index(flow)
            raise ConfigError(f"flow {flow!r}: {nearest(flow, self._flow_names)}")
        if 0 <= flow < len(self._flow_names):
            return int(flow)
        raise ConfigError(f"flow {flow!r}: allowed are 0 to {len(self._flow_names) - 1}")

    def _refuse_if_closed(self) -> None:
        if os.getpid() != self._owner_pid:
            raise RuntimeError(f"{self!r} belongs to process {self._owner_pid}: a fork needs a make_world() of its own")
        if self._is_closed:
            raise ValueError(f"{self!r} is closed: make another with make_world()")

    def _refuse_unless_savable(self, deed: str) -> None:
        if not self._can_save():
            raise ConfigError(f"{deed}: {self!r} cannot; allowed are worlds in this process whose engine can: twin")

    def _refuse_unless_running(self) -> None:
        self._refuse_if_closed()
        if not self._is_running:
            raise ValueError(f"{self!r} is not running: call reset() first")


def check_seed(seed: Any) -> int:
    """The seed as an int; raises ConfigError unless it is a whole number from 0 to 2**63 - 1."""
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or not 0 <= seed <= _MAX_SEED:
        raise ConfigError(f"seed: {seed!r}, allowed are integers from 0 to 2**63 - 1")
    return int(seed)


def field_names(fields: list[Field]) -> tuple[str, ...]:
    """The columns' names of an engine's list of fields."""
    return tuple(name for name, *_ in fields)


def _read_only(table: Table) -> Table:
    view: Table = table.view()
    view.flags.writeable = False
    return view
