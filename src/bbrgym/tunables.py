# SPDX-License-Identifier: GPL-2.0-only
"""The tables of tunables and variants, read from the compiled controllers (cc/tunables.def, cc/variants.def).

Example:
    >>> import bbrgym
    >>> tunable = bbrgym.TUNABLES["bbq_alpha_us"]
    >>> tunable.default, tunable.unit, tunable.low <= tunable.default <= tunable.high
    (3000.0, 'us', True)
    >>> sorted(set(bbrgym.VARIANTS["bbq"].preset) - set(bbrgym.VARIANTS["bbr"].preset))
    ['bbq_alpha_us', 'bbq_beta', 'bbq_data_min_rtt', 'bbq_latch', 'bbq_slack_us']
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import bbrgym._cc as _cc
from bbrgym.errors import ConfigError, nearest

#: ns-3's own congestion controls, uncured; they run on ns-3's own socket and have no tunables.
STOCK_CONTROLS = ("ns3-bbr", "ns3-cubic", "ns3-linux-reno", "ns3-bic", "ns3-vegas", "ns3-westwood")

#: The kernel's own congestion controls; they run on the kernel's sockets and have no tunables.
KERNEL_CONTROLS = ("kernel-bbr", "kernel-cubic", "kernel-reno")

#: Of ours that are models of the kernel's own and not in BPF: what runs in their place on the kernel's sockets.
KERNEL_STAND_INS: Mapping[str, str] = MappingProxyType({"cubic": "kernel-cubic", "reno": "kernel-reno"})

#: The algorithms of ours that are in BPF: those that pace.
KERNEL_ALGORITHMS = ("bbr", "bbr2", "bbr3", "bbr-scaled", "direct")

#: The algorithms of a user's files: on loss the stack reduces the window, or the file paces and decides it.
PLUGIN_ALGORITHMS = ("plugin", "plugin-bbr")

#: The algorithm of a user's Python class (`bbrgym.Controller`).
PYTHON_ALGORITHM = "python"

#: The algorithms of variant ``switch``, by the value of its tunable (cc/params.h).
ARMS = ("cubic", "reno", "bbr", "bbr3")

#: Whose own congestion controls these are: the algorithm of a variant that is not of ``cc/``.
STOCK_OWNERS = ("ns-3", "linux")


@dataclass(frozen=True)
class Tunable:
    """A tunable, in natural units.

    Attributes:
        name: unique name, with its unit if it has one (``bbq_alpha_us``).
        symbol: its symbol in the paper.
        unit: ``ratio``, ``us``, ``count``, ``mode`` or ``switch``.
        default: the paper's value; a variant's own is in :attr:`Variant.preset`.
        low: smallest value allowed.
        high: largest value allowed.
        scale: ``linear`` or ``log``, for searches of the range.
        mechanism: mechanism that has it; ``BBR`` if every BBR v1 has it, ``BBR3`` if every BBRv3 has it, ``DIRECT`` or
            ``SCALE`` if the variants have it that are set from outside; ``SWITCH`` if ``switch`` has it.
        source: paper, section or RFC.
    """

    name: str
    symbol: str
    unit: str
    default: float
    low: float
    high: float
    scale: str
    mechanism: str
    source: str

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.scale == "log" and self.low <= 0):
            expected = "0 < low < high" if self.scale == "log" else "low < high"
            raise ValueError(f"tunable {self.name}: low {self.low:g}, high {self.high:g}, expected {expected}")


@dataclass(frozen=True)
class Variant:
    """A congestion control.

    Attributes:
        name: in scenarios and commands.
        algorithm: a row of cc/algorithms.h, such as ``bbr`` or ``cubic``; ``ns-3`` for ns-3's own, ``linux`` for the
            kernel's own; ``plugin`` or, if it paces, ``plugin-bbr`` for a user's C file; ``python`` for a class.
        source: the paper or RFC.
        preset: initial values of its tunables in natural units, by name.
        switches: whether it has each mechanism, 0 or 1, by the tunable that switches it in a mix. Default: empty.
    """

    name: str
    algorithm: str
    source: str
    preset: Mapping[str, float]
    switches: Mapping[str, float] = field(default_factory=dict)


def _declared_tunables() -> dict[str, Tunable]:
    return {row["name"]: Tunable(**row) for row in _cc.tunables()}


def _declared_variants() -> dict[str, Variant]:
    ours = {
        row["name"]: Variant(
            name=row["name"],
            algorithm=row["algorithm"],
            source=row["source"],
            preset=MappingProxyType({name: row["preset"][name] for name in row["tunables"]}),
            switches=MappingProxyType({name: row["preset"][name] for name in SWITCHES.values()}),
        )
        for row in _cc.variants()
    }
    stock = {name: Variant(name, "ns-3", "ns-3's own, unchanged", MappingProxyType({})) for name in STOCK_CONTROLS}
    kernel = {
        name: Variant(name, "linux", "Linux's own, of the kernel that runs", MappingProxyType({}))
        for name in KERNEL_CONTROLS
    }
    return ours | stock | kernel


_tunables = _declared_tunables()
#: Every tunable by name: ours in the order of the tunables' columns of a world, then those of loaded files.
TUNABLES: Mapping[str, Tunable] = MappingProxyType(_tunables)

#: The names of the tunables' columns of a world.
TUNABLE_NAMES = tuple(TUNABLES)

_columns = {name: column for column, name in enumerate(TUNABLE_NAMES)}
#: The column of each tunable; those of a loaded file are in the places of BBRv3's, which the file does not have.
TUNABLE_COLUMNS: Mapping[str, int] = MappingProxyType(_columns)

#: The tunable of ``bbr-mix`` that turns each mechanism on, by the mechanism's name.
SWITCHES: Mapping[str, str] = MappingProxyType(
    {tunable.mechanism: tunable.name for tunable in TUNABLES.values() if tunable.unit == "switch"}
)

#: The variant whose tunables all variants of an algorithm have.
BASES: Mapping[str, str] = MappingProxyType({"bbr": "bbr", "bbr3": "bbr3", "bbr2": "bbr3"})

_variants = _declared_variants()
#: Every congestion control by name; ours first, then ns-3's own, the kernel's and those of loaded files.
VARIANTS: Mapping[str, Variant] = MappingProxyType(_variants)


def nearest_variant(name: str) -> str:
    """Suggest variants in place of an unknown one; of a user's file, how it becomes one."""
    if re.search(r"\.(c|so|py(:\w+)?)$", name):
        by_option = f"'variants=[...,{name}]' or variant={name}"
        return f"a file is a variant where it is named: {by_option}, or bbrgym.load_controller({name!r})"
    return nearest(name, VARIANTS)


