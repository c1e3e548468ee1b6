# SPDX-License-Identifier: GPL-2.0-only
"""From an action in [-1, 1] per tunable to tunables in natural units, and back.

Each coordinate runs through its tunable's range: linear or log as the table of tunables says; what takes whole numbers
only (counts, modes, switches) gets an equal part of [-1, 1] for each, so a switch is on above 0.

A tunable that must not be below another one (`NOT_BELOW`) runs through what the other one leaves of its range. So every
action is a legal setting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.errors import ConfigError, nearest
from bbrgym.tunables import TUNABLES, VARIANTS, Tunable

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
        self._preset = preset
        self._lower_bounds_first = sorted(self.names, key=NOT_BELOW.__contains__)
        self.space = spaces.Box(-1.0, 1.0, (len(self.names),), np.float32)
        self.default = self.from_values(preset)

    def to_values(self, action: Action) -> dict[str, float]:
        """The setting, in natural units.

        Raises:
            ConfigError: not of the space's shape, or a number outside [-1, 1].
        """
        if np.shape(action) != self.space.shape or not np.all(np.abs(action) <= 1.0):
            raise ConfigError(
                f"action: {action!r}, allowed are {len(self.names)} numbers in [-1, 1]; "
                "gymnasium.wrappers.ClipAction makes them so"
            )
        coordinates = dict(zip(self.names, action.tolist(), strict=True))
        values = dict.fromkeys(self.names, 0.0)
        for name in self._lower_bounds_first:
            values[name] = _value(TUNABLES[name], self._low(name, values), (coordinates[name] + 1.0) / 2.0)
        return values

    def from_values(self, values: Mapping[str, float]) -> Action:
        """The action that gives a setting (to float32); values of other tunables are left aside."""
        return np.array(
            [2.0 * _part(TUNABLES[name], self._low(name, values), values[name]) - 1.0 for name in self.names],
            np.float32,
        )

    def _low(self, name: str, values: Mapping[str, float]) -> float:
        lower = NOT_BELOW.get(name)
        if lower is None:
            return TUNABLES[name].low
        return max(TUNABLES[name].low, values.get(lower, self._preset[lower]))


def _value(tunable: Tunable, low: float, part: float) -> float:
    """What lies at a part of [low, tunable.high], 0 to 1."""
    if tunable.unit in _WHOLE_NUMBERS:
        return low + max(math.ceil(part * (tunable.high - low + 1.0)) - 1, 0)
    is_log = tunable.scale == "log"
    value = low * math.pow(tunable.high / low, part) if is_log else low + (tunable.high - low) * part
    return min(max(value, low), tunable.high)  # the ends exactly, whatever the rounding


def _part(tunable: Tunable, low: float, value: float) -> float:
    """Where in [low, tunable.high] a value lies, 0 to 1; of a whole number, the middle of its part."""
    if tunable.unit in _WHOLE_NUMBERS:
        part = (value - low + 0.5) / (tunable.high - low + 1.0)
    elif tunable.scale == "log":
        part = math.log(value / low) / math.log(tunable.high / low)
    else:
        part = (value - low) / (tunable.high - low)
    return min(max(part, 0.0), 1.0)
