# SPDX-License-Identifier: GPL-2.0-only
"""Phases of the congestion controls, by the codes of the measured field ``phase``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """Codes of a phase."""

    name: str  # as figures show it
    group: str  # coarser phase that it is part of, or its own name
    first: int  # codes, both included
    last: int  # codes, both included
    algorithms: tuple[str, ...] = ()  # that have it. Default: all others.


#: All phases; the part of PROBE_BW numbered i has the code 8 + i. What only some algorithms have comes first.
PHASES = (
    Phase("STARTUP", "STARTUP", 0, 0),
    Phase("DRAIN", "DRAIN", 1, 1),
    Phase("PROBE_RTT", "PROBE_RTT", 2, 2),
    Phase("PROBE_BW up", "PROBE_BW", 8, 8),
    Phase("PROBE_BW down", "PROBE_BW", 9, 9),
    Phase("PROBE_BW refill", "PROBE_BW", 11, 11, ("bbr2", "bbr3")),
    Phase("PROBE_BW cruise", "PROBE_BW", 10, 15),
    Phase("slow start", "slow start", 16, 16),
    Phase("congestion avoidance", "congestion avoidance", 17, 17),
)

#: Phase of codes that are in none, such as those of other programs.
OTHER = Phase("other", "other", 0, -1)


def phase_of(code: float, algorithm: str) -> Phase:
    """Return the phase of a code in an algorithm, such as ``bbr`` or ``bbr3``."""
    for phase in PHASES:
        if phase.first <= code <= phase.last and (not phase.algorithms or algorithm in phase.algorithms):
            return phase
    return OTHER
