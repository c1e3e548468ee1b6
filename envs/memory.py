# SPDX-License-Identifier: GPL-2.0-only
"""Memory of flows: numbers computed from all intervals of an episode so far, from which features may be computed.

    max, min   running extreme of a field
    mean       mean of a field
    ewma       exponentially weighted mean of a field: an interval t seconds ago has the weight exp(-t / 5 s)
    total      sum of a field
    seconds    time during which a field was above 0

Each may be of the difference of two fields, which counts as 0 where it is below. An interval counts if the flow is
active in it. For extremes and means the flow must also have had an RTT sample, now or before, and what is subtracted
must be above 0: earlier there is nothing measured. Before the first interval that counts a number is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from bbrgym.worlds import Table

Kind: TypeAlias = Literal["max", "min", "mean", "ewma", "total", "seconds"]

EWMA_S = 5.0
"""Time constant of `ewma`: some round trips of the slowest networks, and half of BBR's default memory of RTT."""


MEASURED = ("active", "rtt_mean_ms")
"""Fields that tell whether an interval counts."""


@dataclass(frozen=True)
class Remembered:
    """Number computed from all intervals of an episode so far.

    Attributes:
        kind: computation, see above.
        field: field of the world's measurements.
        minus: field that is subtracted from it; None without one.
    """

    kind: Kind
    field: str
    minus: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: {self.kind!r}, expected one of {', '.join(get_args(Kind))}")

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that it is computed from."""
        return (self.field,) if self.minus is None else (self.field, self.minus)

    def __str__(self) -> str:
        return f"{self.kind}({' - '.join(self.fields)})"


class FlowMemory:
    """Memory of the tuned flows of N environments, each as if it were alone, bit for bit.

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
        self._interval_s = interval_s
        keep = [math.exp(-interval_s / EWMA_S) if each.kind == "ewma" else 1.0 for each in by_kind]
        self._keep = np.array(keep[self._means]).reshape(-1, 1, 1)
        self._values = np.zeros((len(by_kind), *shape))  # extremes, or sums
        self._weights = np.zeros((ends[3] - ends[1], *shape))  # of the means' sums
        self.reset(range(shape[1]))

    def reset(self, indices: Sequence[int]) -> None:
        """Forget the former intervals of environments whose episode begins."""
        self._values[:, :, indices] = 0.0
        self._values[self._min, :, indices] = np.inf
        self._weights[:, :, indices] = 0.0

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
        x[self._seconds] = np.where(x[self._seconds] > 0.0, self._interval_s, 0.0)
        is_known[self._sums] = is_active
        x, is_known, values = x.reshape(-1, *shape), is_known.reshape(-1, *shape), self._values
        for rows, extreme in ((self._max, np.maximum), (self._min, np.minimum)):
            extreme(values[rows], x[rows], out=values[rows], where=is_known[rows])
        values[self._means] *= self._keep
        self._weights *= self._keep
        self._weights += is_known[self._means]
        added = slice(self._means.start, self._sums.stop)
        np.add(values[added], x[added], out=values[added], where=is_known[added])
        self.reset(starting)

    def extend(self, stats: Table, indices: Sequence[int] | None = None) -> Table:
        """Return measurements with the numbers behind them: [`self.fields`, L * environments].

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
        return [np.moveaxis(array, -1, 0) for array in (self._values, self._weights)]
