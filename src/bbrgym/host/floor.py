# SPDX-License-Identifier: GPL-2.0-only
"""The floor under a policy: flows that do worse for so long return to the preset (linux/bpf/floor.h)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace

from bbrgym.errors import ConfigError

_PREFIX = "floor_"


@dataclass(frozen=True)
class Floor:
    """When a policy's flow falls back to its preset."""

    goodput: float = 0.8  # share of BBR's own estimate of the bandwidth below which goodput is bad
    goodput_s: float = 5.0  # how long; 0: it never falls back for it
    rtt: float = 2.0  # multiple of the minimum RTT above which the RTT is bad
    rtt_s: float = 10.0  # how long; 0: it never falls back for it

    def changed(self, values: Mapping[str, float]) -> Floor:
        """Return the floor with other values, as `split` names them. Raises ConfigError: one is out of its range."""
        for name, value in values.items():
            low, high = _RANGES[name]
            if not low <= value <= high:
                raise ConfigError(f"{_PREFIX}{name}: is {value:g}, expected {low:g} to {high:g}")
        return replace(self, **values)

    def values(self) -> tuple[float, ...]:
        """Return the values in the order of the kernel's side."""
        return astuple(self)


_RANGES = {"goodput": (0.0, 1.0), "goodput_s": (0.0, 86_400.0), "rtt": (1.0, 1000.0), "rtt_s": (0.0, 86_400.0)}
NAMES = tuple(f"{_PREFIX}{name}" for name in _RANGES)
"""Names of the floor's values, for people: ``floor_goodput``, ``floor_goodput_s``, ``floor_rtt``, ``floor_rtt_s``."""


def split(values: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the tunables among values, and what is of the floor, by the names of `Floor`."""
    tunables = {name: value for name, value in values.items() if name not in NAMES}
    return tunables, {name.removeprefix(_PREFIX): value for name, value in values.items() if name in NAMES}
