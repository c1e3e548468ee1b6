# SPDX-License-Identifier: GPL-2.0-only
"""Draws of the episodes of a training: all networks of a distribution alike, by cost, or favoured by a curriculum.

Each class draws a scenario from an episode's seed, as environments ask for, and each episode runs with its own seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import Field

from bbrgym.agents.training.draws import training_draws
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.schema import Count, Float, Model
from bbrgym.worlds import Table


class CurriculumSettings(Model):
    """Settings of a curriculum, see `bbrgym.agents.training.curriculum`.

    Attributes:
        share: of the episodes that are of networks of the pool, the others are drawn as without a curriculum.
        pool: number of networks of the pool.
        library: contents of the library with which the agent is compared. Default: that of its actions.
    """

    share: Annotated[Float, Field(gt=0, le=1)] = 0.5
    pool: Annotated[Count, Field(le=100_000)] = 256
    library: dict[str, Any] | None = None


class DrawSettings(Model):
    """Settings of the draws of a training's episodes.

    Attributes:
        by_cost: whether fewer are of fast networks, see `bbrgym.agents.training.draws`.
        curriculum: settings of the curriculum. Default: none.
    """

    by_cost: bool = False
    curriculum: CurriculumSettings | None = None


DrawScenario: TypeAlias = Callable[[int], Scenario]
"""Function from the seed of an episode to its scenario."""


@dataclass(frozen=True)
class DrawsByCost:
    """Draws of a distribution's training split by cost.

    Attributes:
        source: the distribution.
    """

    source: Distribution

    @property
    def name(self) -> str:
        """Return the name of the distribution."""
        return self.source.name

    @property
    def max_tuned(self) -> int:
        """Return the largest number of tuned flows of a draw."""
        return self.source.max_tuned

    def __call__(self, seed: int) -> Scenario:
        """Return the scenario of an episode's seed."""
        return next(training_draws(self.source, seed)).scenario


@dataclass(frozen=True)
class FavouredDraws:
    """Draws of which a share are of some given networks.

    Attributes:
        name: of the distribution.
        max_tuned: largest number of tuned flows of a draw.
        others: draws the scenarios of the other episodes.
        networks: the given ones.
        chances: of each of them, [networks]; they add up to 1.
        share: of the episodes.
    """

    name: str
    max_tuned: int
    others: DrawScenario
    networks: tuple[Scenario, ...]
    chances: Table
    share: float

    def __call__(self, seed: int) -> Scenario:
        """Return the scenario of an episode's seed."""
        generator = np.random.default_rng([seed, *b"curriculum"])
        if generator.random() >= self.share:
            return self.others(seed)
        return self.networks[int(generator.choice(len(self.networks), p=self.chances))]
