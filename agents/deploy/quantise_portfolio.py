# SPDX-License-Identifier: GPL-2.0-only
"""Turns a portfolio agent into a policy in integer arithmetic, which identifies the path and chooses as it does."""

from __future__ import annotations

import numpy as np
import torch

from bbrgym.agents.deploy.fixed_point import MAX_NUMBER, MAX_WEIGHT, Q20
from bbrgym.agents.deploy.integer_policy import Choice, Identification, IntegerPolicy, IntegerTrees
from bbrgym.agents.deploy.quantise import ObservationPlan, shift_to, whole_settings
from bbrgym.agents.deploy.trace_program import traced
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
    plan, routine = ObservationPlan(batch, options), agent.routine
    is_input = np.zeros((routine.intervals, batch.observation.width), np.bool_)
    flows = batch.max_tuned if isinstance(batch, TuneBatch) else 1
    is_input[:, : flows * len(batch.observation.features)] = True
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
        pause=routine.pause,
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


def quantise_trees(selector: TreeSelector, first_input: int = 0) -> IntegerTrees:
    """Return the trees; their sums are those of the selector's values times a power of two, with 16 bits each.

    Args:
        selector: the trees.
        first_input: number of the input that is the selector's first feature.
    """
    features: list[int] = []
    others: list[int] = []
    roots: list[int] = []
    nodes: list[tuple[int, int]] = []  # tree of each node, and its number there
    leaves: list[tuple[int, int]] = []
    tables = (selector.feature + first_input, selector.left, selector.right)
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
