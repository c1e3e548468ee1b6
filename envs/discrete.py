# SPDX-License-Identifier: GPL-2.0-only
"""Coordinates in [-1, 1] as levels: numbers from 0 in place of each, or one number for all of them."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.errors import ConfigError

Levels = NDArray[np.int64]

MOST_COMBINATIONS = 4096  # of a flat grid: more would each be tried too seldom for anything to be learnt of them


class DiscreteLevels:
    """Levels of several coordinates; works on the last axis.

    Args:
        counts: how many levels each coordinate has, from 2.
        has_ends: whether a coordinate's levels go evenly from -1 to 1; or are the middles of equal parts of [-1, 1].
        flat: one number for all, the last coordinate's level changing fastest.

    Attributes:
        space: MultiDiscrete(counts), or Discrete(their product) if flat.
    """

    def __init__(self, counts: Levels, has_ends: NDArray[np.bool_], *, flat: bool = False) -> None:
        self._counts = tuple(counts.tolist())
        self._flat = flat
        combinations = math.prod(self._counts)
        if flat and combinations > MOST_COMBINATIONS:
            raise ConfigError(
                f"flat: {' x '.join(map(str, self._counts))} levels make {combinations} combinations, allowed are "
                f"{MOST_COMBINATIONS}: choose fewer tunables or levels"
            )
        self.space: spaces.MultiDiscrete | spaces.Discrete = (
            spaces.Discrete(combinations) if flat else spaces.MultiDiscrete(counts)
        )
        self._first = np.where(has_ends, 0.0, 0.5)
        self._last = np.where(has_ends, counts - 1.0, counts)

    def coordinates(self, levels: Levels) -> NDArray[np.float64]:
        """What levels of the space mean: [..., coordinates].

        Args:
            levels: [..., coordinates]; [...] if flat.
        """
        each = np.stack(np.unravel_index(levels, self._counts), axis=-1) if self._flat else levels
        coordinates: NDArray[np.float64] = 2.0 * ((each + self._first) / self._last) - 1.0
        return coordinates

    def nearest(self, coordinates: NDArray[np.floating]) -> Levels:
        """The levels nearest to coordinates: [..., coordinates], or [...] if flat."""
        found = np.rint((coordinates + 1.0) / 2.0 * self._last - self._first)
        levels: Levels = np.minimum(np.maximum(found, 0.0), np.array(self._counts) - 1.0).astype(np.int64)
        if not self._flat:
            return levels
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(levels, -1, 0)), self._counts), np.int64)

    def refusal(self, action: object) -> ConfigError:
        """What is wrong with an action that is not of the space."""
        allowed = (
            f"whole numbers from 0 to {math.prod(self._counts) - 1}"
            if self._flat
            else f"{len(self._counts)} whole numbers from 0, below {list(self._counts)}"
        )
        return ConfigError(f"action: {action!r}, allowed are {allowed}")

    def check(self, levels: Levels) -> None:
        """Refuses what is not of the space.

        Raises:
            ConfigError: says what is allowed.
        """
        given, shape = np.asarray(levels), self.space.shape or ()
        most = math.prod(self._counts) if self._flat else np.array(self._counts)
        is_of_shape = given.shape[given.ndim - len(shape) :] == shape
        if not (is_of_shape and given.dtype.kind in "iu" and ((given >= 0) & (given < most)).all()):
            raise self.refusal(levels)
