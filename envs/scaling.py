# SPDX-License-Identifier: GPL-2.0-only
"""From an action in [-1, 1] per tunable to tunables in natural units, and back.

Each coordinate runs through its tunable's range: linear or log as the table of tunables says; what takes whole numbers
only (counts, modes, switches) gets an equal part of [-1, 1] for each, so a switch is on above 0.

All of it works on the last axis, so an array of actions gives what each of them gives alone, bit for bit.

A tunable that must not be below another one (`NOT_BELOW`) runs through what the other one leaves of its range. So every
action is a legal setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.errors import ConfigError, nearest
from bbrgym.tunables import TUNABLES, VARIANTS, Tunable
from bbrgym.worlds import Table

Coordinates = NDArray[np.float32]

NOT_BELOW = {"pg_trand_high_us": "pg_trand_low_us"}
"""Upper bounds and their lower bounds."""

WHOLE_NUMBERS = ("count", "mode", "switch")
"""Units of tunables that take whole numbers only."""


class TunableScaling:
    """The action space of one variant's tunables.

    Args:
        variant: whose tunables.
        tunables: which of them, in the order of the action; all without.

    Attributes:
        variant: whose tunables.
        names: the tunables, in the order of the action.
        space: Box(-1, 1, (tunables,), float32).
        default: the action that gives the variant's own setting.
        value_counts: how many values each tunable has that takes whole numbers only; 0 for the others.
    """

    def __init__(self, variant: str, tunables: Sequence[str] | None = None) -> None:
        if variant not in VARIANTS:
            raise ConfigError(f"variant {variant!r}: {nearest(variant, VARIANTS)}")
        preset = VARIANTS[variant].preset
        if not preset:
            raise ConfigError(f"variant {variant!r} has no tunables to set")
        self.variant = variant
        self.names = tuple(preset) if tunables is None else tuple(tunables)
        for name in self.names:
            if name not in preset:
                raise ConfigError(f"tunables: {name!r} is not one of {variant}'s: {nearest(name, preset)}")
        if not self.names or len(set(self.names)) < len(self.names):
            raise ConfigError(f"tunables: {list(self.names)}, allowed is a non-empty list without repetition")
        self._sort(preset)
        self.space = spaces.Box(-1.0, 1.0, (len(self.names),), np.float32)
        self.default = self.from_values(preset)
        tables = [TUNABLES[name] for name in self.names]
        self.value_counts = np.array([round(t.high - t.low) + 1 if t.unit in WHOLE_NUMBERS else 0 for t in tables])

    def to_values(self, action: Coordinates) -> dict[str, float]:
        """The setting, in natural units, that an action means.

        Raises:
            ConfigError: not of the space's shape, or a number outside [-1, 1].
        """
        if np.shape(action) != self.space.shape:
            raise self.refusal(action)
        return dict(zip(self.names, self.values(action).tolist(), strict=True))

    def from_values(self, values: Mapping[str, float]) -> Coordinates:
        """The action that gives a setting (to float32); values of other tunables are left aside."""
        return self.coordinates(np.array([values[name] for name in self.names]))

    def values(self, actions: Coordinates) -> Table:
        """The settings that actions mean: [..., tunables] both.

        Raises:
            ConfigError: not of the space's shape, or a number outside [-1, 1].
        """
        return self.snap(actions)[0]

    def snap(self, actions: Coordinates) -> tuple[Table, Coordinates]:
        """The settings that actions mean; and the actions, each whole number's coordinate in the middle of its part.

        Raises:
            ConfigError: as values().
        """
        self.check(actions)
        shape = np.shape(actions)
        part = np.asarray(actions, np.float64).reshape(-1, shape[-1]).T.take(self._order, axis=0)
        part += 1.0
        part *= 0.5
        values = self._span * part
        values += self._low
        log, whole = self._log, self._whole
        values[log] = np.power(self._ratio, part[log]) * self._low[log]
        settings = np.array(actions, np.float32)
        if len(self._count):
            nth = np.maximum(np.ceil(part[whole] * self._count) - 1.0, 0.0)
            values[whole] = self._low[whole] + nth
            middle = nth * (2.0 / self._count) + (1.0 / self._count - 1.0)
            settings[..., self._order[whole]] = middle.T.reshape(*shape[:-1], -1)
        for i in self._bounded:
            low, high = self._least(i, values), self._high[i]
            is_log = i < log.stop
            values[i] = low * np.power(high / low, part[i]) if is_log else low + (high - low) * part[i]
        np.minimum(values, self._high, out=values)  # the end exactly, whatever the rounding
        return np.ascontiguousarray(values.take(self._as_asked, axis=0).T).reshape(shape), settings

    def coordinates(self, values: Table) -> Coordinates:
        """The actions that give settings (to float32): [..., tunables] both."""
        x = values.reshape(-1, values.shape[-1]).T.take(self._order, axis=0)
        log, whole = self._log, self._whole
        part = (x - self._low) / self._span
        part[log] = np.log(x[log] / self._low[log]) / np.log(self._ratio)
        part[whole] = (x[whole] - self._low[whole] + 0.5) / self._count
        for i in self._bounded:
            low, high = self._least(i, x), self._high[i]
            is_log = i < log.stop
            above, span = (np.log(x[i] / low), np.log(high / low)) if is_log else (x[i] - low, high - low)
            part[i] = above / np.where(span > 0.0, span, 1.0)
        np.minimum(np.maximum(part, 0.0, out=part), 1.0, out=part)
        actions: Coordinates = (
            (2.0 * part.take(self._as_asked, axis=0).T - 1.0).astype(np.float32, order="C").reshape(values.shape)
        )
        return actions

    def check(self, actions: Coordinates) -> None:
        """Refuses what is not actions, [..., tunables].

        Raises:
            ConfigError: says what is allowed.
        """
        if np.shape(actions)[-1:] != self.space.shape or not (np.abs(actions) <= 1.0).all():
            raise self.refusal(actions)

    def _least(self, i: int, values: Table) -> Table:
        """What leaves an upper bound where its lower bound is, or where that one's preset is if it is not set."""
        lower, preset = self._bounded[i]
        least: Table = np.maximum(self._low[i], preset if lower is None else values[lower])
        return least

    def refusal(self, action: object) -> ConfigError:
        """What is wrong with an action that is not of the space."""
        return ConfigError(
            f"action: {action!r}, allowed are {len(self.names)} numbers in [-1, 1]; "
            "gymnasium.wrappers.ClipAction makes them so"
        )

    def _sort(self, preset: Mapping[str, float]) -> None:
        """Puts together what is computed alike: on a log scale, linear, whole numbers. A row for each from here on."""
        kinds = {name: _kind(TUNABLES[name]) for name in self.names}
        ordered = sorted(self.names, key=kinds.__getitem__)
        self._order = np.array([self.names.index(name) for name in ordered])
        self._as_asked = np.array([ordered.index(name) for name in self.names])
        ends = [sum(kind <= last for kind in kinds.values()) for last in range(3)]
        self._log, self._whole = slice(0, ends[0]), slice(ends[1], ends[2])
        self._low = np.array([[TUNABLES[name].low] for name in ordered])
        self._high = np.array([[TUNABLES[name].high] for name in ordered])
        self._span = self._high - self._low
        self._ratio = self._high[self._log] / self._low[self._log]
        self._count = self._span[self._whole] + 1.0
        #: By an upper bound's row: the one of its lower bound, if any, and that one's preset.
        self._bounded = {
            ordered.index(upper): (ordered.index(lower) if lower in ordered else None, preset[lower])
            for upper, lower in NOT_BELOW.items()
            if upper in ordered
        }


def _kind(tunable: Tunable) -> int:
    if tunable.unit in WHOLE_NUMBERS:
        return 2
    return 0 if tunable.scale == "log" else 1
