# SPDX-License-Identifier: GPL-2.0-only
"""Turns a portfolio agent into a policy in integer arithmetic, which identifies the path and chooses as it does."""

from __future__ import annotations

import numpy as np
import torch

from bbrgym.agents.deploy.integer_policy import Choice, Identification, IntegerPolicy, IntegerTrees
from bbrgym.agents.deploy.quantise import ObservationPlan, whole_settings
from bbrgym.agents.deploy.quantise_trees import quantise_trees
from bbrgym.agents.deploy.trace_program import traced
from bbrgym.agents.portfolio.policy import PortfolioAgent
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
        is_input[-1, -len(plan.tunables) :] = True  # the setting that was held
    example = torch.full((1, *is_input.shape), 0.5)
    selectors: list[IntegerTrees] = []
    results = 0
    for network in agent.networks:
        selectors.append(quantise_trees(network.selector, results))
        results += network.features(example).shape[1]
    identification = Identification(
        intervals=routine.intervals,
        program=traced(
            lambda history: torch.cat([network.features(history) for network in agent.networks], dim=1),
            example,
            is_input,
        ),
        selectors=tuple(selectors),
    )
    settings = np.concatenate([agent.library, routine.setting[None]])
    return plan.policy(
        agent.name, Choice(*whole_settings(*batch.scaling.snap(settings), plan.tunables)), identification=identification
    )
