# SPDX-License-Identifier: GPL-2.0-only
"""Start runs of scenarios in a world, by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.files import Source, is_sequence, load_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.schema import argument, plain, shown
from bbrgym.tunables import PLUGIN_ALGORITHMS, VARIANTS
from bbrgym.worlds.specs import DEFAULT_TIMEOUT_S, ISOLATIONS, Isolation, WorldSpec, world_spec
from bbrgym.worlds.vector_world import VectorWorld, check_seed
from bbrgym.worlds.world import World


def make_world(
    name: str,
    scenario: Source,
    seed: int = 1,
    *,
    isolation: Isolation | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    options: Mapping[str, Any] | None = None,
) -> World:
    """Start a run of a scenario in a world.

    Args:
        name: name of the world, see `registered_worlds`.
        scenario: a Scenario, a name, a path or a mapping.
        seed: seed of all random numbers, 0 to 2**63 - 1; the same scenario and seed give the same bytes out.
        isolation: ``process`` runs it in a worker process, so that its abort is a WorldError and many may be open at
            once; ``none`` runs it in this process. Default: the world's own; with a user's file ``process``.
        timeout_s: the longest wall time the world may take to start, to reset, and for each simulated second of an
            advance (for a shorter advance: in all). After it the world raises WorldError.
        options: the world's own options, by name.

    Returns:
        The world at time 0; a context that closes it.

    Raises:
        ScenarioError, ConfigError: an argument is wrong.
        WorldError: the simulation broke.

    Example:
        >>> import bbrgym
        >>> with bbrgym.make_world("twin", "steady", seed=1) as world:
        ...     world.advance(2.0)
        ...     stats = world.flow_stats()  # [flows, fields], units in the fields' names
        ...     goodput_mbps = float(stats[0, world.flow_fields.index("goodput_mbps")])
        >>> stats.shape == (1, len(world.flow_fields)), 9 < goodput_mbps < 10
        (True, True)
    """
    return World(
        make_vector_world(
            name, 1, [scenario], [seed], threads=1, isolation=isolation, timeout_s=timeout_s, options=options
        )
    )


def make_vector_world(
    name: str,
    num_worlds: int,
    scenario: Source | Sequence[Source],
    seeds: int | Sequence[int] = 1,
    *,
    flow_capacity: int | None = None,
    threads: int | None = None,
    isolation: Isolation | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    options: Mapping[str, Any] | None = None,
) -> VectorWorld:
    """Start many runs in worlds that advance together.

    Args:
        name: name of the world, see `registered_worlds`.
        num_worlds: number of runs.
        scenario: a Scenario, a name, a path or a mapping; or a sequence of these, one for each world.
        seeds: seed of each world; a single one s means s, s + 1, ...
        flow_capacity: the most flows of any scenario to come. Default: the most of the given ones.
        threads: number of worlds that run at once. Default: the number of cores of this process.
        isolation: as for `make_world`; in worker processes, each world has its own.
        timeout_s: as for `make_world`.
        options: as for `make_world`.

    Raises:
        ScenarioError, ConfigError: an argument is wrong.
        WorldError: a simulation broke.
    """
    spec = world_spec(name)
    if isolation is not None and isolation not in ISOLATIONS:
        raise ConfigError(f"isolation {isolation!r}: {nearest(str(isolation), ISOLATIONS)}")
    num_worlds = _count("num_worlds", num_worlds)
    threads = None if threads is None else _count("threads", threads)
    scenario, seeds, options = plain(scenario), plain(seeds), plain(options or {})
    if not isinstance(options, Mapping):
        raise ConfigError(f"options: {shown(options)}, allowed is a mapping of names to values")
    sources: Sequence[Any] = scenario if is_sequence(scenario) else [scenario] * num_worlds
    all_seeds = seeds if is_sequence(seeds) else [check_seed(seeds) + i for i in range(num_worlds)]
    if len(sources) != num_worlds or len(all_seeds) != num_worlds:
        raise ConfigError(f"{num_worlds} worlds, but {len(sources)} scenarios and {len(all_seeds)} seeds")
    scenarios = [load_scenario(source) for source in sources]
    return VectorWorld(
        spec,
        scenarios,
        all_seeds,
        flow_capacity=flow_capacity,
        threads=threads or len(os.sched_getaffinity(0)),
        isolation=isolation or _isolation_of(spec, scenarios),
        timeout_s=timeout_s,
        options=spec.given_options(options),
    )


def _isolation_of(spec: WorldSpec, scenarios: Sequence[Scenario]) -> Isolation:
    """Return the world's own isolation, or a process for a user's file, of which a crash ends the run alone."""
    ccs = {flow.cc for scenario in scenarios for flow in scenario.flows}
    return "process" if any(VARIANTS[cc].algorithm in PLUGIN_ALGORITHMS for cc in ccs) else spec.isolation


def _count(name: str, number: Any) -> int:
    return int(argument(name, number, int, "are numbers from 1", 1, 2**31))
