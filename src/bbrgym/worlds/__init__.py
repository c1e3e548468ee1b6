# SPDX-License-Identifier: GPL-2.0-only
"""Worlds by name: where scenarios run."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.files import Source, is_sequence, load_scenario
from bbrgym.worlds.errors import WorldError
from bbrgym.worlds.layout import Table
from bbrgym.worlds.local import LocalWorld
from bbrgym.worlds.process import WorkerWorld
from bbrgym.worlds.vector import EngineWorlds, LoopedWorlds, VectorWorld
from bbrgym.worlds.world import Snapshot, World

if TYPE_CHECKING:
    from typing import Any

    from bbrgym.scenario.model import Scenario

__all__ = [
    "Isolation",
    "Snapshot",
    "Table",
    "VectorWorld",
    "World",
    "WorldError",
    "WorldKind",
    "make_vector_world",
    "make_world",
    "register_world",
    "world_kinds",
]

Isolation = Literal["process", "none"]

_ISOLATIONS: dict[str, type[LocalWorld] | type[WorkerWorld]] = {"process": WorkerWorld, "none": LocalWorld}


@dataclass(frozen=True)
class WorldKind:
    """A registered world.

    Attributes:
        engine: dotted name of the module with its Simulation class and its lists of fields; `bbrgym._ns3` is the model.
            A class `Vector` in it, if there is one, runs many at once.
        meaning: one line for people.
        isolation: where it runs unless `make_world` is told.
        is_alone: whether one process can hold a single run of it at a time.
    """

    engine: str
    meaning: str
    isolation: Isolation = "process"
    is_alone: bool = True


_KINDS: dict[str, WorldKind] = {}


def register_world(
    name: str, engine: str, meaning: str, *, isolation: Isolation = "process", is_alone: bool = True
) -> None:
    """Makes a world known to `make_world`; a name can be taken once."""
    if name in _KINDS:
        raise ConfigError(f"world {name!r} is registered already, with engine {_KINDS[name].engine!r}")
    _KINDS[name] = WorldKind(engine, meaning, isolation, is_alone)


def world_kinds() -> dict[str, WorldKind]:
    """The registered worlds by name."""
    return dict(_KINDS)


def make_world(
    name: str,
    scenario: Source,
    seed: int = 1,
    *,
    isolation: Isolation | None = None,
    timeout_s: float = 60.0,
) -> World:
    """Starts a run of a scenario in a world.

    Args:
        name: of the world, see `world_kinds`.
        scenario: a Scenario, a name, a path or a mapping.
        seed: of all random numbers, 0 to 2**63 - 1; the same scenario and seed give the same bytes out.
        isolation: ``process`` runs it in a worker process, so that its abort is a WorldError and many may be open at
            once; ``none`` runs it in this process; what the world's kind says unless given.
        timeout_s: the longest wall time the worker may take to start, to reset, and for each simulated second of an
            advance (for a shorter advance: in all). After it the worker is killed and the world raises WorldError.

    Raises:
        ScenarioError, ConfigError: an argument is wrong.
        WorldError: the simulation broke.
    """
    kind, isolation = _kind(name, isolation)
    return _ISOLATIONS[isolation](name, kind.engine, scenario, seed, timeout_s)


def make_vector_world(
    name: str,
    num_worlds: int,
    scenario: Source | Sequence[Source],
    seeds: int | Sequence[int] = 1,
    *,
    flow_capacity: int | None = None,
    threads: int | None = None,
    isolation: Isolation | None = None,
    timeout_s: float = 60.0,
) -> VectorWorld:
    """Starts many runs in worlds that advance together.

    An engine that steps many worlds itself does so, in its threads; any other world is run as often as needed.

    Args:
        name: of the world, see `world_kinds`.
        num_worlds: how many.
        scenario: a Scenario, a name, a path or a mapping; or a sequence of these, one for each world.
        seeds: of each world; a single one s means s, s + 1, ...
        flow_capacity: the most flows of any scenario to come; the most of the given ones without.
        threads: how many worlds run at once; as many as this process has cores without.
        isolation: as for `make_world`; in worker processes, each world has its own.
        timeout_s: as for `make_world`.

    Raises:
        ScenarioError, ConfigError: an argument is wrong.
        WorldError: a simulation broke.
    """
    kind, isolation = _kind(name, isolation)
    if num_worlds < 1:
        raise ConfigError(f"num_worlds: {num_worlds}, allowed are numbers from 1")
    if threads is not None and threads < 1:
        raise ConfigError(f"threads: {threads}, allowed are numbers from 1")
    sources: Sequence[Any] = scenario if is_sequence(scenario) else [scenario] * num_worlds
    all_seeds = [seeds + i for i in range(num_worlds)] if isinstance(seeds, int) else seeds
    if len(sources) != num_worlds or len(all_seeds) != num_worlds:
        raise ConfigError(f"{num_worlds} worlds, but {len(sources)} scenarios and {len(all_seeds)} seeds")
    scenarios = [load_scenario(source) for source in sources]
    threads = threads or len(os.sched_getaffinity(0))
    if isolation == "none" and hasattr(importlib.import_module(kind.engine), "Vector"):
        return EngineWorlds(name, scenarios, all_seeds, flow_capacity, kind.engine, threads)

    def make(one: Scenario, seed: int) -> World:
        return _ISOLATIONS[isolation](name, kind.engine, one, seed, timeout_s)

    side_by_side = threads if isolation == "process" else 1
    return LoopedWorlds(name, scenarios, all_seeds, flow_capacity, make, side_by_side)


def _kind(name: str, isolation: Isolation | None) -> tuple[WorldKind, Isolation]:
    """A registered world, and where to run it."""
    if name not in _KINDS:
        raise ConfigError(f"world {name!r}: {nearest(name, _KINDS)}")
    chosen = _KINDS[name].isolation if isolation is None else isolation
    if chosen not in _ISOLATIONS:
        raise ConfigError(f"isolation {chosen!r}: {nearest(chosen, _ISOLATIONS)}")
    return _KINDS[name], chosen


register_world("ns3", engine="bbrgym._ns3", meaning="the reference: ns-3's network and TCP sockets, packet by packet")
register_world(
    "twin",
    engine="bbrgym._twin",
    meaning="the fast one: a lean packet-level engine",
    isolation="none",
    is_alone=False,
)
