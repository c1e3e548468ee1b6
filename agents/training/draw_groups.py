# SPDX-License-Identifier: GPL-2.0-only
"""Groups of draws by the flows in them."""

from __future__ import annotations

from bbrgym.agents.training.draws import TrainingDraw

ALONE, SEVERAL, BESIDE_OTHERS = "alone", "several", "beside others"


def group_of(draw: TrainingDraw) -> str:
    """Return the group of a draw: one tuned flow alone, several tuned flows, or tuned flows beside others."""
    roles = [flow.role for flow in draw.scenario.resolved().flows]
    if any(role != "tuned" for role in roles):
        return BESIDE_OTHERS
    return ALONE if len(roles) == 1 else SEVERAL
