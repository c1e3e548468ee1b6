# SPDX-License-Identifier: GPL-2.0-only
"""Discrete levels of normalised actions: a whole number from 0 per tunable, or one for all tunables."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.scaling import flaw_of
from bbrgym.errors import ConfigError
from bbrgym.schema import shown_array

Levels = NDArray[np.int64]

MAX_COMBINATIONS = 4096  # of flat levels; of more, each would be tried too seldom to learn from


class DiscreteLevels:
    """Levels of several tunables; the methods work on the last axis.

    Args:
        counts: number of levels of each tunable, at least 2: [tunables].
        has_ends: whether the levels of a tunable go evenly from -1 to 1; else they are the middles of equal parts of
            [-1, 1]: [tunables].
        flat: whether one number stands for all levels, the last tunable's changing fastest.

    Attributes:
        space: MultiDiscrete(counts), or Discrete(their product) if flat.

    Raises:
        ConfigError: flat levels have more than 4096 combinations.
    """

    def __init__(self, counts: Levels, has_ends: NDArray[np.bool_], *, flat: bool = False) -> None:
        self._counts = tuple(counts.tolist())
        self._flat = flat
        combinations = math.prod(self._counts)
        if flat and combinations > MAX_COMBINATIONS:
            raise ConfigError(
                f"flat: {' x '.join(map(str, self._counts))} levels make {combinations} combinations, allowed are "
                f"{MAX_COMBINATIONS}: choose fewer tunables or levels"
            )
        self.space: spaces.MultiDiscrete | spaces.Discrete = (
            spaces.Discrete(combinations) if flat else spaces.MultiDiscrete(counts)
        )
        self._first = np.where(has_ends, 0.0, 0.5)
        self._last = np.where(has_ends, counts - 1.0, counts)

    def normalised(self, levels: Levels) -> NDArray[np.float64]:
        """Return the normalised actions of levels: [..., tunables].

        Args:
            levels: [..., tunables]; [...] if flat.
        """
        each = np.stack(np.unravel_index(levels, self._counts), axis=-1) if self._flat else levels
        normalised: NDArray[np.float64] = 2.0 * ((each + self._first) / self._last) - 1.0
        return normalised

    def nearest(self, normalised: NDArray[np.floating]) -> Levels:
        """Return the levels nearest to normalised actions: [..., tunables], or [...] if flat."""
        found = np.rint((normalised + 1.0) / 2.0 * self._last - self._first)
        levels: Levels = np.minimum(np.maximum(found, 0.0), np.array(self._counts) - 1.0).astype(np.int64)
        if not self._flat:
            return levels
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(levels, -1, 0)), self._counts), np.int64)

    def error(self, action: object, shape: tuple[int, ...]) -> ConfigError:
        """Return the error of an action outside the space, which should have a shape."""
        allowed = (
            f"whole numbers from 0 to {math.prod(self._counts) - 1}"
            if self._flat
            else f"{len(self._counts)} whole numbers from 0, below {list(self._counts)}"
        )
        flaw = flaw_of(action, shape)
        if not flaw and np.asarray(action).dtype.kind == "f":
            flaw = f"its type is {np.asarray(action).dtype}"
        return ConfigError(f"action: {shown_array(action)}, allowed are {allowed}{flaw and f'; {flaw}'}")

    def check(self, levels: Levels) -> None:
        """Refuse all but levels, [..., tunables]; [...] if flat."""
        given, shape = np.asarray(levels), self.space.shape or ()
        most = math.prod(self._counts) if self._flat else np.array(self._counts)
        is_of_shape = given.shape[given.ndim - len(shape) :] == shape
        if not (is_of_shape and given.dtype.kind in "iu" and ((given >= 0) & (given < most)).all()):
            raise self.error(levels, (*given.shape[: given.ndim - len(shape)], *shape))
