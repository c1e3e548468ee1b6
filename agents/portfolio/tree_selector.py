# SPDX-License-Identifier: GPL-2.0-only
"""Selector: trees, kept as tables, from an identification's features to the score of each setting of the library."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class TreeSelector(nn.Module):
    """Predicts the score of each setting less their mean: features [N, features] -> [N, settings].

    It is the mean of some trees' predictions.

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

    def inputs(self, features: Tensor) -> Tensor:
        """Return what the trees compare, [N, features]."""
        return features

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
