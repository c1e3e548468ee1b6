# SPDX-License-Identifier: GPL-2.0-only
"""Curriculum of a training: networks on which the agent trails the best of a library's settings come more often.

As in Genet (Xia et al., SIGCOMM 2022), the distance to a simple reference says where there is something to learn, and
no network is favoured because it is merely hard. The networks are a pool of training draws. What the best setting of a
library scores on each is known once; at each checkpoint the agent runs on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from bbrgym.agents.base import Agent
from bbrgym.agents.rollout import make_rollout
from bbrgym.agents.training.draws import training_draws
from bbrgym.agents.training.episode_draws import CurriculumSettings, DrawScenario, FavouredDraws
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.trials import Trials
from bbrgym.envs.library import load_library
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Table


class Curriculum:
    """Networks of a training, and how far its agent is behind on each.

    Args:
        asked: settings of the curriculum.
        settings: of the training.
        source: distribution that it trains on.

    Raises:
        ConfigError: an option cannot be used.
        WorldError: a simulation failed.
    """

    def __init__(self, asked: CurriculumSettings, settings: TrainingSettings, source: Distribution) -> None:
        by_cost = settings.draws.by_cost
        draws = islice(training_draws(source, settings.stream("curriculum", 0), by_cost=by_cost), asked.pool)
        pool = [(draw.scenario, draw.run_seed(0)) for draw in draws]
        self._networks = [scenario for scenario, _ in pool]
        seeds = [seed for _, seed in pool]
        self._share = asked.share
        self._source = source
        self._delta = settings.validation.score_delta
        self._best_scores = _best_scores(asked, settings, self._networks, seeds)
        options = settings.validation_options()
        self._rollout = make_rollout(replace(options, scenario=self._networks), seeds)

    def gaps(self, agent: Agent) -> Table:
        """Return by how much an agent scores less than the best setting on each network, at least 0: [pool].

        A network on which nothing was measured counts as without a gap.

        Raises:
            WorldError: a simulation failed.
        """
        behind = self._best_scores - self._rollout.scores(agent.tuner, delta=self._delta)
        return np.maximum(np.nan_to_num(behind), 0.0)

    def draws(self, gaps: Table, others: DrawScenario) -> DrawScenario:
        """Return what draws the scenarios of the next episodes.

        Args:
            gaps: of the networks of the pool, which are drawn in proportion to them, [pool].
            others: draws the scenarios of episodes that are not of the pool.
        """
        total = float(gaps.sum())
        if total == 0.0:
            return others
        name, tuned = self._source.name, self._source.max_tuned
        return FavouredDraws(name, tuned, others, tuple(self._networks), gaps / total, self._share)

    def close(self) -> None:
        """End the worlds."""
        self._rollout.close()


def _best_scores(
    asked: CurriculumSettings, settings: TrainingSettings, networks: Sequence[Scenario], seeds: Sequence[int]
) -> Table:
    """Return the score of the library's best setting in the run of each network, [pool]."""
    library = load_library(asked.library or settings.action["library"], settings.variant)
    world = settings.validation.world
    with Trials(
        networks,
        seeds,
        settings.variant,
        library.tunables,
        world=world,
        world_settings=settings.world.get(world),
        threads=settings.threads,
        delta=settings.validation.score_delta,
    ) as trials:
        coordinates = trials.action.coordinates(library.values(library.tunables))
        best: Table = np.array([trials.scores(setting) for setting in coordinates]).max(axis=0)
    return best
