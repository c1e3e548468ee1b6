# SPDX-License-Identifier: GPL-2.0-only
"""Worlds by name: where scenarios run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bbrgym.errors import ConfigError, nearest
from bbrgym.worlds.errors import WorldError
from bbrgym.worlds.layout import Table
from bbrgym.worlds.local import LocalWorld
from bbrgym.worlds.process import WorkerWorld
from bbrgym.worlds.world import Snapshot, World

if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

    from bbrgym.scenario import Scenario

__all__ = [
    "Isolation",
    "Snapshot",
    "Table",
    "World",
    "WorldError",
    "WorldKind",
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
    scenario: Scenario | str | PathLike[str] | dict[str, Any],
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
    if name not in _KINDS:
        raise ConfigError(f"world {name!r}: {nearest(name, _KINDS)}")
    if isolation is None:
        isolation = _KINDS[name].isolation
    if isolation not in _ISOLATIONS:
        raise ConfigError(f"isolation {isolation!r}: {nearest(isolation, _ISOLATIONS)}")
    return _ISOLATIONS[isolation](name, _KINDS[name].engine, scenario, seed, timeout_s)


register_world("ns3", engine="bbrgym._ns3", meaning="the reference: ns-3's network and TCP sockets, packet by packet")
register_world(
    "twin",
    engine="bbrgym._twin",
    meaning="the fast one: a lean packet-level engine",
    isolation="none",
    is_alone=False,
)
