# SPDX-License-Identifier: GPL-2.0-only
"""Logarithm, power and tanh in integers: tables of 256 or 512 steps with straight lines between.

All of them rise with their argument.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

Q16 = 1 << 16
LOG2_BITS, EXP2_BITS = 20, 30
TABLE_STEPS = 256
TANH_STEPS, TANH_END = 512, 8

_steps = np.arange(TABLE_STEPS + 1) / TABLE_STEPS
LOG2_TABLE: Integers = np.rint(np.log2(1.0 + _steps) * (1 << LOG2_BITS)).astype(np.int64)
"""log2 from 1 to 2, in Q20."""

EXP2_TABLE: Integers = np.rint(np.exp2(_steps) * (1 << EXP2_BITS)).astype(np.int64)
"""Powers of 2 from exponent 0 to 1, in Q30."""

TANH_TABLE: Integers = np.rint(np.tanh(np.arange(TANH_STEPS + 1) * (TANH_END / TANH_STEPS)) * Q16).astype(np.int64)
"""tanh from 0 to 8, in Q16."""


def log2(x: Integers) -> Integers:
    """Return log2 in Q20 of whole numbers from 1 to 2^41; of 0 it is 0."""
    x = np.maximum(x, 1)
    exponent = np.frexp(x.astype(np.float64))[1].astype(np.int64) - 1  # exact: x has at most 42 digits
    digits = x << (62 - exponent)
    return (exponent << LOG2_BITS) + on_line(LOG2_TABLE, (digits >> 54) & 255, (digits >> 38) & 65535, 16)


def exp2(x: Integers) -> Integers:
    """Return 2 to the power of x, Q20 and from 0 to below 32, rounded to whole numbers."""
    power = on_line(EXP2_TABLE, (x >> 12) & 255, x & 4095, 12)
    return ((power << (x >> LOG2_BITS)) + (1 << (EXP2_BITS - 1))) >> EXP2_BITS


def tanh(x: Integers) -> Integers:
    """Return tanh of x, Q16 both."""
    size = np.minimum(np.abs(x), TANH_END * Q16 - 1)
    value = on_line(TANH_TABLE, size >> 10, size & 1023, 10)
    result: Integers = np.where(x < 0, -value, value)
    return result


def on_line(table: Integers, index: Integers, rest: Integers, digits: int) -> Integers:
    """Return the value of a table at a step, and so far on the straight line to the next one."""
    value: Integers = table[index] + ((table[index + 1] - table[index]) * rest >> digits)
    return value
