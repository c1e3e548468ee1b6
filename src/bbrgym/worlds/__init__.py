# SPDX-License-Identifier: GPL-2.0-only
"""Worlds, where scenarios run. `bbrgym.worlds.engine` says how to add one."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bbrgym.errors import WorldError
from bbrgym.tunables import TUNABLE_COLUMNS
from bbrgym.worlds.errors import EngineFailure, LateRunError, repeat_late
from bbrgym.worlds.fields import ACK_FIELDS, PACKET_EVENTS, PACKET_FLAGS
from bbrgym.worlds.specs import (
    DEFAULT_TIMEOUT_S,
    FAST_WORLD,
    REFERENCE_WORLD,
    Isolation,
    WorldSpec,
    register_world,
    registered_worlds,
    runs_at_once,
    world_spec,
)

if TYPE_CHECKING:
    from bbrgym.worlds.layout import Flags, Table
    from bbrgym.worlds.making import make_vector_world, make_world
    from bbrgym.worlds.settings import WorldSettings, check_no_programs
    from bbrgym.worlds.vector_world import Snapshot, VectorWorld, check_seed, check_world_has
    from bbrgym.worlds.world import World

__all__ = [
    "ACK_FIELDS",
    "DEFAULT_TIMEOUT_S",
    "FAST_WORLD",
    "PACKET_EVENTS",
    "PACKET_FLAGS",
    "REFERENCE_WORLD",
    "TUNABLE_COLUMNS",
    "EngineFailure",
    "Flags",
    "Isolation",
    "LateRunError",
    "Snapshot",
    "Table",
    "VectorWorld",
    "World",
    "WorldError",
    "WorldSettings",
    "WorldSpec",
    "check_no_programs",
    "check_seed",
    "check_world_has",
    "make_vector_world",
    "make_world",
    "register_world",
    "registered_worlds",
    "repeat_late",
    "runs_at_once",
    "world_spec",
]

#: Modules that take long to import, and what is in each: the names of the worlds are to be had without.
_LATE = {
    "layout": ("Flags", "Table"),
    "making": ("make_vector_world", "make_world"),
    "settings": ("WorldSettings", "check_no_programs"),
    "vector_world": ("Snapshot", "VectorWorld", "check_seed", "check_world_has"),
    "world": ("World",),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            return getattr(importlib.import_module(f"bbrgym.worlds.{module}"), name)
    raise AttributeError(f"module 'bbrgym.worlds' has no attribute {name!r}")
