# SPDX-License-Identifier: GPL-2.0-only
"""Selector of trees, which scikit-learn grows; what it has grown is kept and read as tables, without that library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bbrgym.agents.portfolio.selector import Examples, FitSettings, Selector
from bbrgym.errors import MissingExtraError


class TreeSelector(Selector):
    """Mean of some trees' predictions; see `Selector`.

    A node sends a draw whose feature is at most its threshold to the left; a leaf sends it to itself.

    Args:
        tables: `feature`, `left` and `right` [trees, nodes], `threshold` [trees, nodes] and `value` [trees, nodes,
            settings]; as in scikit-learn, a node stands before those that it leads to.
    """

    def __init__(self, tables: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.feature: Tensor
        self.threshold: Tensor
        self.left: Tensor
        self.right: Tensor
        self.value: Tensor
        for name in ("feature", "threshold", "left", "right", "value"):
            self.register_buffer(name, tables[name])
        trees, nodes, _ = self.value.shape
        self._roots = torch.arange(trees) * nodes  # of all nodes in one row, which `take` walks faster than a table
        self._depth = _depth(self.left, self.right)

    def forward(self, features: Tensor) -> Tensor:
        node = self._roots + torch.zeros_like(features[:, :1], dtype=torch.int64)  # of any N, when exported too
        for _ in range(self._depth):
            seen = features.gather(1, self.feature.take(node)).double()
            is_left = seen <= self.threshold.take(node)
            node = self._roots + torch.where(is_left, self.left.take(node), self.right.take(node))
        return self.value.flatten(0, 1)[node].mean(1)


def _depth(left: Tensor, right: Tensor) -> int:
    """Return the number of nodes on the longest way to a leaf."""
    depths = torch.zeros_like(left)
    trees = torch.arange(len(left))
    for node in range(left.shape[1]):
        for child in (left[:, node], right[:, node]):
            leads_on = child != node
            depths[trees[leads_on], child[leads_on]] = depths[leads_on, node] + 1
    return int(depths.max())


def fitted_trees(examples: Examples, fit: FitSettings, seed: int) -> TreeSelector:
    """Grow extremely randomised trees (Geurts, Ernst and Wehenkel, 2006); see `fitted`.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    forest = _forest_class()(
        fit.trees, min_samples_leaf=fit.leaf_draws, max_features=fit.split_share, random_state=seed % 2**32
    )
    forest.fit(examples.features.numpy(), examples.targets(fit.clip), sample_weight=examples.weights)
    grown = [tree.tree_ for tree in forest.estimators_]
    nodes = max(tree.node_count for tree in grown)
    value = np.zeros((len(grown), nodes, examples.scores.shape[1]), np.float32)
    feature, threshold = np.zeros((len(grown), nodes), np.int64), np.zeros((len(grown), nodes))
    left, right = (np.tile(np.arange(nodes), (len(grown), 1)) for _ in range(2))
    for number, tree in enumerate(grown):
        leads_on = np.flatnonzero(tree.children_left >= 0)
        feature[number, leads_on] = tree.feature[leads_on]
        threshold[number, leads_on] = tree.threshold[leads_on]
        left[number, leads_on], right[number, leads_on] = tree.children_left[leads_on], tree.children_right[leads_on]
        value[number, : tree.node_count] = tree.value[:, :, 0]
    tables = {"feature": feature, "threshold": threshold, "left": left, "right": right, "value": value}
    return TreeSelector({name: torch.from_numpy(table) for name, table in tables.items()})


def check_trees() -> None:
    """Check that trees can be grown.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    _forest_class()


def _forest_class() -> Any:
    try:
        from sklearn.ensemble import ExtraTreesRegressor  # takes a second to import, and only this fit needs it
    except ModuleNotFoundError as error:
        raise MissingExtraError("agent.fit.model=trees", "trees", error) from error
    return ExtraTreesRegressor
