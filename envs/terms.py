# SPDX-License-Identifier: GPL-2.0-only
"""Reward terms: each a mean over the active flows that count in an interval, in a fixed range."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.row_sums import sum_rows
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.worlds import Table, VectorWorld

_MOST = 64.0  # largest ratio that counts; under a logarithm the smallest is its inverse


def by_field(table: Table) -> Mapping[str, Table]:
    """Return the rows of a table of flow measurements, [flow fields, flows, N], by field name."""
    return dict(zip(VectorWorld.flow_fields, table, strict=True))


@dataclass(frozen=True)
class TermInputs:
    """Inputs of the terms: one interval of N environments with at most L flows that count and F flows each."""

    counted: Mapping[str, Table]  # measurements of the flows that count by field, [L, N]; 0 where there is none
    flows: Mapping[str, Table]  # measurements of all flows by field, [F, N]; NaN where an environment has no such flow
    base_rtt_ms: Table  # two-way propagation delay of the flows that count, [L, N]
    change: NormalisedAction  # distance that each normalised tunable has moved, [N, tunables]
    most_share: Table | None = None  # largest goodput / fair share of each, [L, N]. Default: 64

    @cached_property
    def is_active(self) -> NDArray[np.bool_]:
        """Flows that count and are active: [L, N]."""
        return self.counted["active"] > 0.0

    @cached_property
    def active_count(self) -> Table:
        """Number of flows that count and are active, at least 1: [N]."""
        count: Table = np.maximum(sum_rows(self.is_active), 1.0)
        return count

    @cached_property
    def shares(self) -> Table:
        """Goodput / fair share, at most 64, of a limited flow 1; 1 where the link carries nothing: [L, N]."""
        goodput_mbps, fair_share_mbps = self.counted["goodput_mbps"], self.counted["fair_share_mbps"]
        shares = np.divide(goodput_mbps, fair_share_mbps, out=np.ones_like(goodput_mbps), where=fair_share_mbps > 0.0)
        if self.most_share is not None:
            np.minimum(shares, self.most_share, out=shares)
        return np.minimum(shares, _MOST, out=shares)

    @cached_property
    def shares_log2(self) -> Table:
        """Logarithm to base 2 of the shares, from -6 to 6: [L, N]."""
        log2: Table = np.log2(np.maximum(self.shares, 1.0 / _MOST))
        return log2

    @cached_property
    def stretch(self) -> Table:
        """Mean RTT / base RTT, at least 1; 1 before the first RTT sample: [L, N]."""
        stretch: Table = np.maximum(self.counted["rtt_mean_ms"] / self.base_rtt_ms, 1.0)
        return stretch

    def of_sent(self, field: str) -> Table:
        """Return packets of a field / packets sent, at most 1: [L, N]."""
        ratios: Table = self.counted[field] / np.maximum(self.counted["sent_pkts"], 1.0)
        return np.minimum(ratios, 1.0, out=ratios)

    def mean(self, values: Table) -> Table:
        """Return the mean over the active flows that count, 0 if there is none: [L, N] -> [N].

        The division comes last, so that rounding does not lead out of the range of the values.
        """
        return sum_rows(values * self.is_active) / self.active_count


def throughput(inputs: TermInputs) -> Table:
    """Return the mean of log2(goodput / fair share)."""
    return inputs.mean(inputs.shares_log2)


def delay(inputs: TermInputs) -> Table:
    """Return minus the mean of log2(RTT / base RTT)."""
    return 0.0 - inputs.mean(np.log2(np.minimum(inputs.stretch, _MOST)))


def power(inputs: TermInputs) -> Table:
    """Return Kleinrock's power / that of the fair share without a queue."""
    return inputs.mean(inputs.shares / inputs.stretch)


def goodput(inputs: TermInputs) -> Table:
    """Return the mean of goodput / fair share."""
    return inputs.mean(inputs.shares)


