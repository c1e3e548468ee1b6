# SPDX-License-Identifier: GPL-2.0-only
"""Groups of draws, so that a policy's gain in one does not offset its loss in another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.worlds import Table

ALONE, SEVERAL, BESIDE_OTHERS = "alone", "several", "beside others"


def group_of(draw: TrainingDraw) -> str:
    """Return the group of a draw: one tuned flow alone, several tuned flows, or tuned flows beside others."""
    roles = [flow.role for flow in draw.scenario.resolved().flows]
    if any(role != "tuned" for role in roles):
        return BESIDE_OTHERS
    return ALONE if len(roles) == 1 else SEVERAL


def guarded_mean(gains: Table, weights: Table, groups: Sequence[str], guard: float) -> Table:
    """Return the mean gain of each policy, less `guard` times the policy's loss in each group, [policies].

    Args:
        gains: of each policy over the reference on each draw, [policies, draws].
        weights: of the draws, [draws].
        groups: of the draws, [draws].
        guard: price of a mean loss in a group, in proportion to the group's share of the draws.
    """
    total: Table = gains @ weights / weights.sum()
    for group in sorted(set(groups)):
        own = np.where(np.array(groups) == group, weights, 0.0)
        total = total + guard * np.minimum(gains @ own, 0.0) / weights.sum()
    return total
