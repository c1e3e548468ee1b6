# SPDX-License-Identifier: GPL-2.0-only
"""Turns a portfolio agent into a policy in integer arithmetic: it probes, chooses and holds as the agent does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from bbrgym.agents.portfolio.policy import PortfolioAgent, PortfolioNetwork
from bbrgym.agents.portfolio.quantise_trees import quantise_trees
from bbrgym.agents.training.integer_policy import Choice, IntegerPolicy
from bbrgym.agents.training.integer_probe import Look, Probe
from bbrgym.agents.training.quantise import ObservationPlan, whole_settings
from bbrgym.agents.training.scalar_program import traced
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch


def quantise_portfolio(agent: PortfolioAgent, batch: TuneBatch, options: Options) -> IntegerPolicy:
    """Return the agent in integer arithmetic.

    Args:
        agent: the agent.
        batch: environment that it acts in.
        options: arguments of the environment.

    Raises:
        ConfigError: it has no form in integers.
    """
    plan, routine = ObservationPlan(batch, options), agent.routine
    is_input = np.zeros((routine.intervals, routine.width), np.bool_)
    is_input[:, : batch.max_tuned * len(batch.observation.features)] = True
    if len(agent.networks) > 1:
        is_input[-1, -len(plan.tunables) :] = True
    example = torch.full((1, *is_input.shape), 0.5)
    settings = np.concatenate([routine.setting[None], agent.library])
    values, parts = whole_settings(*batch.scaling.snap(settings), plan.tunables)
    probe = Probe(
        intervals=routine.intervals,
        values=values[0],
        parts=parts[0],
        program=traced(given_to(agent.networks), example, is_input),
        looks=tuple(_looks(agent.networks, example)),
    )
    return plan.policy(agent.name, (), Choice(values[1:], parts[1:]), probe)


def given_to(looks: Sequence[PortfolioNetwork]) -> Callable[[Tensor], Tensor]:
    """Return the function from what was observed, [N, intervals, numbers], to what the looks' selectors are given.

    That is [N, features] of the first look, then the same of the second.
    """
    return lambda history: torch.cat([look.features(history) for look in looks], dim=1)


def _looks(looks: Sequence[PortfolioNetwork], example: Tensor) -> Iterator[Look]:
    """Yield the looks, by the numbers that they are given of a program's results."""
    first = 0
    for look in looks:
        count = look.features(example).shape[1]
        yield Look(first, count, quantise_trees(look.selector))
        first += count
