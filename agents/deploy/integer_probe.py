# SPDX-License-Identifier: GPL-2.0-only
"""Probes in integer arithmetic: what a policy keeps of a probe's intervals, how it chooses, and when it looks again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bbrgym.agents.deploy.integer_layer import IntegerLayer
from bbrgym.agents.deploy.integer_tables import Integers
from bbrgym.agents.deploy.integer_trees import IntegerTrees
from bbrgym.agents.deploy.scalar_program import BITS, ScalarProgram


@dataclass(frozen=True, eq=False)
class Look:
    """Choice of a setting by results of a program, of which the largest output is taken, the first of equals.

    Attributes:
        first: number of the first result that the selector is given.
        count: number of these.
        selector: layers of a network, or trees, with an output for each setting.
        is_guarded: whether the result behind these tells whether to take the first setting instead.
    """

    first: int
    count: int
    selector: tuple[IntegerLayer, ...] | IntegerTrees
    is_guarded: bool = False

    def choose(self, results: Integers) -> Integers:
        """Return the numbers of the settings, [N], by the results of the program, Q20, [N, results]."""
        given = results[:, self.first : self.first + self.count]
        if isinstance(self.selector, IntegerTrees):
            outputs = self.selector.outputs(given)
        else:
            outputs = (given + (1 << (BITS - 17))) >> (BITS - 16)
            for layer in self.selector:
                outputs = layer.outputs(outputs)
        chosen: Integers = outputs.argmax(axis=1)
        return np.where(results[:, self.first + self.count] > 0, 0, chosen) if self.is_guarded else chosen


@dataclass(frozen=True, eq=False)
class Probe:
    """Routine of a policy that probes, chooses by what it saw and holds that, until it looks again or the path changes.

    Attributes:
        intervals: of the probe.
        values: tunables during the probe in whole units, [tunables].
        parts: their parts, [tunables].
        program: from the features of each flow in each of the intervals, Q20, to what the looks are given; with two
            looks, of the parts of the tunables in the last interval too, Q20.
        looks: choices: after the probe, and, if there are two, again whenever as much time has passed.
        watched: number of the feature by which the path's changes are seen; -1: they are not.
        window: intervals over which it is averaged.
        threshold: difference of two sums over a window that is a change, Q20.
    """

    intervals: int
    values: Integers
    parts: Integers
    program: ScalarProgram
    looks: tuple[Look, ...]
    watched: int = -1
    window: int = 1
    threshold: int = 0

    @property
    def looks_again(self) -> bool:
        """Return whether it may choose another setting while it holds one."""
        return len(self.looks) > 1

    def choose(self, inputs: Integers, look: int = 0) -> list[int]:
        """Return the settings to hold, [N], by the inputs of the program, [N, inputs]."""
        chosen: list[int] = self.looks[look].choose(self.program.run(inputs)).tolist()
        return chosen


class Probing:
    """Probe of one controller, or the setting that it holds.

    Args:
        flows: number of flows that it observes.
        probe: its routine.

    Attributes:
        history: numbers of the intervals since the last choice; until the next interval those that led to it.
        held: setting that is held; -1 while it probes.
    """

    def __init__(self, flows: int, probe: Probe) -> None:
        self._flows, self._probe = flows, probe
        self._has_begun = False
        self.history: list[Integers] = []
        self.held = -1
        self._recent: list[int] = []
        self._seen = self._reference = 0

    @property
    def look(self) -> int:
        """Return the number of the look that chooses next."""
        return 1 if self.held >= 0 else 0

    def take(self, numbers: Integers, parts: Integers) -> Integers | None:
        """Take an interval; return the inputs of the program if a setting is to be chosen now.

        Args:
            numbers: features of all flows.
            parts: of the interval's tunables.
        """
        probe = self._probe
        if not self._has_begun:
            self._has_begun = True
            return None
        if len(self.history) == probe.intervals:
            self.history = []
        if self.held >= 0 and probe.watched >= 0 and self._has_changed(numbers):
            self.history, self.held = [], -1
        elif self.held < 0 or probe.looks_again:
            self.history.append(numbers)
        return self.inputs(parts) if len(self.history) == probe.intervals else None

    def inputs(self, parts: Integers) -> Integers:
        """Return the inputs of the program after the history, at whose end the tunables had some parts."""
        return np.concatenate([*self.history, *([parts << (BITS - 16)] if self._probe.looks_again else [])])

    def hold(self, setting: int) -> None:
        """Hold a setting."""
        self.held = setting
        self._recent, self._seen = [], 0

    def _has_changed(self, numbers: Integers) -> bool:
        self._seen += 1
        each = numbers.reshape(self._flows, -1)[:, self._probe.watched]
        count = int((each > 0).sum())
        mean = (2 * int(each.sum()) + count) // (2 * count) if count else 0
        self._recent = [*self._recent, mean][-self._probe.window :]
        total = sum(self._recent)
        if self._seen == 2 * self._probe.window:
            self._reference = total
        return self._seen >= 3 * self._probe.window and abs(total - self._reference) > self._probe.threshold
