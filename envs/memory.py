# SPDX-License-Identifier: GPL-2.0-only
"""Memory of flows: numbers computed from all intervals of an episode so far, from which features may be computed.

    max, min   running extreme of a field
    mean       mean of a field
    ewma       exponentially weighted mean of a field: an interval t seconds ago has the weight exp(-t / T)
    total      sum of a field
    seconds    time during which a field was above 0
    low        smallest value of the last T, or of as little as half of it
    high       largest value, which falls towards the field: after t seconds exp(-t / T) of a difference is left

T is `over_s`; of `ewma` 5 s, unless it is given.

Each may be of the difference of two fields, which counts as 0 where it is below. An interval counts if the flow is
active in it. For all but sums the flow must also have had an RTT sample, now or before, and what is subtracted
must be above 0: earlier there is nothing measured. Before the first interval that counts a number is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from bbrgym.worlds import Flags, Table

Kind: TypeAlias = Literal["max", "min", "mean", "ewma", "total", "seconds", "low", "high"]
_RECENT = ("low", "high")  # kinds that need `over_s`

EWMA_S = 5.0
"""Time constant of `ewma`: some round trips of the slowest networks, and half of BBR's default memory of RTT."""


MEASURED = ("active", "rtt_mean_ms")
"""Fields that tell whether an interval counts."""


