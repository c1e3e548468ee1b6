# SPDX-License-Identifier: GPL-2.0-only
"""The paths that most cases are tried on."""

from __future__ import annotations

from bbrgym.conformance.setup import Condition

PATHS = (
    Condition(1.0, 10_000.0),
    Condition(1.0, 100.0),
    Condition(10.0, 1000.0),
    Condition(40.0, 10.0),
    Condition(100.0, 100.0),
    Condition(200.0, 1.0),
    Condition(1000.0, 10.0),
    Condition(1000.0, 0.064),
)
"""From 1 ms to 1 s and from 64 kbit/s to 10 Gbit/s."""

MANY_PKTS = tuple(one for one in PATHS if one.bdp_pkts >= 80)
"""Those of them on which a few packets are a small part of the BDP."""


def is_long(condition: Condition) -> bool:
    """Return whether PROBE_RTT comes between on such a path."""
    return condition.turn_s >= 0.2


def varied(paths: tuple[Condition, ...], *variations: tuple[str, float]) -> tuple[Condition, ...]:
    """Return the conditions with each variation."""
    return tuple(Condition(one.rtt_ms, one.rate_mbps, text, amount) for text, amount in variations for one in paths)
