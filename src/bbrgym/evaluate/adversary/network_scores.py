# SPDX-License-Identifier: GPL-2.0-only
"""Scores of entrants on networks side by side."""

from __future__ import annotations

from collections.abc import Sequence

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
from bbrgym.worlds.score import score_of_world


def entrant_named(option: str, name: str) -> Entrant:
    """Return an entrant: a variant, a trained agent, or a reference.

    Args:
        option: that names it, for the error.
        name: a variant, a run folder, or a reference such as ``library-best:RUN``.

    Raises:
        ConfigError: there is no such entrant.
    """
    if name in VARIANTS:
        return preset(name)
    try:
        (entrant,) = entrants_of(name, parse_settings({"variants": []}))
    except (ConfigError, ValueError) as error:
        allowed = ", ".join(VARIANTS)
        raise ConfigError(f"{option}: {name!r} is no variant ({allowed}) and no agent: {error}") from error
    return entrant


class NetworkScores:
    """Scores of entrants in a world, where the RTT weighs ``delta``. Default of ``threads``: one per core."""

    def __init__(self, world: str, delta: float, threads: int | None) -> None:
        self._world, self._delta, self._threads = world, delta, threads

    def scores(self, entrant: Entrant, networks: Sequence[Scenario], seeds: Sequence[int]) -> Table:
        """Return the scores, [networks, seeds]; NaN where nothing was measured.

        Raises:
            ConfigError: the entrant cannot run a network.
            WorldError: a simulation failed.
        """
        scenarios = [entrant.prepared(network) for network in networks for _ in seeds]
        run_seeds = [seed for _ in networks for seed in seeds]
        if isinstance(entrant, Preset):
            found = self._fixed(scenarios, run_seeds)
        elif isinstance(entrant, Learned):
            found = self._tuned(entrant, scenarios, run_seeds)
        else:
            raise ConfigError(f"agent: {entrant.agent} knows what no agent can, expected a variant or a trained agent")
        return found.reshape(len(networks), len(seeds))

    def _fixed(self, scenarios: Sequence[Scenario], seeds: Sequence[int]) -> Table:
        worlds = make_vector_world(self._world, len(scenarios), list(scenarios), list(seeds), threads=self._threads)
        try:
            worlds.run_to_end()
            return np.array([score_of_world(worlds, index, delta=self._delta) for index in range(len(scenarios))])
        finally:
            worlds.close()

    def _tuned(self, entrant: Learned, scenarios: Sequence[Scenario], seeds: Sequence[int]) -> Table:
        options = entrant.options(world=self._world, scenario=list(scenarios), threads=self._threads)
        rollout = make_rollout(options, seeds)
        try:
            return rollout.scores(entrant.controller.tuner, delta=self._delta)
        finally:
            rollout.close()
