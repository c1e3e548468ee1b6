# SPDX-License-Identifier: GPL-2.0-only
"""Policies in integer arithmetic: the tables that `policy_header` writes and `policy_runtime.h` runs.

A policy takes measurements in whole units (`IntegerField`) and returns tunables as ``cc/`` keeps them: ratios in Q16,
the rest in their own unit. In between:

    features    Q16, from 0 to 1 (`bbrgym.envs.features`); Q20 in a portfolio
    positions   Q16, from 0 to 1: where a tunable is in its range, its coordinate mapped from [-1, 1]
    weights     int16, with a power of two for each layer as scale
    sums        int64, which cannot overflow; a layer's outputs are Q16 and saturate at 32 bits
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bbrgym.agents.deploy.fixed_point import Integers
from bbrgym.envs.memory import Kind

Activation = Literal["none", "relu", "tanh"]


@dataclass(frozen=True)
class IntegerField:
    """Measured field in whole units.

    Attributes:
        name: name, with the unit.
        source: the field of a world.
        per_unit: whole units in one of the source's.
    """

    name: str
    source: str
    per_unit: int


@dataclass(frozen=True)
class IntegerMemory:
    """Number that is remembered of a flow, see `bbrgym.envs.memory`.

    Attributes:
        kind: computation.
        field: number of the field.
        minus: number of the field that is subtracted from it; -1 without one.
        keep: of `ewma`, the weight of an interval relative to the next one, Q32; else 0.
    """

    kind: Kind
    field: int
    minus: int
    keep: int


@dataclass(frozen=True)
class IntegerFeature:
    """Feature of whole fields: ``(y - low) * factor / 2^40`` in Q16 (2^36 in Q20), y limited to `span` from `low`.

    Attributes:
        scale: ``log`` (y in Q20), ``linear`` (y in the field's unit, of a ratio in Q16) or ``within`` (1 inside).
        field: number of the field; behind the fields, of what is remembered.
        per: number of the field or of what is remembered to divide by; -1 without one.
        low: smallest y.
        span: length of the range of y.
        factor: Q56 divided by the span.
    """

    scale: Literal["log", "linear", "within"]
    field: int
    per: int
    low: int
    span: int
    factor: int


@dataclass(frozen=True)
class IntegerTunable:
    """Tunable in whole units, and how its position is mapped to them.

    Attributes:
        name: name of the tunable.
        unit: its unit in the table of tunables.
        per_unit: whole units in one of that.
        scale: ``log``, ``linear`` or ``whole``.
        low: smallest value.
        high: largest value.
        low_log2: log2 of the exact low end, in Q20; 0 unless the scale is ``log``.
        high_log2: the same of the high end.
        not_below: number of the tunable that bounds it from below; -1 without one.
        least: smallest value that an uncontrolled tunable leaves it; `low` without one.
    """

    name: str
    unit: str
    per_unit: int
    scale: Literal["log", "linear", "whole"]
    low: int
    high: int
    low_log2: int
    high_log2: int
    not_below: int
    least: int


@dataclass(frozen=True)
class IntegerLayer:
    """Layer of a network: ``activation((weights x + biases) / 2^shift)``.

    Attributes:
        weights: int16 values, [outputs, inputs].
        biases: [outputs].
        shift: digits of the weights behind the point.
        activation: function of the outputs.
    """

    weights: Integers
    biases: Integers
    shift: int
    activation: Activation


@dataclass(frozen=True)
class Moves:
    """Head of a network with an output for each tunable.

    Attributes:
        is_relative: whether outputs move the positions; else they are normalised actions.
        steps: distance by which an output of 1 moves each position, Q16.
        limits: largest distance that each position moves, Q16.
    """

    is_relative: bool
    steps: Integers
    limits: Integers


@dataclass(frozen=True)
class Choice:
    """Head with an output for each of K settings, of which the largest is taken, the first of equal ones.

    Attributes:
        values: the settings in whole units, [K, tunables]; of a portfolio also that of the identification, the last.
        positions: their positions, of the same shape.
    """

    values: Integers
    positions: Integers


@dataclass(frozen=True, eq=False)
class ScalarProgram:
    """Steps of operations on single numbers, Q20.

    Attributes:
        steps: number of the operation, cell of the result and three operands of each step, [steps, 5]; an operand is
            the number of a constant, behind these of an input, behind these of a cell.
        constants: numbers.
        inputs: number of inputs.
        cells: number of cells.
        outputs: operands that are the results.
    """

    steps: Integers
    constants: Integers
    inputs: int
    cells: int
    outputs: Integers


@dataclass(frozen=True, eq=False)
class IntegerTrees:
    """Some trees, the nodes of all in one row.

    A node sends an input that is at most its threshold to the node behind it, a larger one to its other node. Inputs
    and thresholds are Q20. A threshold is rounded down, which changes no comparison: a whole number is at most a
    threshold if it is at most the whole number below it.

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


@dataclass(frozen=True, eq=False)
class Identification:
    """First intervals of a portfolio, after which it chooses a setting and holds it, or reselects.

    Attributes:
        intervals: number of intervals, also from one choice to the next.
        program: from the features of each flow in each of the intervals, Q20, to the inputs of the selectors; of two
            selectors, from the positions of the tunables in the last interval too, Q20.
        selectors: trees with an output for each setting: the first one's choose after the identification, the second
            one's, if there is one, whenever as much time has passed again. Their inputs are the program's results.
    """

    intervals: int
    program: ScalarProgram
    selectors: tuple[IntegerTrees, ...]

    @property
    def reselects(self) -> bool:
        """Return whether it may choose another setting while it holds one."""
        return len(self.selectors) > 1


@dataclass(frozen=True)
class IntegerPolicy:
    """A policy in integer arithmetic.

    Attributes:
        agent: name of the agent.
        variant: variant whose tunables it sets.
        interval_us: time between two decisions.
        is_per_flow: whether each flow has a controller of its own; else one sets the tunables of all tuned flows.
        flows: largest number of flows that a controller observes.
        is_pooled: whether it observes statistics over its flows.
        stack: number of intervals that it observes.
        hold: number of intervals for which a decision holds.
        fields: fields that it observes.
        memory: numbers that it remembers of them.
        features: features of each flow.
        tunables: tunables that it sets.
        head: function of the outputs.
        layers: layers of the network; none of a portfolio.
        identification: of a portfolio; None of a network.
    """

    agent: str
    variant: str
    interval_us: int
    is_per_flow: bool
    flows: int
    is_pooled: bool
    stack: int
    hold: int
    fields: tuple[IntegerField, ...]
    memory: tuple[IntegerMemory, ...]
    features: tuple[IntegerFeature, ...]
    tunables: tuple[IntegerTunable, ...]
    head: Moves | Choice
    layers: tuple[IntegerLayer, ...] = ()
    identification: Identification | None = None

    @property
    def view(self) -> int:
        """Return the number of a network's inputs from one interval."""
        features = len(self.features)
        return (3 * features + 1 if self.is_pooled else self.flows * features) + len(self.tunables)
