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
from typing import TYPE_CHECKING, Literal

from .fixed_point import Integers

if TYPE_CHECKING:
    from bbrgym.envs.memory import Kind

Activation = Literal["none", "relu", "tanh"]

OPERATIONS = (
    *("add", "subtract", "multiply", "divide", "smaller", "larger", "less"),
    *("exp", "log", "sqrt", "choose"),
)
"""Operations of a program, by number; `bbrgym.agents.deploy.trace_program` says what they do."""


@dataclass(frozen=True)
class IntegerField:
    """Measured field in whole units."""

    name: str  # with the unit
    source: str  # the field of a world
    per_unit: int  # whole units in one of the source's


@dataclass(frozen=True)
class IntegerMemory:
    """Number that is remembered of a flow, see `bbrgym.envs.memory`."""

    kind: Kind
    field: int  # number of the field
    minus: int  # number of the field that is subtracted from it; -1 without one
    # of `ewma`, the weight of an interval relative to the next one, Q32; of `high`, what an interval leaves of a
    # difference, Q32; of `low`, the intervals in half of its time; else 0
    keep: int
    digits: int  # behind the point of the number that is remembered, in the field's whole unit


@dataclass(frozen=True)
class IntegerFeature:
    """Feature of whole fields: ``(y - low) * factor / 2^40`` in Q16 (2^36 in Q20), y limited to `span` from `low`."""

    # ``log`` (y in Q20), ``linear`` (y in the field's unit, of a ratio in Q16) or ``within`` (1 inside)
    scale: Literal["log", "linear", "within"]
    field: int  # number of the field; behind the fields, of what is remembered
    per: int  # number of the field or of what is remembered to divide by; -1 without one
    low: int  # smallest y
    span: int  # length of the range of y
    factor: int  # Q56 divided by the span


@dataclass(frozen=True)
class IntegerTunable:
    """Tunable in whole units, and the mapping of a position to these units."""

    name: str
    unit: str  # its unit in the table of tunables
    per_unit: int  # whole units in one of that
    scale: Literal["log", "linear", "whole"]
    low: int  # smallest value
    high: int  # largest value
    low_log2: int  # log2 of the exact low end, in Q20; 0 unless the scale is ``log``
    high_log2: int  # the same of the high end
    not_below: int  # number of the tunable that bounds it from below; -1 without one
    least: int  # smallest value that an uncontrolled tunable leaves it; `low` without one


@dataclass(frozen=True)
class IntegerLayer:
    """Layer of a network: ``activation((weights x + biases) / 2^shift)``."""

    weights: Integers  # int16 values, [outputs, inputs]
    biases: Integers  # [outputs]
    shift: int  # digits of the weights behind the point
    activation: Activation  # function of the outputs


@dataclass(frozen=True)
class Moves:
    """Head of a network with an output for each tunable."""

    is_relative: bool  # whether outputs move the positions; else they are normalised actions
    steps: Integers  # distance by which an output of 1 moves each position, Q16
    limits: Integers  # largest distance that each position moves, Q16


@dataclass(frozen=True)
class Choice:
    """Head with an output for each of K settings, of which the largest is taken, the first of equal ones."""

    # the settings in whole units, [K, tunables]; of a portfolio also that of the identification, the last
    values: Integers
    positions: Integers  # their positions, of the same shape


@dataclass(frozen=True, eq=False)
class ScalarProgram:
    """Steps of operations on single numbers, Q20."""

    # number of the operation, cell of the result and three operands of each step, [steps, 5]; an operand is the number
    # of a constant, behind these of an input, behind these of a cell
    steps: Integers
    constants: Integers
    inputs: int
    cells: int
    outputs: Integers  # operands that are the results


@dataclass(frozen=True, eq=False)
class Identification:
    """First intervals of a portfolio, after which the policy chooses a setting and holds or reselects."""

    intervals: int  # number of intervals that a choice goes by
    pause: int  # number of intervals from a choice to the next one, at most as many
    reselects: bool  # whether it may choose another setting while it holds one
    # from the features of each flow in each of the intervals, Q20, to the inputs of the policy's layers; if it
    # reselects, from the positions of the tunables in the last interval too, Q20
    program: ScalarProgram


@dataclass(frozen=True)
class IntegerPolicy:
    """A policy in integer arithmetic."""

    agent: str  # name of the agent
    variant: str  # variant whose tunables it sets
    interval_us: int  # time between two decisions
    is_per_flow: bool  # whether each flow has a controller of its own; else one sets the tunables of all tuned flows
    flows: int  # largest number of flows that a controller observes
    is_pooled: bool  # whether it observes statistics over its flows
    stack: int  # number of intervals that it observes
    hold: int  # number of intervals for which a decision holds
    fields: tuple[IntegerField, ...]  # fields that it observes
    memory: tuple[IntegerMemory, ...]  # numbers that it remembers of them
    features: tuple[IntegerFeature, ...]  # features of each flow
    tunables: tuple[IntegerTunable, ...]  # tunables that it sets
    head: Moves | Choice  # function of the outputs
    layers: tuple[IntegerLayer, ...] = ()  # layers of the network
    identification: Identification | None = None  # of a portfolio; None of a network

    @property
    def feature_bits(self) -> int:
        """Return the digits of features behind the point."""
        return 16 if self.identification is None else 20

    @property
    def view(self) -> int:
        """Return the number of the inputs of a network from one interval."""
        features = len(self.features)
        return (3 * features + 1 if self.is_pooled else self.flows * features) + len(self.tunables)
