# SPDX-License-Identifier: GPL-2.0-only
"""Policies in integer arithmetic: the model of what `bbrgym export --format c` writes, equal to it in every bit.

A policy takes measurements in whole units (`IntegerField`) and returns tunables as ``cc/`` keeps them: ratios in Q16,
the rest in their own unit. In between:

    features   Q16, from 0 to 65536 (`bbrgym.envs.features`)
    parts      Q16, from 0 to 65536: where a tunable is in its range, its coordinate mapped from [-1, 1]
    weights    int16, with a power of two for each layer as scale
    sums       int64, which cannot overflow; a layer's outputs are Q16 and saturate at 32 bits

Logarithm, power and tanh are tables of 256 or 512 steps with straight lines between. All of them rise with their
argument, and so do the features and, with the part, the tunables.

A policy that probes (`Probe`) keeps the features of the probe's intervals, in Q20; a program (`ScalarProgram`) makes
what its networks or trees are given from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bbrgym.agents.deploy.integer_layer import IntegerLayer
from bbrgym.agents.deploy.integer_memory import IntegerMemory, Memories
from bbrgym.agents.deploy.integer_probe import Probe, Probing
from bbrgym.agents.deploy.integer_tables import Q16, Integers, exp2, log2
from bbrgym.agents.deploy.scalar_program import BITS

MAX_FIELD = 1 << 40
"""Largest value of a measurement; larger ones count as this, negative ones as 0."""

FACTOR_BITS = 40


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
class IntegerFeature:
    """Feature of whole fields: ``(y - low) * factor / 2^40`` in Q16 (2^36 in Q20), y limited to `span` from `low`.

    Attributes:
        scale: ``log`` (y in Q20), ``linear`` (y in the field's unit, of a ratio in Q16) or ``within`` (1 inside).
        field: number of the field; behind these, of what is remembered.
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
    """Tunable in whole units, and how its part is mapped to them.

    Attributes:
        name: name of the tunable.
        unit: its unit in the table of tunables.
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
    scale: Literal["log", "linear", "whole"]
    low: int
    high: int
    low_log2: int
    high_log2: int
    not_below: int
    least: int

    @property
    def is_bounded(self) -> bool:
        """Return whether another tunable bounds it from below."""
        return self.not_below >= 0 or self.least > self.low


@dataclass(frozen=True)
class Moves:
    """Head of a network with an output for each tunable.

    Attributes:
        is_relative: whether outputs move the parts; else they are coordinates.
        steps: distance by which an output of 1 moves each part, Q16.
        limits: largest distance that each part moves, Q16.
    """

    is_relative: bool
    steps: Integers
    limits: Integers


@dataclass(frozen=True)
class Choice:
    """Head of a network with an output for each of K settings, of which the largest is taken, the first of equals.

    Attributes:
        values: the settings in whole units, [K, tunables].
        parts: their parts, [K, tunables].
    """

    values: Integers
    parts: Integers


@dataclass(frozen=True)
class IntegerPolicy:
    """A policy in integer arithmetic.

    Attributes:
        agent: name of the agent.
        variant: variant whose tunables it sets.
        interval_us: time between two decisions.
        is_per_flow: whether each flow has a controller of its own; else one sets the tunables of all learner flows.
        flows: largest number of flows that a controller observes.
        is_pooled: whether it observes statistics over its flows.
        stack: number of intervals that it observes.
        hold: number of intervals for which a decision holds.
        fields: fields that it observes.
        memory: what it remembers of them.
        features: features of each flow.
        tunables: tunables that it sets.
        layers: layers of the network; of a policy that probes its looks have theirs.
        head: function of the last layer's outputs.
        probe: routine of a policy that probes; None of others.
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
    layers: tuple[IntegerLayer, ...]
    head: Moves | Choice
    probe: Probe | None = None

    @property
    def fields_index(self) -> dict[str, int]:
        """Return the numbers of the fields by their names in a world."""
        return {field.source: number for number, field in enumerate(self.fields)}

    @property
    def bits(self) -> int:
        """Return the digits of features behind the point."""
        return 16 if self.probe is None else BITS

    @property
    def view(self) -> int:
        """Return the number of numbers of an interval."""
        features = len(self.features)
        if self.probe is not None:
            return self.flows * features
        return (3 * features + 1 if self.is_pooled else self.flows * features) + len(self.tunables)

    def decide(self, inputs: Integers, parts: Integers) -> tuple[Integers, Integers]:
        """Return tunables and their parts, [N, tunables] both.

        Args:
            inputs: observations in Q16, [N, stack * view].
            parts: of the current tunables, [N, tunables].
        """
        outputs = inputs
        for layer in self.layers:
            outputs = layer.outputs(outputs)
        if isinstance(self.head, Choice):
            chosen = outputs.argmax(axis=1)
            return self.head.values[chosen], self.head.parts[chosen]
        outputs = np.clip(outputs, -Q16, Q16)
        absolute = (outputs + Q16 + 1) >> 1
        targets = parts + (self.head.steps * outputs >> 16) if self.head.is_relative else absolute
        targets = np.clip(targets, parts - self.head.limits, parts + self.head.limits)
        return self.snap(np.clip(targets, 0, Q16))

    def snap(self, parts: Integers) -> tuple[Integers, Integers]:
        """Return tunables at parts, and the parts, of whole numbers in the middle of theirs: [N, tunables] both."""
        parts, values = parts.copy(), np.zeros_like(parts)
        for index, tunable in self._lower_ones_first():
            low, part = self._least(tunable, values), parts[:, index]
            if tunable.scale == "whole":
                count = tunable.high - tunable.low + 1
                nth = np.maximum((part * count + Q16 - 1 >> 16) - 1, 0)
                values[:, index] = tunable.low + nth
                parts[:, index] = ((2 * nth + 1) << 15) // count
            elif tunable.scale == "log":
                low_log2 = _low_log2(tunable, low)
                wanted = exp2(low_log2 + ((tunable.high_log2 - low_log2) * part >> 16))
                values[:, index] = np.clip(wanted, low, tunable.high)
            else:
                values[:, index] = low + ((tunable.high - low) * part + Q16 // 2 >> 16)
        return values, parts

    def parts_of(self, values: Integers) -> Integers:
        """Return the parts of tunables: [N, tunables] both."""
        parts = np.zeros_like(values)
        for index, tunable in enumerate(self.tunables):
            low, value = self._least(tunable, values), values[:, index]
            if tunable.scale == "whole":
                count = tunable.high - tunable.low + 1
                parts[:, index] = ((2 * np.clip(value - low, 0, count - 1) + 1) << 15) // count
                continue
            value, high = np.clip(value, low, tunable.high), np.array(tunable.high)
            if tunable.scale == "log":
                low, value, high = _low_log2(tunable, low), log2(value), np.array(tunable.high_log2)
            above, span = np.maximum(value - low, 0), high - low
            parts[:, index] = np.minimum(((above << 16) + (span >> 1)) // np.maximum(span, 1), Q16)
        return parts

    def features_of(self, fields: Integers) -> Integers:
        """Return the features of measurements and what is remembered: [..., fields + memory] -> [..., features]."""
        given = np.clip(fields, 0, MAX_FIELD)
        return np.stack([_feature(feature, given, self.bits) for feature in self.features], axis=-1)

    def numbers_of(self, fields: Integers, parts: Integers) -> Integers:
        """Return the numbers of an interval, [N, view].

        Args:
            fields: measurements of the flows that there are and what is remembered, [N, up to flows, fields + memory].
            parts: of the current tunables, [N, tunables].
        """
        absent = ((0, 0), (0, self.flows - fields.shape[1]), (0, 0))
        features = np.pad(self.features_of(fields), absent)
        if self.probe is not None:
            return features.reshape(len(fields), -1)
        if not self.is_pooled:
            return np.concatenate([features.reshape(len(fields), -1), parts], axis=1)
        names = [field.source for field in self.fields]
        is_active = np.pad(fields, absent)[:, :, names.index("active")] > 0
        count, chosen = is_active.sum(axis=1)[:, None], is_active[:, :, None]
        mean = (2 * (features * chosen).sum(axis=1) + count) // np.maximum(2 * count, 1)
        smallest = np.where(chosen, features, Q16).min(axis=1) * (count > 0)
        largest = np.where(chosen, features, 0).max(axis=1)
        return np.concatenate([mean, smallest, largest, (count << 16) // self.flows, parts], axis=1)

    def _lower_ones_first(self) -> list[tuple[int, IntegerTunable]]:
        return sorted(enumerate(self.tunables), key=lambda one: one[1].is_bounded)

    @staticmethod
    def _least(tunable: IntegerTunable, values: Integers) -> Integers:
        """Return the least value of a tunable in each row."""
        bound = values[:, tunable.not_below] if tunable.not_below >= 0 else np.full(len(values), tunable.least)
        least: Integers = np.maximum(bound, tunable.low) if tunable.is_bounded else np.full(len(values), tunable.low)
        return least


class IntegerController:
    """Controllers at work, with what they remember.

    Args:
        policy: the policy.
        values: tunables at the beginning, [N, tunables].

    Attributes:
        parts: of the current tunables, [N, tunables]; may be replaced.
        chosen: setting of each that is held, [N]; -1 while it probes, and of policies that do not.
    """

    def __init__(self, policy: IntegerPolicy, values: Integers) -> None:
        self.policy = policy
        self.parts = policy.parts_of(values)
        self.chosen = np.full(len(values), -1, np.int64)
        self._values = values
        self._memories = Memories(policy.memory, policy.fields_index, policy.interval_us, (len(values), policy.flows))
        self._inputs: Integers | None = None
        self._ticks = 0
        self._probes = [] if policy.probe is None else [Probing(policy.flows, policy.probe) for _ in values]

    def decide(self, fields: Integers) -> Integers:
        """Return the tunables for the next interval, [N, tunables].

        Args:
            fields: the last interval's measurements of the flows that there are, [N, up to flows, fields].
        """
        numbers = self.policy.numbers_of(self._memories.extended(fields), self.parts)
        if self.policy.probe is not None:
            self._choose(self.policy.probe, numbers)
            self._values, self.parts = self._settings()
            return self._values
        if self._inputs is None:
            self._inputs = np.tile(numbers, (1, self.policy.stack))
        else:
            self._inputs = np.concatenate([self._inputs[:, self.policy.view :], numbers], axis=1)
        if self._ticks % self.policy.hold == 0:
            self._values, self.parts = self.policy.decide(self._inputs, self.parts)
        self._ticks += 1
        return self._values

    def _choose(self, probe: Probe, numbers: Integers) -> None:
        """Take an interval's numbers; choose for those that look now."""
        taken = [one.take(row, parts) for one, row, parts in zip(self._probes, numbers, self.parts, strict=True)]
        due = [(one, one.look, inputs) for one, inputs in zip(self._probes, taken, strict=True) if inputs is not None]
        for look in range(len(probe.looks)):
            choosing = [(one, inputs) for one, number, inputs in due if number == look]
            if choosing:
                found = probe.choose(np.stack([inputs for _, inputs in choosing]), look)
                for (one, _), setting in zip(choosing, found, strict=True):
                    one.hold(setting)
        self.chosen = np.array([one.held for one in self._probes])

    def _settings(self) -> tuple[Integers, Integers]:
        """Return the tunables of what is chosen, and their parts."""
        probe, head = self.policy.probe, self.policy.head
        if probe is None or not isinstance(head, Choice):
            raise ValueError("probe: a policy that probes chooses one of some settings")
        is_held = self.chosen[:, None] >= 0
        values = np.where(is_held, head.values[self.chosen], probe.values)
        return values, np.where(is_held, head.parts[self.chosen], probe.parts)


# ---- functions ----------------------------------------------------------------------------------------


def _low_log2(tunable: IntegerTunable, low: Integers) -> Integers:
    return np.where(low > tunable.low, log2(low), tunable.low_log2)


def _feature(feature: IntegerFeature, fields: Integers, bits: int) -> Integers:
    x = fields[..., feature.field]
    if feature.scale == "within":
        return np.where((feature.low <= x) & (x <= feature.low + feature.span), 1 << bits, 0)
    per = fields[..., feature.per] if feature.per >= 0 else np.ones_like(x)
    is_known = (per > 0) & ((x > 0) | (feature.scale != "log"))
    if feature.scale == "log":
        y = log2(x) - log2(per)
    else:
        y = ((x << 16) + (per >> 1)) // np.maximum(per, 1) if feature.per >= 0 else x
    y = np.where(is_known, y, 0 if feature.scale == "linear" else feature.low)
    above = np.clip(y - feature.low, 0, feature.span)
    digits = FACTOR_BITS + 16 - bits
    found: Integers = (above * feature.factor + (1 << (digits - 1))) >> digits
    return found