def alpha_fair(inputs: TermInputs, alpha: float = 1.0) -> Table:
    """Return the mean alpha-fair utility of goodput / fair share: 0 at the fair share, with the slope of throughput."""
    if alpha == 1.0:
        return throughput(inputs)
    growth = 1.0 - alpha
    utility = (np.exp2(growth * inputs.shares_log2) - 1.0) / (growth * np.log(2.0))
    return inputs.mean(np.clip(utility, -_MOST, _MOST))


def loss(inputs: TermInputs) -> Table:
    """Return minus packets dropped / packets sent in the same interval."""
    return 0.0 - inputs.mean(inputs.of_sent("dropped_pkts"))


def retransmission(inputs: TermInputs) -> Table:
    """Return minus packets retransmitted / packets sent."""
    return 0.0 - inputs.mean(inputs.of_sent("retransmitted_pkts"))


def fairness(inputs: TermInputs) -> Table:
    """Return Jain's index of the goodput of all active flows, whether they count or not, minus 1."""
    is_active = inputs.flows["active"] > 0.0
    goodput_mbps = np.where(is_active, inputs.flows["goodput_mbps"], 0.0)
    total, squares = sum_rows(goodput_mbps), sum_rows(goodput_mbps * goodput_mbps)
    is_known = inputs.is_active.any(axis=0) & (squares > 0.0)
    jain = np.divide(total * total, sum_rows(is_active) * squares, out=np.ones_like(total), where=is_known)
    return jain - 1.0


def change(inputs: TermInputs) -> Table:
    """Return minus half the mean distance that the normalised tunables have moved."""
    distance = inputs.change.astype(np.float64)  # else numpy converts and sums part by part
    mean: Table = np.add.reduce(distance, axis=-1) / distance.shape[-1]
    return 0.0 - mean / 2.0


@dataclass(frozen=True)
class Term:
    """Reward term."""

    compute: Callable[[TermInputs], Table]  # function of the inputs, to [N]
    formula: str  # the formula in words; means are over the active flows that count
    unit: str  # unit of its values
    low: float  # smallest value
    high: float  # largest value


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
    "retransmission": Term(retransmission, "-mean of retransmitted / sent packets, each at most 1", "ratio", -1.0, 0.0),
    "fairness": Term(fairness, "Jain's index of the active flows' goodput, tuned or not, - 1", "ratio", -1.0, 0.0),
    "change": Term(change, "-mean of |normalised - normalised before| / 2 over the tunables", "ratio", -1.0, 0.0),
}
"""Terms by name.

The flows that count are the tuned and the fixed ones; with the environments' option `score` at `own` the tuned ones.
Fair share is the world's `fair_share_mbps`, beside limited flows max-min (unless `score` is `own`); where it is 0, the
ratio of goodput to it counts as 1. Before its first RTT sample a flow counts as at its base RTT. Without an active flow
that counts all terms but `change` are 0.
"""


class StepTerms:
    """Reward terms of a step of several intervals: means over the intervals in which an environment ran."""

    def __init__(self) -> None:
        self._sums: dict[str, Table] = {}
        self._counts: Table = np.zeros(0)

    def add(self, terms: Mapping[str, Table], mask: NDArray[np.bool_]) -> None:
        """Add an interval.

        Args:
            terms: by name, [N], or [L * N], one for each flow.
            mask: environments that ran, [N].
        """
        rows = len(next(iter(terms.values())))
        ran = np.tile(mask, rows // len(mask))
        if not self._sums:
            self._sums, self._counts = {name: np.zeros(rows) for name in terms}, np.zeros(rows)
        for name, values in terms.items():
            self._sums[name] += np.where(ran, values, 0.0)
        self._counts += ran

    def means(self) -> dict[str, Table]:
        """Return the means by name, 0 without an interval: [N], or [L * N]."""
        return {name: total / np.maximum(self._counts, 1.0) for name, total in self._sums.items()}
