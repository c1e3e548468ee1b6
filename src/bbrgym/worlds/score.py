# SPDX-License-Identifier: GPL-2.0-only
"""The score, by which variants and agents are compared, and the harm that their flows do to others.

    flow:       log2(goodput / fair share) - delta * log2(mean RTT / base RTT)
    score:      the network's: mean over tuned and fixed flows; without any, over all
    own score:  mean over tuned flows; without any, over all but background ones; without these, over all

A path whose delay moves has the mean base RTT of the flow's window.

A flow with its fair share and an empty queue scores 0; half the goodput or, at delta = 0.5, four times the RTT cost 1.
A flow without a measured window (it stopped before the end of the warm-up) never counts.

The fair share is max-min: a flow whose application limits it (`Flow.demand_mbps`) has no more than it asks for, and
leaves the rest to the others. In the network's score the first term of such a flow is at most 0. The own score takes
the capacity / active flows for the fair share of each flow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from bbrgym.scenario.link import Link, ReverseLink, moved_ms
from bbrgym.scenario.model import HEADER_BYTES, Scenario
from bbrgym.worlds.vector_world import VectorWorld

Array = npt.NDArray[np.float64]

ScoreKind: TypeAlias = Literal["network", "own"]
"""The flows that a score counts: see above."""

BITS_PER_BYTE = 8
DEFAULT_DELTA = 0.5
_COUNTED = {
    "network": ({"tuned", "fixed"}, {"tuned", "fixed", "background"}),
    "own": ({"tuned"}, {"tuned", "fixed"}, {"tuned", "fixed", "background"}),
}


def counted_roles(roles: Sequence[str], score: ScoreKind) -> set[str]:
    """Return the roles of the flows that count in a score, among flows of these roles."""
    return next((counted for counted in _COUNTED[score] if counted & set(roles)), set())


def max_min_shares(capacity: Array, demands: Array) -> Array:
    """Return the max-min fair shares of flows, [flows, columns], each column a link of its own.

    Args:
        capacity: of the link, [columns].
        demands: the most that each flow takes, infinite for one without a limit, 0 for one that is absent:
            [flows, columns].
    """
    ascending = np.sort(demands, axis=0)
    satisfied = np.cumsum(np.concatenate([np.zeros((1, len(capacity))), ascending[:-1]]), axis=0)
    others = np.arange(len(demands), 0, -1)[:, None]  # flows that share what the satisfied ones leave
    shares: Array = np.minimum(demands, ((capacity - satisfied) / others).max(axis=0))
    return shares


def max_min_of_paths(capacity: Array, demands: Array, paths: Sequence[Sequence[int]]) -> Array:
    """Return the max-min fair shares of flows that each cross some links, [flows].

    Args:
        capacity: of the links, [links].
        demands: as of `max_min_shares`, [flows].
        paths: indices of the links that each flow crosses, [flows].
    """
    # A demand is a link of the flow's own: whichever link has the least for each of its flows settles their shares.
    left = np.concatenate([capacity, demands])
    crosses = np.zeros((len(left), len(demands)), np.bool_)
    for flow, path in enumerate(paths):
        crosses[[*path, len(capacity) + flow], flow] = True
    shares, is_open = np.zeros(len(demands)), np.ones(len(demands), np.bool_)
    while is_open.any():
        sharing = (crosses & is_open).sum(axis=1)
        each = np.where(sharing > 0, left / np.maximum(sharing, 1), math.inf)
        settled = crosses[each.argmin()] & is_open
        shares[settled] = each.min()
        left = np.maximum(left - each.min() * (crosses & settled).sum(axis=1), 0.0)
        is_open &= ~settled
    return shares


def fair_shares_mbps(scenario: Scenario, start_s: Array, stop_s: Array) -> Array:
    """Return the max-min fair share of each flow, the mean over a window of its own: [flows].

    A flow asks the links of its path for its mean demand from its start to its stop, whatever it has got so far.
    """
    scenario = scenario.resolved()
    flows = scenario.flows
    ends_s = [scenario.duration_s if flow.stop_s is None else flow.stop_s for flow in flows]
    links = scenario.all_links()
    changes_s = [change.at_s for link in links.values() for change in link.changes]
    edges = np.unique([0.0, *(flow.start_s for flow in flows), *ends_s, *changes_s, *start_s, *stop_s])
    edges = edges[edges <= scenario.duration_s]  # NaN, the window of a flow without one, is left out too
    of_payload = scenario.mss_bytes / (scenario.mss_bytes + HEADER_BYTES)
    seconds = np.diff(edges)
    demands = np.array(
        [
            np.where((flow.start_s <= edges[:-1]) & (edges[:-1] < end_s), flow.demand_mbps(end_s), 0.0)
            for flow, end_s in zip(flows, ends_s, strict=True)
        ]
    )
    capacity = np.array([np.diff(_capacity_mbit(link, edges)) / seconds * of_payload for link in links.values()])
    paths = [[list(links).index(name) for name in scenario.path_of(flow)] for flow in flows]
    shares = np.zeros((len(flows), len(seconds)))
    if all(len(path) == 1 for path in paths):
        for index, of_link in enumerate(capacity):
            shares += max_min_shares(of_link, np.where(np.array(paths) == index, demands, 0.0))
    else:
        for column in range(len(seconds)):
            shares[:, column] = max_min_of_paths(capacity[:, column], demands[:, column], paths)
    within = (start_s[:, None] <= edges[:-1]) & (edges[:-1] < stop_s[:, None])
    with np.errstate(invalid="ignore"):
        means: Array = (shares * within) @ seconds / (stop_s - start_s)
    return means


def _capacity_mbit(link: Link | ReverseLink, at_s: Array) -> Array:
    """Return what a resolved link can have carried by some times, in Mbit of IP bytes."""
    if link.trace is not None:
        trace = link.trace
        carried = np.concatenate([[0], np.cumsum(trace.counts or np.ones(len(trace.times_ms)))])
        periods, within_ms = np.divmod(at_s * 1e3, trace.period_ms)
        opportunities = periods * carried[-1] + carried[np.searchsorted(trace.times_ms, within_ms, side="right")]
        return np.asarray(opportunities * trace.opportunity_bytes * BITS_PER_BYTE / 1e6)
    steps = [(change.at_s, change.rate_mbps) for change in link.changes if change.rate_mbps is not None]
    knots_s, rates_mbps = np.array([(0.0, link.mean_rate_mbps), *steps]).T
    carried = np.concatenate([[0.0], np.cumsum(rates_mbps[:-1] * np.diff(knots_s))])
    index = np.searchsorted(knots_s, at_s, side="right") - 1
    return np.asarray(carried[index] + rates_mbps[index] * (at_s - knots_s[index]))


def base_rtts_ms(scenario: Scenario, start_s: Array, stop_s: Array) -> Array:
    """Return the base RTT of each flow, the mean over a window of its own of a path whose delay may move: [flows]."""
    scenario = scenario.resolved()
    links = scenario.all_links()
    moving = [
        name for name, link in links.items() if link.delay_trace or any(c.delay_ms is not None for c in link.changes)
    ]
    rtts_ms = np.array([flow.rtt_ms for flow in scenario.flows])
    for index, (flow, start, stop) in enumerate(zip(scenario.flows, start_s, stop_s, strict=True)):
        for name in moving if stop > start else ():
            if name in scenario.path_of(flow) + scenario.ack_path_of(flow):
                rtts_ms[index] += moved_ms(links[name], start, stop)
    return rtts_ms


def flow_scores(
    goodput_mbps: Array,
    fair_share_mbps: Array,
    window_s: Array,
    rtt_mean_ms: Array,
    base_rtt_ms: Array,
    *,
    mss_bytes: int,
    delta: float,
    is_limited: npt.NDArray[np.bool_] | bool = False,
) -> Array:
    """Return the score of each flow, NaN for one without a measured window: [flows].

    A flow that delivered nothing counts as if it had delivered one packet in its window, and one without an RTT
    sample as if its RTT were the base RTT, so that a score is finite. A limited flow gains nothing by more than its
    fair share.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        least_mbps = mss_bytes * BITS_PER_BYTE / 1e6 / window_s
        goodput = np.log2(np.maximum(goodput_mbps, least_mbps) / fair_share_mbps)
        goodput = np.where(is_limited, np.minimum(goodput, 0.0), goodput)
        rtt = np.log2(np.where(np.isnan(rtt_mean_ms), base_rtt_ms, rtt_mean_ms) / base_rtt_ms)
        return np.where(window_s > 0, goodput - delta * rtt, np.nan)


