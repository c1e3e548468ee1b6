# SPDX-License-Identifier: GPL-2.0-only
"""The interface between worlds and their callers, to implement for a new world.

An engine is a class with the methods of `Engine`, in C++ (`bbrgym._twin.Vector`, `bbrgym._ns3.Vector`) or Python. One
line makes it a world::

    register_world("mine", "my_package.my_module.MyEngine", "my own network")

after which ``make_world("mine", scenario)``, the environments and the commands know it. `VectorWorld` checks arguments,
owns the arrays and turns failures into `WorldError`; an engine only runs.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from bbrgym.errors import ConfigError
from bbrgym.worlds.layout import Flags, Table


class Engine(Protocol):
    """Runs of one or more worlds on the caller's arrays.

    Args:
        num_worlds: how many it holds; 1 unless the world is registered with ``holds_many``.
        threads: the most threads it may use, the caller's included.
        timeout_s: the longest wall time of a start, of a reset, and of each simulated second of an advance (of a
            shorter advance: in all); see `advance_timeout_s`. Worlds that a thread runs one after the other have this
            time each. Infinite in a worker process, whose owner watches the time.
        options: the world's own, as given to ``make_world(..., options={...})``.

    Errors:
        A ``ValueError`` is the caller's mistake: nothing ran, and the run can go on. Any other exception breaks the
        run: an engine of one world is closed then, and the next reset makes a new one. `EngineFailure` gives the reason
        in full; of any other exception the reason is type and text.

    Optional methods: ``links(index)``, the rows of the links of a scenario that has several, [links, `LINK_FIELDS` and
    `LINK_SUMMARY_FIELDS`]; ``save(index)`` and ``restore(index, state)``, for worlds registered with
    ``can_save``; ``trace_acks(index, flow, max_rows)`` and ``ack_trace(index, flow)``; ``trace_packets(index)`` and
    ``take_packets(index)``. `VectorWorld` says what each does.
    """

    def __init__(self, num_worlds: int, threads: int, timeout_s: float, **options: Any) -> None: ...

    def lay_out(
        self, flow_capacity: int, tunables: Table, flow_stats: Table, link_stats: Table, now_s: Table, done: Flags
    ) -> None:
        """Use these arrays from now on; called before the first reset, and again when room for more flows is made.

        Runs go on; the arrays hold what the former ones held.

        Args:
            flow_capacity: F, the most flows that a scenario can have.
            tunables: [worlds, F, tunables], to be read before each interval; NaN where a flow does not have a tunable.
            flow_stats: [worlds, F, `FLOW_FIELDS`], to be written after each interval.
            link_stats: [worlds, `LINK_FIELDS`], likewise.
            now_s: [worlds], simulated seconds since each run's beginning.
            done: [worlds], whether the scenario's end is reached.
        """

    def reset(self, index: int, scenario_json: str | None, seed: int) -> None:
        """Begin a run of one world.

        Fills its rows: initial tunables, the stats of an empty interval, time 0. Rows of flows that the scenario does
        not have become NaN.

        Args:
            index: which world.
            scenario_json: the resolved scenario (`Scenario.resolved_json`); None: the one that the world runs.
            seed: of all random numbers.
        """

    def advance(self, durations_s: Table) -> None:
        """Run worlds, each for its simulated time, at most to the scenario's end.

        Applies the tunables first: a bad value is a ValueError, and its world does not run. Writes stats, time and
        ``done``. An error in one world is raised after the others have run. An engine in the caller's process ends the
        advance within some tens of milliseconds when a signal's handler raises (Ctrl-C), which it raises in turn, or
        when ``timeout_s`` is over, an `EngineFailure`; the worlds that ran are in the middle of an interval then.

        Args:
            durations_s: [worlds], simulated seconds; below 0 of one that does not run.
        """

    def summary(self, index: int, flow_out: Table, link_out: Table) -> None:
        """Write the measurements from the end of the warm-up to now.

        Args:
            index: which world.
            flow_out: [flows, `FLOW_SUMMARY_FIELDS`].
            link_out: [`LINK_SUMMARY_FIELDS`].
        """

    def close(self) -> None:
        """End the runs and free all resources; a second call does nothing.

        Called from another thread it ends an advance that is under way, too.
        """


def engine_class(path: str) -> Any:
    """Import the class of an engine.

    Args:
        path: dotted name of the class.

    Raises:
        ImportError, AttributeError: there is none.
        ConfigError: it lacks methods of `Engine`.
    """
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    methods = [method for method in vars(Engine) if not method.startswith("_")]
    missing = [method for method in methods if not callable(getattr(found, method, None))]
    if missing or not isinstance(found, type):
        lacks = f"it has no {', '.join(missing)}" if missing else "it is not a class"
        raise ConfigError(f"{path} is not an engine: {lacks}, expected a class like bbrgym.worlds.engine.Engine")
    return found


def advance_timeout_s(timeout_s: float, duration_s: float) -> float:
    """Return the longest wall time of an advance by ``duration_s``, in seconds."""
    return timeout_s * max(1.0, duration_s)
