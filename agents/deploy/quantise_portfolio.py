# SPDX-License-Identifier: GPL-2.0-only
"""Turns a portfolio agent into a policy in integer arithmetic that identifies the path and chooses alike."""

from __future__ import annotations

import numpy as np
import torch

from bbrgym.agents.deploy.integer_policy import Choice, Identification, IntegerLayer, IntegerPolicy
from bbrgym.agents.deploy.quantise import ObservationPlan, whole_settings, whole_weights
from bbrgym.agents.deploy.trace_program import traced
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.selector import Selector
from bbrgym.envs.flow_batch import FlowBatch
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch


def quantise_portfolio(agent: PortfolioAgent, batch: TuneBatch | FlowBatch, options: Options) -> IntegerPolicy:
    """Return the agent in integer arithmetic.

    Raises:
        ConfigError: it has no form in integers.
    """
    plan, routine, network = ObservationPlan(batch, options), agent.routine, agent.network()
    reselects = routine.pause is not None
    is_input = np.zeros((routine.intervals, batch.observation.width), np.bool_)
    flows = batch.max_tuned if isinstance(batch, TuneBatch) else 1
    is_input[:, : flows * len(batch.observation.features)] = True
    if reselects:
        is_input[-1, -len(plan.tunables) :] = True  # the setting that was held
    example = torch.full((1, *is_input.shape), 0.5)
    selector = network.selector
    identification = Identification(
        intervals=routine.intervals,
        pause=routine.pause or routine.intervals,
        reselects=reselects,
        program=traced(lambda history: selector.inputs(network.features(history)), example, is_input),
    )
    settings = np.concatenate([agent.library, routine.setting[None]])
    return plan.policy(
        agent.name,
        Choice(*whole_settings(*batch.scaling.snap(settings), plan.tunables)),
        layers=quantise_networks(selector),
        identification=identification,
    )


def quantise_networks(selector: Selector) -> tuple[IntegerLayer, ...]:
    """Return one network whose outputs are the means of the networks' outputs, without units that count nowhere."""
    layers: list[tuple[torch.Tensor, torch.Tensor]] = []
    for place, (weights, biases) in enumerate(selector.layers):
        each = weights.transpose(1, 2)  # [networks, outputs, inputs]
        if place == 0:
            layers.append((each.flatten(0, 1), biases.flatten()))
        elif place < len(selector.layers) - 1:
            layers.append((torch.block_diag(*each), biases.flatten()))  # type: ignore[no-untyped-call]
        else:
            layers.append((torch.cat([*each], dim=1) / len(each), biases.mean((0, 1))))
    for place in range(len(layers) - 1, 0, -1):
        (before, added_before), (whole, added) = layers[place - 1 : place + 1]
        counts = whole.any(0)
        layers[place - 1 : place + 1] = (before[counts], added_before[counts]), (whole[:, counts], added)
    return tuple(
        IntegerLayer(
            *whole_weights(whole.double().numpy(), added.double().numpy()),
            "relu" if place < len(layers) - 1 else "none",
        )
        for place, (whole, added) in enumerate(layers)
    )
