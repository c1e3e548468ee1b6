# SPDX-License-Identifier: GPL-2.0-only
"""Scores of entrants on networks side by side, and the harm that they do to the other flows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing

import numpy as np
import polars as pl

from bbrgym.agents.rollout import make_rollout
from bbrgym.errors import ConfigError
from bbrgym.evaluate.agent_entrants import Learned
from bbrgym.evaluate.entrant_list import entrants_of
from bbrgym.evaluate.entrants import Entrant, Preset, preset
from bbrgym.evaluate.evaluation import Draw, PreparedEvaluation, plan, plan_references
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.evaluate.records import per_run
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import Table, make_vector_world
from bbrgym.worlds.score import Objective

_AT_ONCE_S = 3600.0  # interval of runs of which nothing but the summary is kept


def entrant_named(option: str, name: str) -> Entrant:
    """Return the entrant that an option names: a variant, a run folder, or a reference such as ``library-best:RUN``.

    Raises:
        ConfigError: there is no such entrant.
    """
    if name in VARIANTS:
        return preset(name)
    try:
        (entrant,) = entrants_of(name, parse_settings({"variants": []}))
    except (ConfigError, ValueError) as error:
        allowed = ", ".join(VARIANTS)
        raise ConfigError(f"{option}: {name!r} is not a variant ({allowed}) and no agent: {error}") from error
    return entrant


def scores_on(
    world: str, entrant: Entrant, networks: Sequence[Scenario], seeds: Sequence[int], delta: float, threads: int | None
) -> Table:
    """Return an entrant's scores in a world, [networks, seeds]; NaN where nothing was measured.

    Raises:
        ConfigError: the entrant cannot run a network.
        WorldError: a simulation failed.
    """
    scenarios = [entrant.prepared(network) for network in networks for _ in seeds]
    run_seeds = [seed for _ in networks for seed in seeds]
    if isinstance(entrant, Preset):
        with closing(make_vector_world(world, len(scenarios), scenarios, run_seeds, threads=threads)) as worlds:
            worlds.run_to_end()
            found = np.array([Objective(delta).of_world(worlds, index) for index in range(len(scenarios))])
    elif isinstance(entrant, Learned) and entrant.kind != "reference":
        options = entrant.options(world=world, scenario=scenarios, threads=threads)
        with closing(make_rollout(options, run_seeds)) as rollout:
            found = rollout.scores(entrant.controller.make_policy, Objective(delta))[0]
    else:
        raise ConfigError(f"agent: {entrant.agent} knows what no agent can, expected a variant or a trained agent")
    return found.reshape(len(networks), len(seeds))


def harms_on(
    world: str, entrant: Entrant, networks: Sequence[Scenario], seeds: Sequence[int], threads: int | None
) -> Table:
    """Return the mean harm to the flows that are not tuned, [networks, seeds]; NaN where there is none.

    Raises:
        ConfigError: the entrant cannot run a network.
        WorldError: a simulation failed.
    """
    settings = parse_settings({"variants": [], "world": world, "interval_s": _AT_ONCE_S, "jobs": threads})
    draws = [Draw(network, seed, keeps_series=False) for network in networks for seed in seeds]
    references = [
        job
        for job in plan_references(draws, settings)
        if any(flow.role != "tuned" and flow.cc == job.entrant.variant for flow in job.scenario.flows)
    ]
    jobs = plan([entrant], draws, settings)
    prepared = PreparedEvaluation(networks[0], settings, {}, [entrant], draws, jobs, references)
    harms = per_run(prepared.run(None).summary)["harm"].cast(pl.Float64).fill_null(math.nan)
    return harms.to_numpy().reshape(len(networks), len(seeds))
