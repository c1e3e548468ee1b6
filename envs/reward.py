# SPDX-License-Identifier: GPL-2.0-only
"""What the controller is paid for an interval: the weighted sum of named terms over the active learner flows.

The default weights make the reward the score by which runs are compared, interval by interval: throughput + 0.5 delay.
An episode's mean reward differs from its score by what a mean of logarithms differs from the logarithm of a mean, so
they are close where rates and RTTs are steady.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import Action
from bbrgym.envs.sums import add_rows
from bbrgym.errors import ConfigError, nearest
from bbrgym.worlds import Table

_FLOOR_LOG2 = -6.0  # nothing delivered counts as 1/64 of the fair share; an RTT of 64 times the base as the worst


@dataclass(frozen=True)
class Interval:
    """What the terms are computed from: one interval of N environments with L learner flows and at most F flows each.

    Attributes:
        learners: measurements of the learner flows by field, [L, N].
        flows: measurements of all flows by field, [F, N]; NaN where an environment has no such flow.
        base_rtt_ms: propagation both ways, of the learner flows: [L, N].
        moved: distance that each coordinate of the action moved, [N, tunables].
    """

    learners: Mapping[str, Table]
    flows: Mapping[str, Table]
    base_rtt_ms: Table
    moved: Action

    @cached_property
    def is_active(self) -> NDArray[np.bool_]:
        """Which learner flows count: [L, N]."""
        return self.learners["active"] > 0.0

    @cached_property
    def active_count(self) -> Table:
        """How many learner flows count, at least 1: [N]."""
        count: Table = np.maximum(add_rows(self.is_active), 1.0)
        return count

    def mean(self, values: Table) -> Table:
        """Over the active learner flows, 0 without one: [L, N] -> [N]. Divided last: never beyond its values' range."""
        return add_rows(values * self.is_active) / self.active_count


def throughput(interval: Interval) -> Table:
    """Goodput against the fair share; nothing is paid where the link carries nothing."""
    goodput_mbps, fair_share_mbps = interval.learners["goodput_mbps"], interval.learners["fair_share_mbps"]
    ratios = np.divide(goodput_mbps, fair_share_mbps, out=np.ones_like(goodput_mbps), where=fair_share_mbps > 0.0)
    return interval.mean(np.log2(np.maximum(ratios, 2.0**_FLOOR_LOG2)))


def delay(interval: Interval) -> Table:
    """RTT against propagation alone; a flow without an RTT sample yet counts as at its base."""
    ratios = interval.learners["rtt_mean_ms"] / interval.base_rtt_ms
    return 0.0 - interval.mean(np.log2(np.minimum(np.maximum(ratios, 1.0), 2.0**-_FLOOR_LOG2)))


def loss(interval: Interval) -> Table:
    """Packets really dropped, of those sent in the same interval."""
    ratios = interval.learners["dropped_pkts"] / np.maximum(interval.learners["sent_pkts"], 1.0)
    return 0.0 - interval.mean(np.minimum(ratios, 1.0))


def fairness(interval: Interval) -> Table:
    """Jain's index of all active flows, learners or not."""
    is_active = interval.flows["active"] > 0.0
    goodput = np.where(is_active, interval.flows["goodput_mbps"], 0.0)
    total, squares = add_rows(goodput), add_rows(goodput * goodput)
    is_known = interval.is_active.any(axis=0) & (squares > 0.0)
    jain = np.divide(total * total, add_rows(is_active) * squares, out=np.ones_like(total), where=is_known)
    return jain - 1.0


def change(interval: Interval) -> Table:
    """How far the controller moved its knobs."""
    moved = interval.moved.astype(np.float64)  # or numpy converts a part at a time, and sums it apart
    mean: Table = np.add.reduce(moved, axis=-1) / moved.shape[-1]
    return 0.0 - mean / 2.0


@dataclass(frozen=True)
class Term:
    """One term: how it is computed, its default weight, and how to write it."""

    compute: Callable[[Interval], Table]
    weight: float
    formula: str
    low: str
    high: str


TERMS: Mapping[str, Term] = {
    "throughput": Term(throughput, 1.0, "mean of log2(goodput / fair share), each at least -6", "-6", "log2(flows)"),
    "delay": Term(delay, 0.5, "-mean of log2(mean RTT / base RTT), each at most 6", "-6", "0"),
    "loss": Term(loss, 0.0, "-mean of dropped / sent packets, each at most 1", "-1", "0"),
    "fairness": Term(fairness, 0.0, "Jain's index of the active flows' goodput - 1", "-1", "0"),
    "change": Term(change, 0.0, "-mean of |action - previous action| / 2", "-1", "0"),
}
"""The terms by name.

Fair share: the world's `fair_share_mbps`. Without an active learner flow all terms but change are 0.
"""


class Reward:
    """The weighted sum.

    Args:
        weights: by term; the terms left out have weight 0. The defaults of `TERMS` without.
    """

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        given = {name: term.weight for name, term in TERMS.items()} if weights is None else weights
        for name, weight in given.items():
            if name not in TERMS:
                raise ConfigError(f"reward_weights: {name!r}: {nearest(name, TERMS)}")
            if not math.isfinite(weight):
                raise ConfigError(f"reward_weights[{name!r}]: {weight}, allowed is a finite number")
        self.weights = {name: float(given.get(name, 0.0)) for name in TERMS}

    def terms(self, interval: Interval) -> dict[str, Table]:
        """Every term of an interval, weighted or not: [N] each."""
        return {name: term.compute(interval) for name, term in TERMS.items()}

    def total(self, terms: Mapping[str, Table]) -> Table:
        """Their weighted sum: [N]."""
        total = np.zeros(len(next(iter(terms.values()))))
        for name, values in terms.items():
            if self.weights[name]:
                total += self.weights[name] * values
        return total