def run_score(scores: Array, roles: Sequence[str], score: ScoreKind = "network") -> float:
    """Return the mean score of the flows that count; NaN if there is none."""
    known = ~np.isnan(scores)
    counted = counted_roles([role for role, is_known in zip(roles, known, strict=True) if is_known], score)
    return float(np.mean(scores[[role in counted for role in roles] & known])) if counted else math.nan


def limited_flows(scenario: Scenario) -> npt.NDArray[np.bool_]:
    """Return whether the application of each flow limits it, [flows]."""
    return np.array([math.isfinite(flow.demand_mbps(scenario.duration_s)) for flow in scenario.resolved().flows])


def shares_of_fair(scenario: Scenario, fields: Sequence[str], summary: Array) -> Array:
    """Return goodput / fair share of each flow of a run, of a limited flow at most 1: [flows].

    Arguments as of `score_of_run`.
    """
    column = dict(zip(fields, summary.T, strict=True))
    is_limited = limited_flows(scenario)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = column["goodput_mbps"] / _fair_shares(scenario, column, is_limited)
    return np.asarray(np.where(is_limited, np.minimum(shares, 1.0), shares))


def _fair_shares(scenario: Scenario, column: Mapping[str, Array], is_limited: npt.NDArray[np.bool_]) -> Array:
    """Return the max-min fair share of each flow of a run, [flows]; without limited flows that of the world, exact."""
    if not is_limited.any():
        return column["fair_share_mbps"]
    return fair_shares_mbps(scenario, column["start_s"], column["stop_s"])


