# SPDX-License-Identifier: GPL-2.0-only
"""Draws to train on, sampled by cost: a fast network takes long to simulate, so fewer of these are run.

A draw is kept with the probability min(1, (`CHEAP_MBPS` / rate)^`EXPONENT`) and weighs its inverse, so weighted means
over the kept draws estimate means over the distribution. Episodes weigh the same, whatever their draw: `DrawsByCost`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bbrgym.scenario.distribution import SPLITS, Distribution
from bbrgym.scenario.model import Scenario
from bbrgym.schema import Model

CHEAP_MBPS = 30.0
"""Rate up to which every draw is kept."""

EXPONENT = 0.8
"""How fast the probability falls with the rate; packets, and so the cost, rise almost in proportion to it."""


EPISODES_MBPS, EPISODES_EXPONENT = 15.0, 1.0
"""Both for the draws of episodes: each step of a policy costs a simulation, so fewer yet are of fast networks."""


class DrawSettings(Model):
    """Settings of the draws of a training's episodes."""

    by_cost: bool | None = None  # whether fewer are of fast networks. Default: with PPO, where scenarios are drawn


@dataclass(frozen=True)
class TrainingDraw:
    """A scenario to train on."""

    scenario: Scenario  # drawn
    seed: int  # of the draw, from the training split
    weight: float  # in means over draws, from 1 on

    def run_seed(self, number: int) -> int:
        """Return the seed of a numbered run of the scenario, another one for each number."""
        drawn = np.random.SeedSequence([self.seed, number, *b"run"]).generate_state(1, np.uint64)[0]
        return int(drawn >> np.uint64(1))


def training_draws(
    source: Scenario | Distribution,
    seed: int,
    *,
    by_cost: bool = True,
    cheap_mbps: float = CHEAP_MBPS,
    exponent: float = EXPONENT,
) -> Iterator[TrainingDraw]:
    """Yield draws of the training split without end.

    Args:
        source: a distribution; or a scenario, which all draws are then.
        seed: of the sampling.
        by_cost: whether draws are sampled by cost, see the module. Default: true.
        cheap_mbps: rate up to which every draw is kept.
        exponent: how fast the probability falls with the rate.
    """
    generator = np.random.default_rng(seed)
    split = SPLITS["train"]
    while True:
        drawn, part = int(generator.integers(split.start, split.stop)), float(generator.random())
        scenario = source if isinstance(source, Scenario) else source(drawn)
        rate_mbps = scenario.link.rate_mbps if by_cost else None  # also None of a link that follows a trace
        kept = 1.0 if rate_mbps is None else min(1.0, (cheap_mbps / rate_mbps) ** exponent)
        if part < kept:
            yield TrainingDraw(scenario, drawn, 1.0 / kept)


@dataclass(frozen=True)
class DrawsByCost:
    """Draws by cost of the scenarios of episodes, each from the episode's seed."""

    source: Distribution  # the distribution

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
        draws = training_draws(self.source, seed, cheap_mbps=EPISODES_MBPS, exponent=EPISODES_EXPONENT)
        return next(draws).scenario
