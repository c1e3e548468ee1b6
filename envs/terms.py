# SPDX-License-Identifier: GPL-2.0-only
"""What may be paid for in an interval: named terms, each a mean over the active learner flows and in a fixed range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.row_sums import sum_rows
from bbrgym.envs.scaling import Coordinates
from bbrgym.worlds import Table

_MOST = 64.0  # what ratios count at most, and 1 / what they count at least under a logarithm


@dataclass(frozen=True)
class TermInputs:
    """What the terms are computed from: one interval of N environments with L learner flows and at most F flows each.

    Attributes:
        learners: measurements of the learner flows by field, [L, N].
        flows: measurements of all flows by field, [F, N]; NaN where an environment has no such flow.
        base_rtt_ms: propagation both ways, of the learner flows: [L, N].
        moved: distance that each coordinate of the setting moved, [N, tunables].
    """

    learners: Mapping[str, Table]
    flows: Mapping[str, Table]
    base_rtt_ms: Table
    moved: Coordinates

    @cached_property
    def is_active(self) -> NDArray[np.bool_]:
        """Which learner flows count: [L, N]."""
        return self.learners["active"] > 0.0

    @cached_property
    def active_count(self) -> Table:
        """How many learner flows count, at least 1: [N]."""
        count: Table = np.maximum(sum_rows(self.is_active), 1.0)
        return count

    @cached_property
    def shares(self) -> Table:
        """Goodput / fair share, at most 64; 1 where the link carries nothing: [L, N]."""
        goodput_mbps, fair_share_mbps = self.learners["goodput_mbps"], self.learners["fair_share_mbps"]
        shares = np.divide(goodput_mbps, fair_share_mbps, out=np.ones_like(goodput_mbps), where=fair_share_mbps > 0.0)
        return np.minimum(shares, _MOST, out=shares)

    @cached_property
    def shares_log2(self) -> Table:
        """The same as powers of two, from -6 to 6: [L, N]."""
        log2: Table = np.log2(np.maximum(self.shares, 1.0 / _MOST))
        return log2

    @cached_property
    def stretch(self) -> Table:
        """Mean RTT / base RTT, from 1; 1 without an RTT sample yet: [L, N]."""
        stretch: Table = np.maximum(self.learners["rtt_mean_ms"] / self.base_rtt_ms, 1.0)
        return stretch

    def of_sent(self, field: str) -> Table:
        """Packets of a field / packets sent, at most 1: [L, N]."""
        ratios: Table = self.learners[field] / np.maximum(self.learners["sent_pkts"], 1.0)
        return np.minimum(ratios, 1.0, out=ratios)

    def mean(self, values: Table) -> Table:
        """Over the active learner flows, 0 without one: [L, N] -> [N]. Divided last: never beyond its values' range."""
        return sum_rows(values * self.is_active) / self.active_count


def throughput(interval: TermInputs) -> Table:
    """Goodput against the fair share, in powers of two."""
    return interval.mean(interval.shares_log2)


def delay(interval: TermInputs) -> Table:
    """RTT against propagation alone, in powers of two."""
    return 0.0 - interval.mean(np.log2(np.minimum(interval.stretch, _MOST)))


def power(interval: TermInputs) -> Table:
    """Kleinrock's power, against that of the fair share without a queue."""
    return interval.mean(interval.shares / interval.stretch)


def goodput(interval: TermInputs) -> Table:
    """Goodput against the fair share."""
    return interval.mean(interval.shares)


def alpha_fair(interval: TermInputs, alpha: float = 1.0) -> Table:
    """Utility of the goodput against the fair share: 0 for the fair share, and in the unit of throughput there."""
    if alpha == 1.0:
        return throughput(interval)
    growth = 1.0 - alpha
    utility = (np.exp2(growth * interval.shares_log2) - 1.0) / (growth * np.log(2.0))
    return interval.mean(np.clip(utility, -_MOST, _MOST))


def loss(interval: TermInputs) -> Table:
    """Packets really dropped, of those sent in the same interval."""
    return 0.0 - interval.mean(interval.of_sent("dropped_pkts"))


def retransmission(interval: TermInputs) -> Table:
    """Packets sent again, of those sent."""
    return 0.0 - interval.mean(interval.of_sent("retransmitted_pkts"))


def fairness(interval: TermInputs) -> Table:
    """Jain's index of all active flows, learners or not."""
    is_active = interval.flows["active"] > 0.0
    goodput_mbps = np.where(is_active, interval.flows["goodput_mbps"], 0.0)
    total, squares = sum_rows(goodput_mbps), sum_rows(goodput_mbps * goodput_mbps)
    is_known = interval.is_active.any(axis=0) & (squares > 0.0)
    jain = np.divide(total * total, sum_rows(is_active) * squares, out=np.ones_like(total), where=is_known)
    return jain - 1.0


def change(interval: TermInputs) -> Table:
    """How far the controller moved its knobs."""
    moved = interval.moved.astype(np.float64)  # or numpy converts a part at a time, and sums it apart
    mean: Table = np.add.reduce(moved, axis=-1) / moved.shape[-1]
    return 0.0 - mean / 2.0


@dataclass(frozen=True)
class Term:
    """One term.

    Attributes:
        compute: from an interval, [N].
        formula: how to write it; means are over the active learner flows.
        unit: of its values.
        low: its smallest value.
        high: its largest value.
    """

    compute: Callable[[TermInputs], Table]
    formula: str
    unit: str
    low: float
    high: float


TERMS: Mapping[str, Term] = {
    "throughput": Term(throughput, "mean of log2(goodput / fair share), each from -6 to 6", "powers of 2", -6.0, 6.0),
    "delay": Term(delay, "-mean of log2(mean RTT / base RTT), each from 0 to 6", "powers of 2", -6.0, 0.0),
    "power": Term(power, "mean of (goodput / fair share) / (mean RTT / base RTT)", "ratio", 0.0, _MOST),
    "goodput": Term(goodput, "mean of goodput / fair share, each at most 64", "ratio", 0.0, _MOST),
    "alpha_fair": Term(
        alpha_fair,
        "mean of (x^(1 - alpha) - 1) / ((1 - alpha) ln 2), each from -64 to 64; of log2 x if alpha is 1; "
        "x = goodput / fair share, from 1/64 to 64",
        "powers of 2 around the fair share",
        -_MOST,
        _MOST,
    ),
    "loss": Term(loss, "-mean of dropped / sent packets, each at most 1", "ratio", -1.0, 0.0),
    "retransmission": Term(retransmission, "-mean of packets sent again / packets sent", "ratio", -1.0, 0.0),
    "fairness": Term(fairness, "Jain's index of the active flows' goodput, learners or not, - 1", "ratio", -1.0, 0.0),
    "change": Term(change, "-mean of |coordinate - coordinate before| / 2 over the tunables", "ratio", -1.0, 0.0),
}
"""The terms by name.

Fair share: the world's `fair_share_mbps`; where it is 0, goodput counts as the fair share. A flow without an RTT sample
yet counts as at its base RTT. Without an active learner flow all terms but change are 0.
"""
