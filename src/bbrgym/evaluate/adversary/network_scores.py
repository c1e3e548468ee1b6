# SPDX-License-Identifier: GPL-2.0-only
"""Scores of entrants on networks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from bbrgym.agents.rollout import make_rollout
from bbrgym.errors import ConfigError
from bbrgym.evaluate.agent_entrants import Learned
from bbrgym.evaluate.entrant_list import entrants_of
from bbrgym.evaluate.entrants import Entrant, Preset, preset
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import Table, make_vector_world
from bbrgym.worlds.score import Objective


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
            found = rollout.scores(entrant.controller.make_policy, objective=Objective(delta))
    else:
        raise ConfigError(f"agent: {entrant.agent} knows what no agent can, expected a variant or a trained agent")
    return found.reshape(len(networks), len(seeds))
