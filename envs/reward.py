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

import numpy as np
from numpy.typing import NDArray

from bbrgym.errors import ConfigError, nearest
from bbrgym.worlds import Table

_FLOOR_LOG2 = -6.0  # nothing delivered counts as 1/64 of the fair share; an RTT of 64 times the base as the worst


@dataclass(frozen=True)
class Interval:
    """What the terms are computed from.

    Attributes:
        flows: measurements of all flows by field.
        learners: indices of the learner flows that are active.
        base_rtt_ms: propagation both ways, of all flows.
        moved: distance that each coordinate of the action moved.
    """

    flows: Mapping[str, Table]
    learners: NDArray[np.intp]
    base_rtt_ms: Table
    moved: NDArray[np.float32]


def throughput(interval: Interval) -> float:
    """Goodput against the fair share; nothing is paid where the link carries nothing."""
    fair_share_mbps = interval.flows["fair_share_mbps"][interval.learners]
    if not len(interval.learners) or np.any(fair_share_mbps <= 0):
        return 0.0
    ratios = interval.flows["goodput_mbps"][interval.learners] / fair_share_mbps
    return float(np.mean(np.log2(np.maximum(ratios, 2.0**_FLOOR_LOG2))))


def delay(interval: Interval) -> float:
    """RTT against propagation alone; a flow without an RTT sample yet counts as at its base."""
    if not len(interval.learners):
        return 0.0
    ratios = interval.flows["rtt_mean_ms"][interval.learners] / interval.base_rtt_ms[interval.learners]
    return 0.0 - float(np.mean(np.log2(np.clip(ratios, 1.0, 2.0**-_FLOOR_LOG2))))


def loss(interval: Interval) -> float:
    """Packets really dropped, of those sent in the same interval."""
    if not len(interval.learners):
        return 0.0
    dropped = interval.flows["dropped_pkts"][interval.learners]
    sent = interval.flows["sent_pkts"][interval.learners]
    return 0.0 - float(np.mean(np.minimum(dropped / np.maximum(sent, 1.0), 1.0)))


def fairness(interval: Interval) -> float:
    """Jain's index of all active flows, learners or not."""
    goodput = interval.flows["goodput_mbps"][interval.flows["active"] > 0]
    squares = float(np.sum(goodput**2))
    if not len(interval.learners) or squares == 0.0:
        return 0.0
    return float(np.sum(goodput)) ** 2 / (len(goodput) * squares) - 1.0


def change(interval: Interval) -> float:
    """How far the controller moved its knobs."""
    return 0.0 - float(np.mean(interval.moved)) / 2.0


@dataclass(frozen=True)
class Term:
    """One term: how it is computed, its default weight, and how to write it."""

    compute: Callable[[Interval], float]
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

    def terms(self, interval: Interval) -> dict[str, float]:
        """Every term of an interval, weighted or not."""
        return {name: term.compute(interval) for name, term in TERMS.items()}

    def total(self, terms: Mapping[str, float]) -> float:
        """Their weighted sum."""
        return sum(self.weights[name] * value for name, value in terms.items())
