# SPDX-License-Identifier: GPL-2.0-only
"""Sums whose bits do not depend on what else is computed in the same array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.worlds import Table

_MAX_LOOP = 16  # rows; above, a loop over them is slower than accumulate


def sum_rows(rows: NDArray[Any]) -> Table:
    """Add up the rows of an array, [R, ...] -> [...], one after the other.

    The sum of a column is the same to the bit whatever the other columns hold, and however many rows of 0 follow.
    """
    if len(rows) > _MAX_LOOP:
        total: Table = np.add.accumulate(rows, axis=0, dtype=np.float64)[-1]
        return total
    total = rows[0].astype(np.float64, copy=False)
    for row in rows[1:]:
        total = total + row
    return total
