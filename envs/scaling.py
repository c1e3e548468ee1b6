# SPDX-License-Identifier: GPL-2.0-only
"""Scaling of tunables: normalised actions in [-1, 1] to values in natural units, and back.

A normalised action has a number per tunable, which runs through the tunable's range on the linear or logarithmic scale
of the table of tunables. Where only whole numbers are allowed (counts, modes, switches), each of them has an equal part
of [-1, 1]: a switch is on above 0.

A tunable that must not be below another one (`NOT_BELOW`) runs through the part of its range that the other one leaves.
So all normalised actions in [-1, 1] are legal.

The methods work on the last axis: an array of normalised actions gives what each row gives alone, bit for bit. Another
number of tunables, or what is not a number in [-1, 1], is a ConfigError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import argument, shown_array
from bbrgym.tunables import TUNABLES, VARIANTS, Tunable, nearest_variant
from bbrgym.worlds import Table

NormalisedAction = NDArray[np.float32]
"""Normalised actions, [..., tunables]: a number in [-1, 1] per tunable."""

NOT_BELOW = {"pg_trand_high_us": "pg_trand_low_us"}
"""Tunables by those that must not be below them."""

NAMED_ONLY = ("PATH_CHANGE",)
"""Mechanisms whose tunables an action sets only if they are named."""

WHOLE_NUMBERS = ("count", "mode", "switch")
"""Units in which only whole numbers are allowed."""


class TunableScaling:
    """Scaling of some tunables of a variant.

    Raises:
        ConfigError: there is no such variant, it has no tunables, or not these.
    """

    def __init__(self, variant: str, tunables: Sequence[str] | None = None) -> None:
        if not isinstance(variant, str) or variant not in VARIANTS:
            raise ConfigError(f"variant {variant!r}: {nearest_variant(str(variant))}")
        preset = VARIANTS[variant].preset
        if not preset:
            raise ConfigError(f"variant {variant!r} has no tunables to set")
        self.variant = variant
        # names of the tunables, in the order of a normalised action
        own = [name for name in preset if TUNABLES[name].mechanism not in NAMED_ONLY]
        self.names = tuple(own if tunables is None else argument("tunables", tunables, list, "is a list of names"))
        for name in self.names:
            if name not in preset:
                raise ConfigError(f"tunables: {name!r} is not one of {variant}'s: {nearest(name, preset)}")
        if not self.names or len(set(self.names)) < len(self.names):
            raise ConfigError(f"tunables: {list(self.names)}, allowed is a non-empty list without repetition")
        self._sort(preset)
        self.space = spaces.Box(-1.0, 1.0, (len(self.names),), np.float32)
        self.default = self.from_values(preset)  # normalised action that sets the variant's own values, [tunables]
        tables = [TUNABLES[name] for name in self.names]
        # number of values of each tunable that takes whole numbers only, 0 of the others: [tunables]
        self.value_counts = np.array([round(t.high - t.low) + 1 if t.unit in WHOLE_NUMBERS else 0 for t in tables])

    def to_values(self, normalised: NormalisedAction) -> dict[str, float]:
        """Return the values that a normalised action, [tunables], sets, in natural units, by name."""
        if np.shape(normalised) != self.space.shape:
            raise self.error(normalised, self.space.shape or ())
        return dict(zip(self.names, self.values(normalised).tolist(), strict=True))

    def from_values(self, values: Mapping[str, float]) -> NormalisedAction:
        """Return the normalised action of values by name, to float32, [tunables]; other tunables are ignored."""
        return self.normalised(np.array([values[name] for name in self.names]))

    def values(self, normalised: NormalisedAction) -> Table:
        """Return the values that normalised actions set: [..., tunables] both."""
        return self.snap(normalised)[0]

    def snap(self, normalised: NormalisedAction) -> tuple[Table, NormalisedAction]:
        """Return what normalised actions set, and the actions, of whole numbers in the middle of their part."""
        self.check(normalised)
        shape = np.shape(normalised)
        part = np.asarray(normalised, np.float64).reshape(-1, shape[-1]).T.take(self._order, axis=0)
        part += 1.0
        part *= 0.5
        values = self._span * part
        values += self._low
        log, whole = self._log, self._whole
        values[log] = np.power(self._ratio, part[log]) * self._low[log]
        snapped = np.array(normalised, np.float32)
        if len(self._count):
            nth = np.maximum(np.ceil(part[whole] * self._count) - 1.0, 0.0)
            values[whole] = self._low[whole] + nth
            middle = nth * (2.0 / self._count) + (1.0 / self._count - 1.0)
            snapped[..., self._order[whole]] = middle.T.reshape(*shape[:-1], -1)
        for i in self._bounded:
            low, high = self._least(i, values), self._high[i]
            is_log = i < log.stop
            values[i] = low * np.power(high / low, part[i]) if is_log else low + (high - low) * part[i]
        np.minimum(values, self._high, out=values)
        np.copyto(values, self._high, where=part >= 1.0)  # the end exactly, whatever the rounding
        return np.ascontiguousarray(values.take(self._as_asked, axis=0).T).reshape(shape), snapped

    def normalised(self, values: Table) -> NormalisedAction:
        """Return the normalised actions that set values, to float32: [..., tunables] both."""
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
        normalised: NormalisedAction = (
            (2.0 * part.take(self._as_asked, axis=0).T - 1.0).astype(np.float32, order="C").reshape(values.shape)
        )
        return normalised

    def check(self, normalised: NormalisedAction) -> None:
        """Refuse all but normalised actions, [..., tunables]."""
        is_shape = np.shape(normalised)[-1:] == self.space.shape
        if not is_shape or not is_real(normalised) or not (np.abs(normalised) <= 1.0).all():
            raise self.error(normalised, (*np.shape(normalised)[:-1], len(self.names)))

    def _least(self, i: int, values: Table) -> Table:
        """Return the least value of an upper bound: the lower bound, or the latter's preset if not controlled."""
        lower, preset = self._bounded[i]
        least: Table = np.maximum(self._low[i], preset if lower is None else values[lower])
        return least

    def error(self, action: object, shape: tuple[int, ...]) -> ConfigError:
        """Return the error of an action outside the space, which should have a shape."""
        flaw = flaw_of(action, shape) or "gymnasium.wrappers.ClipAction makes them so"
        return ConfigError(f"action: {shown_array(action)}, allowed are {len(self.names)} numbers in [-1, 1]; {flaw}")

    def _sort(self, preset: Mapping[str, float]) -> None:
        """Group the tunables by computation: log, linear, whole numbers; the arrays below have a row for each."""
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
        #: Row of an upper bound: row of its lower bound, if that is controlled, and preset of that.
        self._bounded = {
            ordered.index(upper): (ordered.index(lower) if lower in ordered else None, preset[lower])
            for upper, lower in NOT_BELOW.items()
            if upper in ordered
        }


def is_real(values: object) -> bool:
    """Return whether values are real numbers, none masked."""
    return not isinstance(values, np.ma.MaskedArray) and np.asarray(values).dtype.kind in "fiu"


def flaw_of(action: object, shape: tuple[int, ...]) -> str:
    """Return what is wrong with an action beside its range, in words; empty if nothing is."""
    try:
        array = np.asarray(action)
    except ValueError:
        return "its rows have different lengths"
    if array.shape != shape:
        return f"its shape is {array.shape}, not {shape}"
    if not is_real(action):
        return "it is masked" if isinstance(action, np.ma.MaskedArray) else f"its type is {array.dtype}"
    for place in np.argwhere(~np.isfinite(array)).tolist():
        return f"it is {array[tuple(place)]} at {[at for at, count in zip(place, shape, strict=True) if count > 1]}"
    return ""


def _kind(tunable: Tunable) -> int:
    if tunable.unit in WHOLE_NUMBERS:
        return 2
    return 0 if tunable.scale == "log" else 1
