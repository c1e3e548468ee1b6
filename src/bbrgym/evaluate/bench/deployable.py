# SPDX-License-Identifier: GPL-2.0-only
"""Deployability of an entrant: five conditions under which it would do no harm beside others, nor lose by it.

a    CUBIC and Reno beside 1 to 3 of it get about what they get beside CUBIC
b    neither it nor BBR v1 starves the other
c    it gains over BBR v1 in its place, however many have deployed it
d    its score is above that of every variant's preset and of shipped/fixed
e    without other flows its own score is not far below that of an agent trained for it
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from bbrgym.evaluate.bench.tasks import Alone
from bbrgym.evaluate.statistics import Array, Estimate, bootstrap_mean


@dataclass(frozen=True)
class DeploymentCondition:
    """Bounds of a measure; a letter holds if all of its conditions do."""

    letter: str
    measure: str
    words: str  # head of its column
    at_least: float = -math.inf
    at_most: float = math.inf
    end: Literal["value", "low", "high"] = "value"  # that keeps to the bounds: of the estimate, or of its interval

    def holds(self, estimate: Estimate) -> bool:
        """Return whether an estimate keeps to the bounds; an unknown end does not."""
        end: float = getattr(estimate, self.end)
        return self.at_least <= end <= self.at_most


CONDITIONS = (
    DeploymentCondition("a", "loss_based_share", "share of CUBIC, Reno", at_least=0.72),
    DeploymentCondition("a", "loss_based_below_half", "below half, over CUBIC's", at_most=0.05),
    DeploymentCondition("a", "loss_based_rtt", "log2 p95 RTT, over CUBIC's", at_most=0.0, end="low"),
    DeploymentCondition("a", "loss_based_loss", "loss (%), over CUBIC's", at_most=0.0, end="low"),
    DeploymentCondition("b", "bbr_share_50", "BBR's share, 50 %", at_least=0.8, at_most=1.25),
    DeploymentCondition("b", "own_share_50", "own share, 50 %", at_least=0.8),
    DeploymentCondition("b", "bbr_share_deep", "BBR's share, deep", at_least=0.8, at_most=1.25),
    DeploymentCondition("b", "own_share_deep", "own share, deep", at_least=0.8),
    DeploymentCondition("c", "gain_10", "own gain, 10 %", at_least=0.0, end="high"),
    DeploymentCondition("c", "gain_50", "50 %", at_least=0.0, end="high"),
    DeploymentCondition("c", "gain_90", "90 %", at_least=0.0, end="high"),
    DeploymentCondition("d", "lead_wan_mix", "lead, wan_mix", at_least=0.0),
    DeploymentCondition("d", "lead_with_cubic", "with_cubic", at_least=0.0),
    DeploymentCondition("d", "lead_commons", "commons", at_least=0.0, end="low"),
    DeploymentCondition("e", "alone", "gain alone", at_least=0.8),
)


def deployment_measures(
    summaries: Mapping[str, pl.DataFrame], references: Mapping[str, pl.DataFrame], alone: Alone
) -> dict[str, Estimate]:
    """Return the measures of an entrant that its own runs give, which are all but the leads.

    Args:
        summaries: rows of summary.parquet by task.
        references: rows of the runs with CUBIC, and with BBR, in place of the tuned flows, by task.
        alone: own scores to compare with.
    """

    def others(task: str, column: str, reference: str | None = None) -> Array:
        return _of_draws(rows(task, reference).filter(pl.col("role") != "tuned"), column)

    def own(task: str, column: str, reference: str | None = None) -> Array:
        return _of_draws(rows(task, reference).filter(pl.col("role") == "tuned"), column)

    def rows(task: str, reference: str | None) -> pl.DataFrame:
        return summaries[task] if reference is None else references[task].filter(pl.col("variant") == reference)

    loss_based, two = "beside_loss_based", "two_beside_bbr"
    shares, usual = (others(loss_based, "share_of_fair", reference) for reference in (None, "cubic"))
    rtts, usual_rtts = (others(loss_based, "rtt_p95_ms", reference) for reference in (None, "cubic"))
    losses, usual_losses = (others(loss_based, "loss_rate", reference) for reference in (None, "cubic"))
    gains = {share: own(f"deployed_{share}", "own_score") for share in (10, 50, 90)}
    values = {
        "loss_based_share": shares,
        "loss_based_below_half": (shares < 0.5) - 1.0 * (usual < 0.5),
        "loss_based_rtt": np.log2(rtts / usual_rtts),
        "loss_based_loss": 100 * (losses - usual_losses),
        "bbr_share_50": others("deployed_50", "share_of_fair"),
        "own_share_50": own("deployed_50", "share_of_fair"),
        "bbr_share_deep": others(two, "share_of_fair"),
        "own_share_deep": own(two, "share_of_fair"),
        **{f"gain_{share}": gains[share] - own(f"deployed_{share}", "own_score", "bbr") for share in gains},
        "alone": (own("alone", "own_score") - np.array(alone.fixed)) / alone.gain,
    }
    return {measure: bootstrap_mean(of_draws) for measure, of_draws in values.items()}


def held(measures: Mapping[str, Estimate]) -> str:
    """Return the letters that hold, such as ``a c d``; one with an unknown measure does not."""
    letters = dict.fromkeys(condition.letter for condition in CONDITIONS)
    fails = {one.letter for one in CONDITIONS if not one.holds(measures.get(one.measure, Estimate(math.nan)))}
    return " ".join(letter for letter in letters if letter not in fails)


def _of_draws(rows: pl.DataFrame, column: str) -> Array:
    """Return the mean over the flows of each draw, in the order of the seeds: [draws]."""
    return rows.group_by("seed").agg(pl.col(column).fill_nan(None).mean()).sort("seed")[column].to_numpy()