def add_variant(
    name: str, algorithm: str, source: str, base: Sequence[str], own: Mapping[int, Mapping[str, Any]]
) -> None:
    """Add the variant of a loaded file, or replace it.

    Args:
        name: of the variant.
        algorithm: see `Variant`.
        source: what the file is.
        base: tunables of BBR v1 that it has.
        own: rows of its own tunables, by column.

    Raises:
        ConfigError: a tunable has the name of a built-in's, or of another file's that is not the same tunable.
    """
    rows = {column: Tunable(**{**row, "mechanism": name}) for column, row in own.items()}
    for column, row in rows.items():
        other = _tunables.get(row.name, row)
        is_shared = other.mechanism in _variants and _columns[row.name] == column
        like = all(getattr(row, key) == getattr(other, key) for key in ("unit", "low", "high", "scale"))
        if other.mechanism != name and not (is_shared and like):
            expected = "another name, or that one's unit, range, scale and row"
            raise ConfigError(f"{name}: tunable {row.name} is one of {other.mechanism}'s, expected {expected}")
    for column, row in rows.items():
        _tunables[row.name], _columns[row.name] = row, column
    values = {**{one: _tunables[one].default for one in base}, **{row.name: row.default for row in rows.values()}}
    _variants[name] = Variant(name, algorithm, source, MappingProxyType(values))
