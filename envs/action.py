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
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.worlds import Table

Action = NDArray[np.float32]

NOT_BELOW = {"pg_trand_high_us": "pg_trand_low_us"}
"""Upper bounds and their lower bounds."""

_WHOLE_NUMBERS = ("count", "mode", "switch")


class TunablesAction:
    """The action space of one variant's tunables.

    Args:
        variant: whose tunables.
        tunables: which of them, in the order of the action; all without.

    Attributes:
        names: the tunables, in the order of the action.
        space: Box(-1, 1, (tunables,), float32).
        default: the action that gives the variant's own setting.
    """

    def __init__(self, variant: str, tunables: Sequence[str] | None = None) -> None:
        if variant not in VARIANTS:
            raise ConfigError(f"variant {variant!r}: {nearest(variant, VARIANTS)}")
        preset = VARIANTS[variant].preset
        if not preset:
            raise ConfigError(f"variant {variant!r} has no tunables to set")
        self.names = tuple(preset) if tunables is None else tuple(tunables)
        for name in self.names:
            if name not in preset:
                raise ConfigError(f"tunables: {name!r} is not one of {variant}'s: {nearest(name, preset)}")
        if not self.names or len(set(self.names)) < len(self.names):
            raise ConfigError(f"tunables: {list(self.names)}, allowed is a non-empty list without repetition")
        declared = [TUNABLES[name] for name in self.names]
        self._low = np.array([tunable.low for tunable in declared])
        self._high = np.array([tunable.high for tunable in declared])
        whole = [tunable.unit in _WHOLE_NUMBERS for tunable in declared]
        log = [tunable.scale == "log" and not is_whole for tunable, is_whole in zip(declared, whole, strict=True)]
        self._whole, self._log = np.flatnonzero(whole), np.flatnonzero(log)
        #: By an upper bound's coordinate: the one of its lower bound, if any, and that one's preset.
        self._bounded = {
            self.names.index(upper): (self.names.index(lower) if lower in self.names else None, preset[lower])
            for upper, lower in NOT_BELOW.items()
            if upper in self.names
        }
        self.space = spaces.Box(-1.0, 1.0, (len(self.names),), np.float32)
        self.default = self.from_values(preset)

    def to_values(self, action: Action) -> dict[str, float]:
        """The setting, in natural units, that an action means.

        Raises:
            ConfigError: not of the space's shape, or a number outside [-1, 1].
        """
        if np.shape(action) != self.space.shape:
            raise self.refusal(action)
        return dict(zip(self.names, self.values(action).tolist(), strict=True))

    def from_values(self, values: Mapping[str, float]) -> Action:
        """The action that gives a setting (to float32); values of other tunables are left aside."""
        return self.actions(np.array([values[name] for name in self.names]))

    def values(self, actions: Action) -> Table:
        """The settings that actions mean: [..., tunables] both.

        Raises:
            ConfigError: not of the space's shape, or a number outside [-1, 1].
        """
        if np.shape(actions)[-1:] != self.space.shape or not np.all(np.abs(actions) <= 1.0):
            raise self.refusal(actions)
        part = (np.asarray(actions, np.float64) + 1.0) / 2.0
        low, high, log, whole = self._low, self._high, self._log, self._whole
        values = low + (high - low) * part
        if log.size:
            values[..., log] = low[log] * np.power(high[log] / low[log], part[..., log])
        if whole.size:
            count = high[whole] - low[whole] + 1.0
            values[..., whole] = low[whole] + np.maximum(np.ceil(part[..., whole] * count) - 1.0, 0.0)
        for i in self._bounded:
            least = self._least(i, values)
            if i in log:
                values[..., i] = least * np.power(high[i] / least, part[..., i])
            else:
                values[..., i] = least + (high[i] - least) * part[..., i]
            np.maximum(values[..., i], least, out=values[..., i])
        return _within(values, low, high)  # the ends exactly, whatever the rounding

    def actions(self, values: Table) -> Action:
        """The actions that give settings (to float32): [..., tunables] both."""
        low, high, log, whole = self._low, self._high, self._log, self._whole
        part = (values - low) / (high - low)
        if log.size:
            part[..., log] = np.log(values[..., log] / low[log]) / np.log(high[log] / low[log])
        if whole.size:
            part[..., whole] = (values[..., whole] - low[whole] + 0.5) / (high[whole] - low[whole] + 1.0)
        for i in self._bounded:
            least = self._least(i, values)
            if i in log:
                above, span = np.log(values[..., i] / least), np.log(high[i] / least)
            else:
                above, span = values[..., i] - least, high[i] - least
            part[..., i] = above / np.where(span > 0.0, span, 1.0)
        return (2.0 * _within(part, 0.0, 1.0) - 1.0).astype(np.float32)

    def in_force(self, actions: Action, values: Table) -> Action:
        """The actions with each whole number's coordinate in the middle of its part; values: what they mean."""
        settings = np.array(actions, np.float32)
        whole = self._whole
        if whole.size:
            low, high = self._low[whole], self._high[whole]
            settings[..., whole] = 2.0 * (values[..., whole] - low + 0.5) / (high - low + 1.0) - 1.0
        return settings

    def _least(self, i: int, values: Table) -> Table:
        """What leaves an upper bound where its lower bound is, or where that one's preset is if it is not set."""
        lower, preset = self._bounded[i]
        least: Table = np.maximum(self._low[i], preset if lower is None else values[..., lower])
        return least

    def refusal(self, action: object) -> ConfigError:
        """What is wrong with an action that is not of the space."""
        return ConfigError(
            f"action: {action!r}, allowed are {len(self.names)} numbers in [-1, 1]; "
            "gymnasium.wrappers.ClipAction makes them so"
        )


def _within(values: Table, low: Table | float, high: Table | float) -> Table:
    """Quicker than np.clip."""
    within: Table = np.minimum(np.maximum(values, low), high)
    return within
