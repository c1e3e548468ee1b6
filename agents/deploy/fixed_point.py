# SPDX-License-Identifier: GPL-2.0-only
"""Fixed-point numbers: how many digits stand behind the point, and tables of logarithm, power and tanh.

Qn is a number times 2^n, rounded. `policy_runtime.h` draws straight lines between the entries of a table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

Q16 = 1 << 16
Q20 = 1 << 20

MAX_FIELD = 1 << 40
"""Largest value of a measurement; larger ones count as this, negative ones as 0."""

MAX_NUMBER = 1 << 41
"""Largest size of a program's number, Q20; larger ones, and infinity, count as this."""

MAX_WEIGHT = 32_767
"""Largest number of 16 bits."""

COUNT_DIGITS = 12
"""Digits behind the point of a mean of packets, of which an interval may have less than one."""

_steps = np.arange(257) / 256
LOG2_TABLE: Integers = np.rint(np.log2(1.0 + _steps) * Q20).astype(np.int64)
"""log2 from 1 to 2, in Q20."""

EXP2_TABLE: Integers = np.rint(np.exp2(_steps) * (1 << 30)).astype(np.int64)
"""Powers of 2 from exponent 0 to 1, in Q30."""

TANH_TABLE: Integers = np.rint(np.tanh(np.arange(513) * (8 / 512)) * Q16).astype(np.int64)
"""tanh from 0 to 8, in Q16."""