@dataclass(frozen=True)
class Remembered:
    """Number computed from all intervals of an episode so far."""

    kind: Kind  # computation, see above
    field: str  # field of the world's measurements
    minus: str | None = None  # field that is subtracted from it; None without one
    over_s: float | None = None  # time that `ewma`, `low` and `high` look back, in seconds; None for others

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: {self.kind!r}, expected one of {', '.join(get_args(Kind))}")
        if self.over_s is None and self.kind in _RECENT:
            raise ValueError(f"over_s: None, expected a time for {self.kind}")
        if self.over_s is not None and (self.kind not in ("ewma", *_RECENT) or not self.over_s > 0.0):
            raise ValueError(
                f"over_s: {self.over_s!r}, expected a time above 0 for ewma, low and high, None for others"
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the memory term is computed from."""
        return (self.field,) if self.minus is None else (self.field, self.minus)

    def half(self, interval_s: float) -> int:
        """Return the intervals in half of the time that `low` looks back, at least one."""
        return max(round((self.over_s or 0.0) / 2.0 / interval_s), 1)

    def __str__(self) -> str:
        over = "" if self.over_s is None else f", {self.over_s:g} s"
        return f"{self.kind}({' - '.join(self.fields)}{over})"


class FlowMemory:
    """Memory of the tuned flows of N environments, each as if alone, bit for bit.

    Args:
        remembered: numbers to compute; may be none.
        fields: names of the measurements.
        interval_s: time between two measurements.
        shape: [L, N], tuned flows of an environment and environments.

    Attributes:
        fields: names of the measurements, then of the numbers.
    """

    def __init__(
        self, remembered: Sequence[Remembered], fields: Sequence[str], interval_s: float, shape: tuple[int, int]
    ) -> None:
        order = {kind: place for place, kind in enumerate(get_args(Kind))}
        by_kind = sorted(remembered, key=lambda each: order[each.kind])
        ends = np.cumsum([sum(each.kind == kind for each in by_kind) for kind in order]).tolist()
        self.fields = (*fields, *map(str, by_kind)) if by_kind else fields
        self._of = np.array([fields.index(each.field) for each in by_kind], np.intp)
        self._is_difference = np.array([each.minus is not None for each in by_kind], np.bool_)
        self._minus = np.array([fields.index(each.minus) for each in by_kind if each.minus is not None], np.intp)
        self._active, self._rtt = (fields.index(name) for name in MEASURED)
        self._max, self._min = slice(0, ends[0]), slice(ends[0], ends[1])
        self._means, self._sums = slice(ends[1], ends[3]), slice(ends[3], ends[5])
        self._seconds = slice(ends[4], ends[5])
        self._low, self._high = slice(ends[5], ends[6]), slice(ends[6], ends[7])
        self._interval_s: float | Table = interval_s
        over_s = [each.over_s or EWMA_S if each.kind == "ewma" else math.inf for each in by_kind[self._means]]
        self._over_s = np.array(over_s).reshape(-1, 1, 1)
        self._low_s, self._high_s = (
            np.array([each.over_s for each in by_kind[rows]], float).reshape(-1, 1, 1)
            for rows in (self._low, self._high)
        )
        keep = [math.exp(-interval_s / each) for each in over_s]
        self._keep = np.array(keep).reshape(-1, 1, 1)
        self._half = np.array([each.half(interval_s) for each in by_kind[self._low]]).reshape(-1, 1, 1)
        self._falls = np.exp(-interval_s / self._high_s)
        self._halves = np.zeros((2, ends[6] - ends[5], *shape))  # smallest values of this half and of the former one
        self._age = np.zeros(self._halves.shape[1:])  # of this half, in intervals that count
        self._values = np.zeros((len(by_kind), *shape))  # extremes, or sums
        self._weights = np.zeros((ends[3] - ends[1], *shape))  # of the means' sums
        self.reset(range(shape[1]))

    def set_interval(self, interval_s: Table) -> None:
        """Set the length of the next interval, [N]; `low` looks back as many such intervals as fit its time."""
        self._interval_s = interval_s
        self._keep, self._falls = np.exp(-interval_s / self._over_s), np.exp(-interval_s / self._high_s)
        self._half = np.maximum(np.round(self._low_s / 2.0 / interval_s), 1.0)

    def reset(self, indices: Sequence[int]) -> None:
        """Forget the former intervals of environments whose episode begins."""
        self._values[:, :, indices] = 0.0
        self._values[self._min, :, indices] = np.inf
        self._weights[:, :, indices] = 0.0
        self._halves[..., indices] = np.inf
        self._age[..., indices] = 0.0

    def add(self, stats: Table, starting: Sequence[int] = ()) -> None:
        """Add an interval.

        Args:
            stats: measurements of the tuned flows, 0 where absent, [fields, L * N].
            starting: environments whose episode starts: there was no interval.
        """
        if not len(self._of):
            return
        shape = self._values.shape[1:]
        x = stats.take(self._of, axis=0)
        is_active = stats[self._active] > 0.0
        is_known = np.repeat((is_active & (stats[self._rtt] > 0.0))[None], len(x), axis=0)
        if len(self._minus):
            subtracted = stats.take(self._minus, axis=0)
            x[self._is_difference] = np.maximum(x[self._is_difference] - subtracted, 0.0)
            is_known[self._is_difference] &= subtracted > 0.0
        x[self._seconds] = np.where(x[self._seconds] > 0.0, np.broadcast_to(self._interval_s, shape).ravel(), 0.0)
        is_known[self._sums] = is_active
        x, is_known, values = x.reshape(-1, *shape), is_known.reshape(-1, *shape), self._values
        for rows, extreme in ((self._max, np.maximum), (self._min, np.minimum)):
            extreme(values[rows], x[rows], out=values[rows], where=is_known[rows])
        values[self._means] *= self._keep
        self._weights *= self._keep
        self._weights += is_known[self._means]
        added = slice(self._means.start, self._sums.stop)
        np.add(values[added], x[added], out=values[added], where=is_known[added])
        if self._low != self._high:
            self._add_recent(x, is_known)
        self.reset(starting)

    def _add_recent(self, x: Table, is_known: Flags) -> None:
        x_low, x_high, high = x[self._low], x[self._high], self._values[self._high]
        this, former = self._halves
        np.minimum(this, x_low, out=this, where=is_known[self._low])
        self._values[self._low] = np.minimum(this, former)
        self._age += is_known[self._low]
        is_over = self._age >= self._half
        former[is_over], this[is_over], self._age[is_over] = this[is_over], np.inf, 0.0
        np.maximum(x_high, x_high + (high - x_high) * self._falls, out=high, where=is_known[self._high])

    def extend(self, stats: Table, indices: Sequence[int] | None = None) -> Table:
        """Return measurements followed by the memory's numbers: [`self.fields`, L * environments].

        Args:
            stats: measurements of some environments' tuned flows, [fields, L * environments].
            indices: these environments. Default: all.
        """
        if not len(self._of):
            return stats
        numbers, weights = self._values, self._weights
        if indices is not None:
            numbers, weights = numbers[:, :, indices], weights[:, :, indices]
        numbers = np.where(np.isfinite(numbers), numbers, 0.0)
        np.divide(numbers[self._means], weights, out=numbers[self._means], where=weights > 0.0)
        return np.concatenate([stats, numbers.reshape(len(numbers), -1)])

    def arrays(self) -> list[NDArray[Any]]:
        """Return the memory itself, the environments first: [N, ...] each."""
        return [np.moveaxis(array, -1, 0) for array in (self._values, self._weights, self._halves, self._age)]
