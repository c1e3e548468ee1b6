# SPDX-License-Identifier: GPL-2.0-only
"""Action spaces, and the current tunables that actions lead to.

A normalised action has a number in [-1, 1] per tunable (`bbrgym.envs.scaling`). An action says of each

    absolute   the new number
    relative   the distance to move: -1 is `step_size` down, 1 is `step_size` up, 0 stays

and in one step none moves farther than `max_change`. The numbers stay in [-1, 1] whatever the action. Whole numbers
move by whole numbers: as many as `step_size` and `max_change` allow, but at least one.

Actions are continuous, or discrete with `levels` numbered from 0 (`bbrgym.envs.discrete`):

    absolute   evenly from -1 to 1; a whole number has a level for each of its values
    relative   an odd number of levels, evenly from -1 to 1: the middle one stays; a whole number has down, stay and up

Or an action chooses one of the settings of a library (`bbrgym.envs.library`), by its number from 0:

    library    all tunables take the values of that setting
    switch     the same with a setting for each algorithm of variant ``switch``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.envs.discrete import DiscreteLevels, Levels
from bbrgym.envs.library import Library
from bbrgym.envs.scaling import NormalisedAction, TunableScaling, is_real
from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import shown
from bbrgym.worlds import Table

ActionKind: TypeAlias = Literal["absolute", "relative", "library", "switch"]

ActType: TypeAlias = NDArray[Any]
"""Action of an agent: normalised, float32; or levels, int64."""

_RANGE = 2.0  # from one end of a tunable's range to the other


class ActionMapping:
    """Action space of an environment, and the mapping from its actions to current tunables.

    Many actions are mapped at once; each gives what it would give alone, bit for bit. Arguments are those of
    `bbrgym.envs.options.Options`.

    Attributes:
        space: Box(-1, 1, (tunables,), float32), MultiDiscrete or Discrete.
        default: the variant's own values, of discrete actions and settings the nearest to them; relative: stay.
        step: distance by which a relative action of 1 moves each normalised tunable, [tunables]; None of others.
        limit: largest distance that each normalised tunable moves in a step, [tunables]; None without a limit.

    Raises:
        ConfigError: an argument is not allowed.
    """

    def __init__(
        self,
        scaling: TunableScaling,
        kind: ActionKind = "absolute",
        *,
        levels: int | None = None,
        flat: bool = False,
        step_size: float = 0.1,
        max_change: float | None = None,
        library: Library | None = None,
    ) -> None:
        if kind not in get_args(ActionKind):
            raise ConfigError(f"action_kind: {kind!r}: {nearest(str(kind), get_args(ActionKind))}")
        self._settings: tuple[Table, NormalisedAction] | None = None
        if (kind in ("library", "switch")) != (library is not None):
            raise ConfigError(
                f"library: {shown(library)} with action_kind {kind!r}, allowed is one with 'library' alone"
            )
        if library is not None:
            self._choose_from(library, scaling, {"levels": levels, "flat": flat or None, "max_change": max_change})
            return
        if flat and levels is None:
            raise ConfigError("flat: True without levels, allowed with discrete actions: give levels")
        is_relative = kind == "relative"
        step = _distances("step_size", step_size, scaling.value_counts)
        self._scaling = scaling
        self.step = step if is_relative else None
        self.limit = None if max_change is None else _distances("max_change", max_change, scaling.value_counts)
        self._levels = None if levels is None else _levels(levels, scaling.value_counts, is_relative, flat)
        self.space: spaces.Space[Any] = scaling.space if self._levels is None else self._levels.space
        own = np.zeros_like(scaling.default) if is_relative else scaling.default
        self.default: ActType = own if self._levels is None else self._levels.nearest(own)

    def array(self, actions: object, batch_shape: tuple[int, ...] = ()) -> ActType:
        """Return actions as an array, [*batch_shape, tunables]; [*batch_shape] if flat.

        Their values are not checked: some may be ignored.
        """
        shape = (*batch_shape, *np.shape(self.default))
        try:
            array = np.asarray(actions)
        except ValueError:  # lists of different lengths
            raise self.error(actions, shape) from None
        if array.shape != shape or not is_real(actions):
            raise self.error(actions, shape)
        return array

    def apply(self, actions: ActType, current: NormalisedAction) -> tuple[Table, NormalisedAction]:
        """Return the tunables that actions lead to: values in natural units, and normalised as by TunableScaling.snap.

        Args:
            actions: [..., tunables]; [...] if flat.
            current: normalised action of the current tunables, [..., tunables].
        """
        if self._settings is not None:
            self.check(actions)
            values, normalised = self._settings
            return values[actions], normalised[actions]
        return self._scaling.snap(self._targets(actions, current))

    def check(self, actions: ActType) -> None:
        """Refuse actions outside the space."""
        if self._levels is None:
            self._scaling.check(actions)
        else:
            self._levels.check(actions)

    def error(self, action: object, shape: tuple[int, ...]) -> ConfigError:
        """Return the error of an action outside the space, which should have a shape."""
        return (self._scaling if self._levels is None else self._levels).error(action, shape)

    def _choose_from(self, library: Library, scaling: TunableScaling, others: Mapping[str, Any]) -> None:
        """Take the settings of a library."""
        for name, value in others.items():
            if value is not None:
                raise ConfigError(f"{name}: {value!r} with action_kind 'library', allowed is none")
        for name in library.tunables:
            if name not in scaling.names:
                raise ConfigError(
                    f"tunables: {list(scaling.names)}, expected those of the library too, such as {name!r}"
                )
        values = library.values(scaling.names)
        normalised = scaling.normalised(values)
        self._settings = (values, normalised)
        self._scaling = scaling
        self._levels = DiscreteLevels(np.array([len(values)]), np.array([True]), flat=True)
        self.step = self.limit = None
        self.space = self._levels.space
        self.default = np.asarray(np.abs(normalised - scaling.default).mean(axis=1).argmin(), np.int64)

    def _targets(self, actions: ActType, current: NormalisedAction) -> NormalisedAction:
        """Return the normalised actions that actions lead to, those of whole numbers anywhere in their part."""
        if self._levels is None and self.step is None and self.limit is None:
            return actions
        self.check(actions)
        targets = actions if self._levels is None else self._levels.normalised(actions)
        if self.step is not None:
            targets = current + self.step * targets
        if self.limit is not None:
            targets = np.clip(targets, current - self.limit, current + self.limit)
        reached: NormalisedAction = np.clip(targets, -1.0, 1.0).astype(np.float32)
        return reached


def _distances(name: str, distance: float, value_counts: Levels) -> NDArray[np.float64]:
    """Return a distance for each tunable; a whole number's is rounded to the distance between values."""
    if isinstance(distance, bool) or not isinstance(distance, int | float) or not 0.0 < distance <= _RANGE:
        raise ConfigError(f"{name}: {distance!r}, allowed are numbers above 0, up to {_RANGE:g}")
    between_values = _RANGE / np.maximum(value_counts, 1)
    rounding = 1e-9
    values = np.maximum(np.floor(distance / between_values + rounding), 1.0)
    return np.where(value_counts > 0, values * between_values, distance)


def _levels(levels: int, value_counts: Levels, is_relative: bool, flat: bool) -> DiscreteLevels:
    is_number = isinstance(levels, int) and not isinstance(levels, bool)
    if not is_number or levels < 2 or (is_relative and levels % 2 == 0):
        allowed = "odd numbers from 3: the middle level stays" if is_relative else "whole numbers from 2"
        raise ConfigError(f"levels: {levels!r}, allowed are {allowed}")
    is_whole = value_counts > 0
    if is_relative:
        return DiscreteLevels(np.where(is_whole, 3, levels), np.full(len(is_whole), True), flat=flat)
    return DiscreteLevels(np.where(is_whole, value_counts, levels), ~is_whole, flat=flat)
