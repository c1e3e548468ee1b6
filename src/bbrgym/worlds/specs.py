# SPDX-License-Identifier: GPL-2.0-only
"""The registered worlds. A new one is an engine (see `bbrgym.worlds.engine`) and a line at the end of this file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bbrgym.errors import ConfigError, nearest
from bbrgym.tunables import (
    ARMS,
    KERNEL_ALGORITHMS,
    KERNEL_STAND_INS,
    PLUGIN_ALGORITHMS,
    PYTHON_ALGORITHM,
    STOCK_OWNERS,
    VARIANTS,
)

Isolation = Literal["process", "none"]

ISOLATIONS: tuple[Isolation, ...] = ("process", "none")

DEFAULT_TIMEOUT_S = 60.0
"""The longest wall time of a start, a reset, and of each simulated second of an advance, unless given."""

MAX_LATE_SHARE = 0.005
"""The share of the packets of a run in real time that may be more than 1 ms late; above it the run says too little."""

REFERENCE_WORLD = "ns3"
"""The reference: default of environments and evaluations."""

FAST_WORLD = "twin"
"""The fast world: default of training and validation; searches run in it."""


@dataclass(frozen=True)
class WorldSpec:
    """A registered world."""

    name: str  # the name that selects it
    engine: str  # dotted name of its engine's class, see `bbrgym.worlds.engine.Engine`
    meaning: str  # one line for people
    # the default: ``process`` (each run in a worker process) or ``none`` (in this process)
    isolation: Isolation = "none"
    is_alone: bool = False  # whether a process can hold only one run of it at a time
    holds_many: bool = False  # whether one engine can hold many worlds
    can_save: bool = False  # whether runs in this process can be saved and restored
    can_trace: bool = False  # whether runs in this process can log their packets
    # whether its engine is a program of the user's: a process of its own whatever the isolation
    is_program: bool = False
    # whether an advance takes as long as what it runs; no run repeats another to the byte then
    is_real_time: bool = False
    # of the congestion controls of ``cc/`` that flows can run, by `Variant.algorithm`. Default: all.
    our_algorithms: tuple[str, ...] | None = None
    stand_ins: Mapping[str, str] = field(default_factory=dict)  # what runs in place of other ones, by the name of these
    stock_controls: tuple[str, ...] = ()  # whose own congestion controls flows can run, unchanged: ``ns-3``, ``linux``
    loads_plugins: bool = False  # whether flows can run a user's file (`bbrgym.plugins`)
    loads_classes: bool = False  # whether they can run a user's Python class (`bbrgym.Controller`)
    arms: tuple[str, ...] = ARMS  # of variant ``switch``, those that flows can run
    has_last_hops: bool = False  # whether a scenario's receivers can be behind a radio
    runs_quic: bool = False  # whether flows can be of other projects' stacks (`bbrgym.quic`)
    has_paths: bool = True  # whether flows can cross several links, each of which is measured
    options: tuple[str, ...] = ()  # names of its own options, arguments of its engine
    programs: tuple[str, ...] = ()  # those of them that name a program or a library, which runs

    def given_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that have a value other than None, the default of all.

        Raises:
            ConfigError: the world does not have one of them.
        """
        for option in options:
            if option not in self.options:
                allowed = nearest(option, self.options) if self.options else "it has none"
                raise ConfigError(f"options: {option!r} is not an option of world {self.name!r}; {allowed}")
        return {name: value for name, value in options.items() if value is not None}

    def default_settings(self) -> dict[str, Any]:
        """Return the fields of `WorldSettings` with the world's defaults, for the config group ``world``."""
        options = {"options": dict.fromkeys(self.options)} if self.options else {}
        return {"isolation": None, "timeout_s": DEFAULT_TIMEOUT_S, **options}

    def has_controller(self, cc: str) -> bool:
        """Return whether the world's flows can run a congestion control of `bbrgym.VARIANTS`."""
        algorithm = VARIANTS[self.stand_ins.get(cc, cc)].algorithm
        if algorithm in PLUGIN_ALGORITHMS:
            return self.loads_plugins
        if algorithm == PYTHON_ALGORITHM:
            return self.loads_classes
        if algorithm in STOCK_OWNERS:
            return algorithm in self.stock_controls
        return self.our_algorithms is None or algorithm in self.our_algorithms


_SPECS: dict[str, WorldSpec] = {}


def register_world(name: str, engine: str, meaning: str, **capabilities: Any) -> None:
    """Make a world known to `make_world`.

    Args:
        name: taken by no other world.
        engine: dotted name of its engine's class.
        meaning: one line for people.
        capabilities: the other attributes of `WorldSpec`.

    Raises:
        ConfigError: the name is taken.
    """
    if name in _SPECS:
        raise ConfigError(f"world {name!r} is registered already, with engine {_SPECS[name].engine!r}")
    _SPECS[name] = WorldSpec(name, engine, meaning, **capabilities)


def registered_worlds() -> dict[str, WorldSpec]:
    """Return the registered worlds by name."""
    return dict(_SPECS)


def world_spec(name: str) -> WorldSpec:
    """Return a registered world.

    Raises:
        ConfigError: no world has the name.
    """
    if not isinstance(name, str) or name not in _SPECS:
        raise ConfigError(f"world {name!r}: {nearest(str(name), _SPECS)}")
    return _SPECS[name]


def runs_at_once(worlds: Iterable[str]) -> int:
    """Return how many runs of these worlds this process's cores allow at once: one a core, in real time one for two."""
    cores = len(os.sched_getaffinity(0))
    return max(1, cores // 2) if any(world_spec(name).is_real_time for name in worlds) else cores


register_world(
    "ns3",
    "bbrgym._ns3.Vector",
    "the reference: ns-3's network and TCP sockets, packet by packet",
    isolation="process",
    is_alone=True,
    can_trace=True,
    stock_controls=("ns-3",),
    loads_plugins=True,
    has_last_hops=True,
    options=("policy",),
    programs=("policy",),
)
register_world(
    "twin",
    "bbrgym._twin.Vector",
    "the fast one: a lean packet-level engine",
    holds_many=True,
    can_save=True,
    can_trace=True,
    loads_plugins=True,
    loads_classes=True,
    runs_quic=True,
    options=("policy",),
    programs=("policy",),
)
register_world(
    "ns3gym",
    "bbrgym.worlds.ns3gym_engine.Ns3GymEngine",
    "a network of your own: a program that serves a world, on any ns-3",
    isolation="process",
    is_program=True,
    stock_controls=("ns-3",),
    has_last_hops=True,
    options=("command", "cwd", "log"),
    programs=("command",),
)
register_world(
    "linux",
    "bbrgym.worlds.linux_engine.LinuxEngine",
    "this machine's kernel: its TCP sockets, in real time, with an emulator of the bottleneck between them",
    isolation="process",
    is_real_time=True,
    our_algorithms=KERNEL_ALGORITHMS,
    stand_ins={**KERNEL_STAND_INS, "switch": "kernel-cubic"},
    arms=("cubic", "reno", "bbr"),
    stock_controls=("linux",),
    has_paths=False,
    options=("timestamps", "user_namespace", "max_late_share", "policy"),
    programs=("policy",),
)
