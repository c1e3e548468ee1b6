# SPDX-License-Identifier: GPL-2.0-only
"""Tolerances with which a state is held to what the draft asks of it."""

from __future__ import annotations

PLATEAU_ROUNDS = 3
"""Rounds without growth after which a phase takes the bandwidth for found."""

BANDWIDTH_TOLERANCE = 0.02
"""Part of the bottleneck's rate that max_bw may be off."""

GAIN_TOLERANCE = 0.01
"""Part of a gain that pacing may be off."""

MARGIN = 0.99
"""Part of the bandwidth that pacing keeps to (BBRPacingMarginPercent)."""

FLOOR_PKTS = 4
"""Least window, BBRMinPipeCwnd."""

CRUISE_SHARE = 0.95
"""Part of the bottleneck's rate that CRUISE is to use."""
