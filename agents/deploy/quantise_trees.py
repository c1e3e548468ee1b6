# SPDX-License-Identifier: GPL-2.0-only
"""Turns a selector of trees into trees in integer arithmetic, in which the left one of two nodes comes next."""

from __future__ import annotations

import numpy as np

from bbrgym.agents.deploy.fixed_point import MAX_NUMBER, MAX_WEIGHT, Q20
from bbrgym.agents.deploy.integer_policy import IntegerTrees
from bbrgym.agents.deploy.quantise import shift_to
from bbrgym.agents.portfolio.tree_selector import TreeSelector


def quantise_trees(selector: TreeSelector, first_input: int = 0) -> IntegerTrees:
    """Return the trees; their sums are those of the selector's values times a power of two, with 16 bits each.

    Args:
        selector: the trees.
        first_input: number of the input that is the selector's first feature.
    """
    row = _Row()
    tables = (selector.feature + first_input, selector.left, selector.right)
    roots = [
        row.add_tree(number, *tree)
        for number, tree in enumerate(zip(*(table.tolist() for table in tables), strict=True))
    ]
    inner, leaves = np.array(row.features) >= 0, np.array(row.leaves)
    sources = np.array(row.sources)
    thresholds = np.floor(selector.threshold.numpy()[tuple(sources.T)] * Q20).clip(-MAX_NUMBER - 1, MAX_NUMBER)
    values = selector.value.numpy()[tuple(leaves.T)].astype(np.float64)
    scale = 1 << shift_to(np.abs(values).max(), MAX_WEIGHT)
    return IntegerTrees(
        features=np.array(row.features, np.int64),
        thresholds=np.where(inner, thresholds, 0).astype(np.int64),
        others=np.array(row.others, np.int64),
        roots=np.array(roots, np.int64),
        values=np.rint(values * scale).astype(np.int64),
    )


class _Row:
    """Nodes of all trees in one row.

    Attributes:
        features, others: see `IntegerTrees`.
        sources: tree of each node, and its number there.
        leaves: the same of the leaves alone.
    """

    def __init__(self) -> None:
        self.features: list[int] = []
        self.others: list[int] = []
        self.sources: list[tuple[int, int]] = []
        self.leaves: list[tuple[int, int]] = []

    def add_tree(self, tree: int, feature: list[int], left: list[int], right: list[int]) -> int:
        """Add the nodes of a tree; return the place of its root."""
        root = len(self.features)
        waiting: list[tuple[int, int | None]] = [(0, None)]  # nodes, and the places whose other node they are
        while waiting:
            node, above = waiting.pop()
            place = len(self.features)
            if above is not None:
                self.others[above] = place
            self.sources.append((tree, node))
            if left[node] == node:
                self.features.append(-1)
                self.others.append(len(self.leaves))
                self.leaves.append((tree, node))
            else:
                self.features.append(feature[node])
                self.others.append(-1)
                waiting += [(right[node], place), (left[node], None)]
        return root
