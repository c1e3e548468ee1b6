# SPDX-License-Identifier: GPL-2.0-only
"""Tables of a header: the layers of all networks and the trees of all looks, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bbrgym.agents.deploy.integer_layer import IntegerLayer
from bbrgym.agents.deploy.integer_policy import IntegerPolicy
from bbrgym.agents.deploy.integer_probe import Look
from bbrgym.agents.deploy.integer_trees import IntegerTrees


@dataclass(frozen=True)
class PlacedLayer:
    """Layer of a network, and the fields of the state that it reads and writes; the last one writes ``layers[0]``."""

    number: int
    layer: IntegerLayer
    source: str
    target: str


@dataclass(frozen=True)
class PlacedLook:
    """Look, by where it stands in the tables.

    Attributes:
        layers: of its network.
        first_result: its first operand among the results.
        inputs: number of these, which the network is given.
        first_tree, end_tree: its trees.
        guard: operand that tells whether to take the first setting; -1 without one.
    """

    layers: list[PlacedLayer]
    first_result: int
    inputs: int
    first_tree: int
    end_tree: int
    guard: int


@dataclass
class HeaderTables:
    """Tables.

    Attributes:
        layers: of all networks.
        looks: of a policy that probes.
        results: operands of a program that networks are given.
        nodes: threshold, operand to compare with it (-1 of a leaf) and other node of each node of a tree.
        leaves: values of each leaf.
        roots: first node of each tree.
        depth: nodes on the longest way to a leaf.
    """

    layers: list[PlacedLayer] = field(default_factory=list)
    looks: list[PlacedLook] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    nodes: list[tuple[int, int, int]] = field(default_factory=list)
    leaves: list[list[int]] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    depth: int = 0

    @classmethod
    def of(cls, policy: IntegerPolicy) -> HeaderTables:
        """Return the tables of a policy."""
        tables = cls()
        tables._add_network(policy.layers)
        if policy.probe is not None:
            for look in policy.probe.looks:
                tables._add_look(look, policy.probe.program.outputs[look.first :].tolist())
        return tables

    def _add_look(self, look: Look, operands: list[int]) -> None:
        first_result, first_tree, layers = len(self.results), len(self.roots), list[PlacedLayer]()
        if isinstance(look.selector, IntegerTrees):
            self._add_trees(look.selector, operands)
        else:
            layers = self._add_network(look.selector)
            self.results += operands[: look.count]
        guard = operands[look.count] if look.is_guarded else -1
        inputs = len(self.results) - first_result
        self.looks.append(PlacedLook(layers, first_result, inputs, first_tree, len(self.roots), guard))

    def _add_network(self, layers: Sequence[IntegerLayer]) -> list[PlacedLayer]:
        targets = [f"layers[{(len(layers) - 1 - place) % 2}]" for place in range(len(layers))]
        rows = zip(layers, ["inputs", *targets], targets, strict=False)
        placed = [PlacedLayer(number, *row) for number, row in enumerate(rows, len(self.layers))]
        self.layers += placed
        return placed

    def _add_trees(self, trees: IntegerTrees, operands: Sequence[int]) -> None:
        node, leaf = len(self.nodes), len(self.leaves)
        rows = zip(trees.thresholds.tolist(), trees.features.tolist(), trees.others.tolist(), strict=True)
        for threshold, feature, other in rows:
            is_leaf = feature < 0
            self.nodes.append((threshold, -1 if is_leaf else operands[feature], other + (leaf if is_leaf else node)))
        self.leaves += trees.values.tolist()
        self.roots += (trees.roots + node).tolist()
        self.depth = max(self.depth, trees.depth)
