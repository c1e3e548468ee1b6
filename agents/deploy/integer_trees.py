# SPDX-License-Identifier: GPL-2.0-only
"""Trees in integer arithmetic: thresholds on the inputs, and leaves whose values are summed.

Inputs and thresholds are Q20. A threshold is rounded down, which changes no comparison: a whole number is at most a
threshold if it is at most the whole number below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bbrgym.agents.deploy.integer_tables import Integers


@dataclass(frozen=True, eq=False)
class IntegerTrees:
    """Some trees, the nodes of all in one row.

    A node sends an input that is at most its threshold to the node behind it, a larger one to its other node.

    Attributes:
        features: number of the input that a node compares; -1 of a leaf, [nodes].
        thresholds: to compare it with, [nodes].
        others: the other node; of a leaf its row of values, [nodes].
        roots: first node of each tree, [trees].
        values: int16 values of the leaves, in parts of a power of two, [leaves, outputs].
    """

    features: Integers
    thresholds: Integers
    others: Integers
    roots: Integers
    values: Integers

    @property
    def depth(self) -> int:
        """Return the number of nodes on the longest way to a leaf, without the leaf."""
        depths = np.zeros(len(self.features), np.int64)
        for node in np.flatnonzero(self.features >= 0).tolist():  # each before those that it leads to
            depths[[node + 1, self.others[node]]] = depths[node] + 1
        return int(depths.max())

    def outputs(self, inputs: Integers) -> Integers:
        """Return the sums over the trees, [N, outputs], of inputs, [N, inputs]."""
        node = np.tile(self.roots, (len(inputs), 1))
        while True:
            feature = self.features[node]
            is_leaf = feature < 0
            if is_leaf.all():
                summed: Integers = self.values[self.others[node]].sum(axis=1)
                return summed
            seen = np.take_along_axis(inputs, np.maximum(feature, 0), axis=1)
            following = np.where(seen <= self.thresholds[node], node + 1, self.others[node])
            node = np.where(is_leaf, node, following)