def score_of_run(
    scenario: Scenario,
    fields: Sequence[str],
    summary: Array,
    *,
    delta: float = DEFAULT_DELTA,
    score: ScoreKind = "network",
) -> float:
    """Return the score of a run from the summary of its world.

    Args:
        scenario: that ran.
        fields: columns of the summary, a world's ``flow_summary_fields``.
        summary: [flows, fields], as a world gives it.
        delta: weight of the RTT.
        score: which one.
    """
    flows = scenario.resolved().flows
    column = dict(zip(fields, summary.T, strict=True))
    is_own, is_limited = score == "own", limited_flows(scenario)
    scores = flow_scores(
        column["goodput_mbps"],
        column["fair_share_mbps"] if is_own else _fair_shares(scenario, column, is_limited),
        column["stop_s"] - column["start_s"],
        column["rtt_mean_ms"],
        base_rtts_ms(scenario, column["start_s"], column["stop_s"]),
        mss_bytes=scenario.mss_bytes,
        delta=delta,
        is_limited=False if is_own else is_limited,
    )
    return run_score(scores, [flow.role for flow in flows], score)


@dataclass(frozen=True)
class Objective:
    """Aim of a search, a training or a validation: a score of each run."""

    delta: float = DEFAULT_DELTA  # weight of the RTT
    score: ScoreKind = "network"

    def of_world(self, worlds: VectorWorld, index: int) -> float:
        """Return the score of one of several worlds, of its run so far."""
        flows, _ = worlds.summary(index)
        return self.of_run(worlds.scenarios[index], worlds.flow_summary_fields, flows)

    def of_run(self, scenario: Scenario, fields: Sequence[str], summary: Array) -> float:
        """Return the score of a run; see `score_of_run`."""
        return score_of_run(scenario, fields, summary, delta=self.delta, score=self.score)


HARMS = ("harm", "harm_rtt_p95", "harm_loss")
"""Names of the measures of harm."""


def harm_of_flows(run: Mapping[str, Array], reference: Mapping[str, Array]) -> dict[str, Array]:
    """Return what flows lose in a run against a reference run of the same draw, by `HARMS`; 0 where they gain.

    The reference run of a flow has that flow's own congestion control in place of the tuned flows (Ware et al., Beyond
    Jain's fairness index, HotNets 2019)::

        harm            1 - goodput / the reference's
        harm_rtt_p95    1 - the reference's 95th percentile of the RTT / the run's
        harm_loss       loss rate - the reference's

    Args:
        run: ``goodput_mbps``, ``rtt_p95_ms`` and ``loss_rate`` of the flows, [flows] each.
        reference: the same of the reference run.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = {
            "harm": 1.0 - run["goodput_mbps"] / reference["goodput_mbps"],
            "harm_rtt_p95": 1.0 - reference["rtt_p95_ms"] / run["rtt_p95_ms"],
            "harm_loss": run["loss_rate"] - reference["loss_rate"],
        }
    return {name: np.maximum(losses[name], 0.0) for name in HARMS}
