# SPDX-License-Identifier: GPL-2.0-only
"""Infos of numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def numbers_of(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers and arrays of numbers of an info, in NumPy's types.

    Those of a mapping in it have joined names: ``a.b``.
    """
    found: dict[str, Any] = {}
    for name, value in info.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": number for inner, number in numbers_of(value).items()}
        elif (number := np.asarray(value)).dtype.kind in "biuf":
            found[name] = number[()]  # a scalar if it has no dimension
    return found
