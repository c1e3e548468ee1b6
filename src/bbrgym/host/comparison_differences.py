# SPDX-License-Identifier: GPL-2.0-only
"""Differences between the two controls of a comparison.

Connections of the same peer share its path, so they are compared with each other: of each peer, the mean of B's minus
the mean of A's, weighted by ab / (a + b) for a and b connections, and resampled by peer (`cluster_mean`). Goodput,
completion time and RTT are compared by their logarithms, so that no long connection outweighs the rest: what is told is
B's geometric mean over A's. Connections are compared whatever became of them, by the control that they were given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from bbrgym.evaluate.statistics import Estimate, cluster_mean
from bbrgym.host.comparison import ARMS

#: By which an interval has to be narrower than a difference, for it to be found in 80 of 100 comparisons: the normal
#: quantiles of 0.975 and 0.8 over that of 0.975.
_POWER = (1.960 + 0.842) / 1.960


@dataclass(frozen=True)
class ConnectionMetric:
    """A number of each connection."""

    name: str  # with its unit
    value: pl.Expr  # from the columns of a comparison's rows; null where a connection has none
    is_ratio: bool  # whether its difference is a ratio, in percent; else it is in points, as is the number
    # differences of which it is told how many connections they need, in the difference's unit
    sought: tuple[float, ...]


_TIME_S, _BYTES = pl.col("completion_s"), pl.col("acked_bytes")
METRICS = (
    ConnectionMetric("goodput, Mbit/s", 8e-6 * pl.when(_BYTES > 0).then(_BYTES) / _TIME_S, True, (1.0, 5.0, 20.0)),
    ConnectionMetric("completion, ms", 1e3 * pl.when("is_whole").then(_TIME_S), True, (1.0, 5.0, 20.0)),
    ConnectionMetric("mean RTT, ms", pl.col("rtt_mean_ms"), True, (1.0, 5.0, 20.0)),
    ConnectionMetric(
        "sent again, %", 100.0 * pl.col("retransmitted_pkts") / pl.col("sent_pkts"), False, (0.1, 0.5, 2.0)
    ),
)


@dataclass(frozen=True)
class ControlDifference:
    """A metric's difference, B's from A's."""

    metric: ConnectionMetric  # what differs
    means: tuple[float, float]  # of all connections of A and of B; geometric ones of a ratio
    estimate: Estimate  # of the difference, in percent of a ratio, else in the metric's unit
    connections: int  # that have the metric
    peers: int  # with connections of both
    # additional connections, of as many more peers, with which each sought difference is found in 80 of 100
    # comparisons; infinite if it is not known
    needed: tuple[float, ...]


def differences(rows: pl.DataFrame) -> Iterator[ControlDifference]:
    """Yield the difference in each metric, of a comparison's rows."""
    for metric in METRICS:
        value = metric.value.log() if metric.is_ratio else metric.value
        known = rows.select("peer", "arm", value=value.cast(pl.Float64)).filter(pl.col("value").is_finite())
        yield _difference(metric, known)


def _difference(metric: ConnectionMetric, known: pl.DataFrame) -> ControlDifference:
    back = math.exp if metric.is_ratio else float
    by_arm = (known.filter(pl.col("arm") == arm)["value"].to_numpy() for arm in ARMS)
    means = [back(float(np.mean(values))) if len(values) else math.nan for values in by_arm]
    cells = known.group_by("peer", "arm").agg(mean=pl.col("value").mean(), count=pl.len().cast(pl.Float64))
    a, b = (cells.filter(pl.col("arm") == arm).drop("arm") for arm in ARMS)
    pairs = a.join(b, on="peer").sort("peer")  # the order of groups is of no run the same
    weight = pairs["count"] * pairs["count_right"] / (pairs["count"] + pairs["count_right"])
    found = cluster_mean((pairs["mean_right"] - pairs["mean"]).to_numpy(), weight.to_numpy())
    half_width = (found.high - found.low) / 2
    sought = [math.log1p(one / 100) if metric.is_ratio else one for one in metric.sought]
    needed = tuple(_more(len(known), half_width, one) for one in sought)
    estimate = Estimate(*map(_percent, (found.value, found.low, found.high))) if metric.is_ratio else found
    return ControlDifference(metric, (means[0], means[1]), estimate, len(known), len(pairs), needed)


def _percent(logarithm: float) -> float:
    return 100 * math.expm1(logarithm)


def _more(connections: int, half_width: float, sought: float) -> float:
    if math.isnan(half_width):
        return math.inf
    return max(0.0, math.ceil(connections * (_POWER * half_width / sought) ** 2) - connections)
