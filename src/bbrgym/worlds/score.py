# SPDX-License-Identifier: GPL-2.0-only
"""The score: the number by which variants and agents are compared.

    flow:  log2(goodput / fair share) - delta * log2(mean RTT / base RTT)
    run:   mean over the flows that count

A flow with its fair share and an empty queue scores 0; half the goodput or, at delta = 0.5, four times the RTT
cost 1. Tuned flows count; without any, all flows but background ones; without these, all. A flow without a
measured window (it stopped before the end of the warm-up) never counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bbrgym.scenario.model import Scenario
from bbrgym.worlds.vector_world import VectorWorld

Array = npt.NDArray[np.float64]

BITS_PER_BYTE = 8
DEFAULT_DELTA = 0.5


def flow_scores(
    goodput_mbps: Array,
    fair_share_mbps: Array,
    window_s: Array,
    rtt_mean_ms: Array,
    base_rtt_ms: Array,
    *,
    mss_bytes: int,
    delta: float,
) -> Array:
    """Return the score of each flow, NaN for one without a measured window: [flows].

    A flow that delivered nothing counts as if it had delivered one packet in its window, and one without an RTT
    sample as if its RTT were the base RTT, so that a score is finite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        least_mbps = mss_bytes * BITS_PER_BYTE / 1e6 / window_s
        goodput = np.log2(np.maximum(goodput_mbps, least_mbps) / fair_share_mbps)
        rtt = np.log2(np.where(np.isnan(rtt_mean_ms), base_rtt_ms, rtt_mean_ms) / base_rtt_ms)
        return np.where(window_s > 0, goodput - delta * rtt, np.nan)


def run_score(scores: Array, roles: Sequence[str]) -> float:
    """Return the mean score of the flows that count; NaN if there is none."""
    for counting in ({"tuned"}, {"tuned", "fixed"}, {"tuned", "fixed", "background"}):
        counted = _counted(scores, roles, counting)
        if len(counted) > 0:
            return float(np.mean(counted))
    return float("nan")


def _counted(scores: Array, roles: Sequence[str], counting: Collection[str]) -> Array:
    """Return the scores of the flows with these roles that have one."""
    counted: Array = scores[[role in counting for role in roles] & ~np.isnan(scores)]
    return counted


def score_of_world(worlds: VectorWorld, index: int, *, delta: float = DEFAULT_DELTA) -> float:
    """Return the score of one of several worlds for the run so far; see `score_of_run`."""
    flows, _ = worlds.summary(index)
    return score_of_run(worlds.scenarios[index], worlds.flow_summary_fields, flows, delta=delta)


def score_of_run(scenario: Scenario, fields: Sequence[str], summary: Array, *, delta: float = DEFAULT_DELTA) -> float:
    """Return the score of a run from the world's summary.

    Args:
        scenario: that ran.
        fields: columns of the summary, a world's ``flow_summary_fields``.
        summary: [flows, fields], as a world gives it.
        delta: weight of the RTT.
    """
    return run_score(*_scores_and_roles(scenario, fields, summary, delta=delta))


def harm_of_run(scenario: Scenario, fields: Sequence[str], summary: Array) -> float:
    """Return how often the goodput of other flows is halved below the fair share, the mean over these flows.

    They are those that are neither tuned nor background; 0 without any. See `score_of_run`; Ware et al., Beyond Jain's
    fairness index, HotNets 2019.
    """
    counted = _counted(*_scores_and_roles(scenario, fields, summary, delta=0.0), {"fixed"})
    return float(np.mean(np.maximum(-counted, 0.0))) if len(counted) else 0.0


@dataclass(frozen=True)
class Objective:
    """Aim of a search for settings: the score of a run, less a price for the other flows' loss."""

    delta: float = DEFAULT_DELTA  # weight of the RTT in the score
    harm_price: float = 0.0  # of `harm_of_run`

    def of_world(self, worlds: VectorWorld, index: int) -> float:
        """Return the objective of one of several worlds for the run so far."""
        flows, _ = worlds.summary(index)
        return self.of_run(worlds.scenarios[index], worlds.flow_summary_fields, flows)

    def of_run(self, scenario: Scenario, fields: Sequence[str], summary: Array) -> float:
        """Return the objective of a run; see `score_of_run`."""
        score = score_of_run(scenario, fields, summary, delta=self.delta)
        return score - self.harm_price * harm_of_run(scenario, fields, summary) if self.harm_price else score


def _scores_and_roles(
    scenario: Scenario, fields: Sequence[str], summary: Array, *, delta: float
) -> tuple[Array, list[str]]:
    """Return the score and the role of each flow of a run."""
    flows = scenario.resolved().flows
    column = dict(zip(fields, summary.T, strict=True))
    scores = flow_scores(
        column["goodput_mbps"],
        column["fair_share_mbps"],
        column["stop_s"] - column["start_s"],
        column["rtt_mean_ms"],
        np.array([flow.rtt_ms for flow in flows]),
        mss_bytes=scenario.mss_bytes,
        delta=delta,
    )
    return scores, [flow.role for flow in flows]
