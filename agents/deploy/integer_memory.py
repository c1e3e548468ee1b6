# SPDX-License-Identifier: GPL-2.0-only
"""Memory of flows in integer arithmetic: `bbrgym.envs.memory` in whole units.

Extremes and totals are exact. A mean is a sum divided by a count, rounded; of `ewma` both decay by a factor in Q32, the
sum in Q16 and the weights in Q32. Sums saturate at 2^60.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bbrgym.agents.deploy.integer_tables import Integers
from bbrgym.envs.memory import Kind
from bbrgym.worlds import Flags

KEEP_BITS = 32
MAX_REMEMBERED = 1 << 40
MAX_AVERAGED = 1 << 34
"""Largest measurement of which `ewma` takes account; larger ones count as this."""

MAX_SUM = 1 << 60


@dataclass(frozen=True)
class IntegerMemory:
    """Number that is remembered.

    Attributes:
        kind: computation.
        field: number of the field.
        minus: number of the field that is subtracted from it; -1 without one.
        keep: of `ewma`, the weight of an interval before beside the last one, Q32; else 0.
    """

    kind: Kind
    field: int
    minus: int
    keep: int


class Memories:
    """Memory of the flows of N controllers.

    Args:
        memory: numbers to compute.
        fields: numbers of the fields by their names in a world.
        interval_us: time between two measurements.
        shape: [N, flows].
    """

    def __init__(
        self, memory: Sequence[IntegerMemory], fields: Mapping[str, int], interval_us: int, shape: tuple[int, int]
    ) -> None:
        self._memory = memory
        if memory:
            self._active, self._rtt = fields["active"], fields["rtt_mean_ms"]
        self._interval_us = interval_us
        self._values = [np.full(shape, MAX_REMEMBERED if one.kind == "min" else 0, np.int64) for one in memory]
        self._weights = [np.zeros(shape, np.int64) for _ in memory]

    def extended(self, fields: Integers) -> Integers:
        """Add an interval; return its measurements with what is remembered behind them.

        Args:
            fields: [N, up to flows, fields].
        """
        if not self._memory:
            return fields
        flows = fields.shape[1]
        given = np.clip(fields, 0, MAX_REMEMBERED)
        is_active = given[:, :, self._active] > 0
        is_measured = is_active & (given[:, :, self._rtt] > 0)
        numbers = [
            self._number(one, given, is_active, is_measured, values[:, :flows], weights[:, :flows])
            for one, values, weights in zip(self._memory, self._values, self._weights, strict=True)
        ]
        return np.concatenate([fields, np.stack(numbers, axis=-1)], axis=-1)

    def _number(
        self,
        one: IntegerMemory,
        given: Integers,
        is_active: Flags,
        is_measured: Flags,
        values: Integers,
        weights: Integers,
    ) -> Integers:
        """Add an interval to a number of all flows; return it. Values and weights are changed in place."""
        x, counts = given[:, :, one.field], is_measured
        if one.minus >= 0:
            subtracted = given[:, :, one.minus]
            x, counts = np.maximum(x - subtracted, 0), is_measured & (subtracted > 0)
        if one.kind in ("total", "seconds"):
            added = np.where(x > 0, self._interval_us, 0) if one.kind == "seconds" else x
            values[:] = np.minimum(values + np.where(is_active, added, 0), MAX_SUM)
            return values.copy()
        if one.kind in ("max", "min"):
            extreme = np.maximum(values, x) if one.kind == "max" else np.minimum(values, x)
            values[:] = np.where(counts, extreme, values)
            weights[:] |= counts
            return np.where(weights > 0, values, 0)
        if one.kind == "mean":
            values[:] = np.minimum(values + np.where(counts, x, 0), MAX_SUM)
            weights[:] += counts
            return _rounded(values, weights)
        averaged = np.minimum(x, MAX_AVERAGED) << 16
        values[:] = np.minimum(_kept(values, one.keep) + np.where(counts, averaged, 0), MAX_SUM)
        weights[:] = _kept(weights, one.keep) + np.where(counts, 1 << KEEP_BITS, 0)
        return _rounded(values, weights >> (KEEP_BITS - 16))


def _kept(x: Integers, keep: int) -> Integers:
    """Return ``x * keep / 2^32``, x up to 2^60."""
    low = (x & 0xFFFFFFFF).astype(np.uint64) * np.uint64(keep)
    kept: Integers = (x >> KEEP_BITS) * keep + (low >> np.uint64(KEEP_BITS)).astype(np.int64)
    return kept


def _rounded(total: Integers, count: Integers) -> Integers:
    quotient: Integers = (total + (count >> 1)) // np.maximum(count, 1)
    return np.where(count > 0, quotient, 0)
