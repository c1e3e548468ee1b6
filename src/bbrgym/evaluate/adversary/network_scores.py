# SPDX-License-Identifier: GPL-2.0-only
"""Scores of entrants on networks side by side, and the harm that they do to others there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from bbrgym.agents.rollout import make_rollout
from bbrgym.errors import ConfigError
from bbrgym.evaluate.adversary.adversary_settings import Adversary
from bbrgym.evaluate.agent_entrants import Learned
from bbrgym.evaluate.entrant_list import entrants_of
from bbrgym.evaluate.entrants import Entrant, Preset, preset
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import Table, VectorWorld, make_vector_world
from bbrgym.worlds.score import Objective, harm_of_flows


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


@dataclass(frozen=True)
class _HarmObjective(Objective):
    """Minus the mean harm to the flows that are not tuned; NaN without such flows."""

    references: Sequence[Table] = ()  # summary of each world's reference runs, [flows, fields], NaN for tuned flows

    def of_world(self, worlds: VectorWorld, index: int) -> float:
        tables = worlds.summary(index)[0], self.references[index]
        run, reference = (dict(zip(worlds.flow_summary_fields, table.T, strict=True)) for table in tables)
        harms = harm_of_flows(run, reference)["harm"]
        known = harms[~np.isnan(harms)]
        return -float(known.mean()) if known.size else math.nan


def scores_on(
    world: str, entrant: Entrant, networks: Sequence[Scenario], seeds: Sequence[int], settings: Adversary
) -> Table:
    """Return an entrant's scores in a world, or minus the harm that it does, if that is the goal: [networks, seeds].

    It is NaN where nothing was measured.

    Raises:
        ConfigError: the entrant cannot run a network.
        WorldError: a simulation failed.
    """
    repeated = [network for network in networks for _ in seeds]
    scenarios, threads = [entrant.prepared(network) for network in repeated], settings.threads
    run_seeds = [seed for _ in networks for seed in seeds]
    objective = Objective(settings.score_delta)
    if settings.goal == "harm":
        objective = _HarmObjective(references=_references(world, repeated, run_seeds, threads))
    if isinstance(entrant, Preset):
        with closing(make_vector_world(world, len(scenarios), scenarios, run_seeds, threads=threads)) as worlds:
            worlds.run_to_end()
            found = np.array([objective.of_world(worlds, index) for index in range(len(scenarios))])
    elif isinstance(entrant, Learned) and entrant.kind != "reference":
        options = entrant.options(world=world, scenario=scenarios, threads=threads)
        with closing(make_rollout(options, run_seeds)) as rollout:
            found = rollout.scores(entrant.controller.make_policy, objective=objective)
    else:
        raise ConfigError(f"agent: {entrant.agent} knows what no agent can, expected a variant or a trained agent")
    return found.reshape(len(networks), len(seeds))


def _references(world: str, networks: Sequence[Scenario], seeds: Sequence[int], threads: int | None) -> list[Table]:
    """Return for each network the rows of the flows that are not tuned with their own control in the tuned ones' place.

    Raises:
        WorldError: a simulation failed.
    """
    controls = [
        np.array([None if flow.role == "tuned" else flow.cc for flow in network.resolved().flows])
        for network in networks
    ]
    fields = len(VectorWorld.flow_summary_fields)
    found = [np.full((len(of_flows), fields), np.nan) for of_flows in controls]
    runs = [(at, cc) for at, of_flows in enumerate(controls) for cc in dict.fromkeys(of_flows) if cc is not None]
    if not runs:
        return found
    scenarios, run_seeds = [with_variant(networks[at], cc) for at, cc in runs], [seeds[at] for at, _ in runs]
    with closing(make_vector_world(world, len(scenarios), scenarios, run_seeds, threads=threads)) as worlds:
        worlds.run_to_end()
        for index, (at, cc) in enumerate(runs):
            found[at][controls[at] == cc] = worlds.summary(index)[0][controls[at] == cc]
    return found
