# SPDX-License-Identifier: GPL-2.0-only
"""What an action does to the setting in force.

A setting has a coordinate in [-1, 1] for each tunable (`bbrgym.envs.scaling`). An action says for each

    absolute   where it goes
    relative   how far it moves: -1 is `step_size` down, 1 is `step_size` up, 0 stays

and in one step none moves farther than `max_change`. The setting stays in [-1, 1] whatever the action. Whole numbers
move by whole numbers: as many as `step_size` and `max_change` have room for, but one at least.

An action is continuous, or of `levels` numbered from 0 (`bbrgym.envs.discrete`):

    absolute   evenly from -1 to 1; a whole number has a level for each of its values
    relative   evenly from -1 to 1, an odd number, so that the middle one stays; a whole number has down, stay and up
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.discrete import DiscreteLevels, Levels
from bbrgym.envs.scaling import Coordinates, TunableScaling
from bbrgym.errors import ConfigError, nearest
from bbrgym.worlds import Table

ActionKind: TypeAlias = Literal["absolute", "relative"]

ActType: TypeAlias = NDArray[Any]
"""An agent's action: coordinates, float32; or levels, int64."""

_REACH = 2.0  # from one end of a coordinate to the other


class ActionMapping:
    """The action space of an environment, and from its actions to settings: of many as of each alone, bit for bit.

    Args:
        tunables: the coordinates.
        kind: `absolute` or `relative`.
        levels: of a grid; continuous without.
        flat: one number for the levels of all tunables, as value-based learners want it.
        step_size: the farthest that a relative action moves a coordinate.
        max_change: the farthest that any action moves a coordinate in a step; everywhere without.

    Attributes:
        space: Box(-1, 1, (tunables,), float32), MultiDiscrete or Discrete.
        default: absolute: the variant's own setting, on a grid the nearest there is; relative: stay.
        step: how far a relative action of 1 moves each coordinate; None of absolute ones.
        limit: the farthest that any action moves each; None: everywhere.
    """

    def __init__(
        self,
        tunables: TunableScaling,
        kind: ActionKind = "absolute",
        *,
        levels: int | None = None,
        flat: bool = False,
        step_size: float = 0.1,
        max_change: float | None = None,
    ) -> None:
        if kind not in get_args(ActionKind):
            raise ConfigError(f"action_kind: {kind!r}: {nearest(str(kind), get_args(ActionKind))}")
        if flat and levels is None:
            raise ConfigError("flat: True without levels, allowed is a grid: give levels")
        is_relative = kind == "relative"
        farthest_step = _farthest("step_size", step_size, tunables.value_counts)
        self._tunables = tunables
        self.step = farthest_step if is_relative else None
        self.limit = None if max_change is None else _farthest("max_change", max_change, tunables.value_counts)
        self._grid = None if levels is None else _grid(levels, tunables.value_counts, is_relative, flat)
        self.space: spaces.Space[Any] = tunables.space if self._grid is None else self._grid.space
        own = np.zeros_like(tunables.default) if is_relative else tunables.default
        self.default: ActType = own if self._grid is None else self._grid.nearest(own)

    def apply(self, actions: ActType, settings: Coordinates) -> tuple[Table, Coordinates]:
        """The settings that actions lead to: values in natural units, and coordinates (see TunableScaling.snap).

        Args:
            actions: [..., tunables]; [...] if flat.
            settings: in force, from here: [..., tunables].

        Raises:
            ConfigError: an action that is not of the space.
        """
        return self._tunables.snap(self._aims(actions, settings))

    def check(self, actions: ActType) -> None:
        """Refuses what is not actions.

        Raises:
            ConfigError: says what is allowed.
        """
        if self._grid is None:
            self._tunables.check(actions)
        else:
            self._grid.check(actions)

    def refusal(self, action: object) -> ConfigError:
        """What is wrong with an action that is not of the space."""
        return self._tunables.refusal(action) if self._grid is None else self._grid.refusal(action)

    def _aims(self, actions: ActType, settings: Coordinates) -> Coordinates:
        """Where they lead to, a whole number's coordinate anywhere in its part."""
        if self._grid is None and self.step is None and self.limit is None:
            return actions
        self.check(actions)
        aims = actions if self._grid is None else self._grid.coordinates(actions)
        if self.step is not None:
            aims = settings + self.step * aims
        if self.limit is not None:
            aims = np.clip(aims, settings - self.limit, settings + self.limit)
        reached: Coordinates = np.clip(aims, -1.0, 1.0).astype(np.float32)
        return reached


def _farthest(name: str, distance: float, value_counts: Levels) -> NDArray[np.float64]:
    """A distance for each coordinate; of a whole number's it is what leads to a value."""
    if isinstance(distance, bool) or not isinstance(distance, int | float) or not 0.0 < distance <= _REACH:
        raise ConfigError(f"{name}: {distance!r}, allowed are numbers above 0, up to {_REACH:g}")
    between_values = _REACH / np.maximum(value_counts, 1)
    rounding = 1e-9
    values = np.maximum(np.floor(distance / between_values + rounding), 1.0)
    return np.where(value_counts > 0, values * between_values, distance)


def _grid(levels: int, value_counts: Levels, is_relative: bool, flat: bool) -> DiscreteLevels:
    is_number = isinstance(levels, int) and not isinstance(levels, bool)
    if not is_number or levels < 2 or (is_relative and levels % 2 == 0):
        allowed = "odd numbers from 3: the middle level stays" if is_relative else "whole numbers from 2"
        raise ConfigError(f"levels: {levels!r}, allowed are {allowed}")
    is_whole = value_counts > 0
    if is_relative:
        return DiscreteLevels(np.where(is_whole, 3, levels), np.full(len(is_whole), True), flat=flat)
    return DiscreteLevels(np.where(is_whole, value_counts, levels), ~is_whole, flat=flat)
