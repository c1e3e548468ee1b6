# SPDX-License-Identifier: GPL-2.0-only
"""Turns a portfolio agent into a policy in integer arithmetic, which identifies the path and chooses as it does."""

from __future__ import annotations

import numpy as np
import torch

from bbrgym.agents.deploy.fixed_point import MAX_NUMBER, MAX_WEIGHT, Q16, Q20
from bbrgym.agents.deploy.integer_policy import (
    Activation,
    Choice,
    Identification,
    IntegerLayer,
    IntegerPolicy,
    IntegerTrees,
)
from bbrgym.agents.deploy.quantise import ObservationPlan, shift_to, whole_settings, whole_weights
from bbrgym.agents.deploy.trace_program import traced
from bbrgym.agents.portfolio.network_selector import NetworkSelector
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.tree_selector import TreeSelector
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
        trees=quantise_trees(selector) if isinstance(selector, TreeSelector) else None,
    )
    settings = np.concatenate([agent.library, routine.setting[None]])
    return plan.policy(
        agent.name,
        Choice(*whole_settings(*batch.scaling.snap(settings), plan.tunables)),
        layers=quantise_networks(selector) if isinstance(selector, NetworkSelector) else (),
        identification=identification,
    )


def quantise_networks(selector: NetworkSelector) -> tuple[IntegerLayer, ...]:
    """Return the networks as one, whose outputs are their means."""
    layers = []
    for place, (weights, biases) in enumerate(selector.layers):
        each = weights.transpose(1, 2)  # [networks, outputs, inputs]
        if place == 0:
            whole, added = each.flatten(0, 1), biases.flatten()
        elif place < len(selector.layers) - 1:
            whole, added = torch.block_diag(*each), biases.flatten()  # type: ignore[no-untyped-call]
        else:
            whole, added = torch.cat([*each], dim=1) / len(each), biases.mean((0, 1))
        activation: Activation = "relu" if place < len(selector.layers) - 1 else "none"
        numbers = whole_weights(whole.double().numpy(), added.double().numpy(), Q16, MAX_WEIGHT)
        layers.append(IntegerLayer(*numbers, activation))
    return tuple(layers)


def quantise_trees(selector: TreeSelector) -> IntegerTrees:
    """Return the trees; their sums are those of the selector's values times a power of two, with 16 bits each."""
    features: list[int] = []
    others: list[int] = []
    roots: list[int] = []
    nodes: list[tuple[int, int]] = []  # tree of each node, and its number there
    leaves: list[tuple[int, int]] = []
    tables = (selector.feature, selector.left, selector.right)
    for tree, (feature, left, right) in enumerate(zip(*(table.tolist() for table in tables), strict=True)):
        order = _preorder(left, right)
        place = {node: len(nodes) + index for index, node in enumerate(order)}
        roots.append(len(nodes))
        nodes += [(tree, node) for node in order]
        for node in order:
            if left[node] == node:
                features.append(-1)
                others.append(len(leaves))
                leaves.append((tree, node))
            else:
                features.append(feature[node])
                others.append(place[right[node]])
    thresholds = np.floor(selector.threshold.numpy()[tuple(np.array(nodes).T)] * Q20).clip(-MAX_NUMBER - 1, MAX_NUMBER)
    values = selector.value.numpy()[tuple(np.array(leaves).T)].astype(np.float64)
    scale = 1 << shift_to(np.abs(values).max(), MAX_WEIGHT)
    return IntegerTrees(
        features=np.array(features, np.int64),
        thresholds=np.where(np.array(features) >= 0, thresholds, 0).astype(np.int64),
        others=np.array(others, np.int64),
        roots=np.array(roots, np.int64),
        values=np.rint(values * scale).astype(np.int64),
    )


def _preorder(left: list[int], right: list[int]) -> list[int]:
    """Return the nodes of a tree, each before those that it leads to, the left one first."""
    order: list[int] = []
    waiting = [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if left[node] != node:
            waiting += [right[node], left[node]]
    return order
