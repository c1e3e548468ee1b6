# SPDX-License-Identifier: GPL-2.0-only
"""Differences between two worlds on the same runs, and the tolerances within which they agree.

Means over seeds are compared, entrant by entrant. Within the tolerances one world can stand in for the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from bbrgym.evaluate.records import per_run, with_entrants


@dataclass(frozen=True)
class Metric:
    """A number by which worlds are compared."""

    column: str  # a column of `per_run`, or ``share``, which every flow has
    heading: str  # heading of its column in a table, in two lines, with the unit shown
    factor: float  # factor from the value's unit to the unit shown
    digits: int  # digits shown after the point
    absolute: float  # largest absolute difference that agrees, in the value's unit
    # largest difference that agrees as a part of the first world's value; the larger of the two counts
    relative: float = 0.0

    def tolerance(self, reference: float) -> float:
        """Return the largest difference from ``reference`` that agrees."""
        return max(self.absolute, self.relative * abs(reference))

    def tolerance_text(self) -> str:
        """Return the tolerance in the unit shown."""
        absolute = f"{self.absolute * self.factor:g}"
        return f"±{absolute} or {100 * self.relative:g} %" if self.relative else f"±{absolute}"

    def text(self, value: float, sign: str = "") -> str:
        """Return a value in the unit shown; with ``sign="+"`` a difference."""
        if math.isnan(value):
            return "-"
        shown = round(value * self.factor, self.digits) + 0.0  # no -0.0
        return f"{shown:{sign}.{self.digits}f}"


SHARE = Metric("share", "share,\nworst flow", 1.0, 3, absolute=0.05)
METRICS = (
    SHARE,
    Metric("utilisation", "utili-\nsation, %", 100.0, 1, absolute=0.02),
    Metric("queue_delay_ms", "queue\ndelay, ms", 1.0, 2, absolute=2.0, relative=0.15),
    Metric("retransmit_rate", "re-\nsent, %", 100.0, 2, absolute=0.003, relative=0.25),
    Metric("jain", "Jain\nindex", 1.0, 3, absolute=0.05),
)


@dataclass(frozen=True)
class Difference:
    """One metric of one entrant in two worlds."""

    metric: Metric
    flow: str | None  # name of the flow that differs most, for a flow's metric; None for a run's
    reference: float  # the first world's mean over seeds
    other: float  # the second world's mean over seeds

    @property
    def difference(self) -> float:
        """Second world minus first; NaN where either has no value."""
        return self.other - self.reference

    @property
    def agrees(self) -> bool:
        """True within the tolerance, and where neither world has a value; false where one has none."""
        if math.isnan(self.reference) or math.isnan(self.other):
            return math.isnan(self.reference) and math.isnan(self.other)
        # The rounding of binary fractions does not decide: 0.55 - 0.50 is within 0.05.
        return abs(self.difference) <= self.metric.tolerance(self.reference) * (1 + 1e-9)


def differences(summary: pl.DataFrame, reference: str, other: str) -> Iterator[tuple[str, list[Difference]]]:
    """Yield each entrant's label with its differences between two worlds, in the order of `METRICS`."""
    runs, flows = per_run(summary), with_entrants(summary)
    for entrant in flows["entrant"].unique(maintain_order=True).to_list():
        own, of_flows = (table.filter(pl.col("entrant") == entrant) for table in (runs, flows))
        share = _worst_share(of_flows, reference, other)
        others = [_difference(own, metric, None, reference, other) for metric in METRICS if metric is not SHARE]
        yield entrant, [share, *others]


def _worst_share(rows: pl.DataFrame, reference: str, other: str) -> Difference:
    flows = [
        _difference(rows.filter(pl.col("flow") == flow), SHARE, flow, reference, other)
        for flow in rows["flow"].unique(maintain_order=True).to_list()
    ]
    return max(flows, key=lambda flow: (not flow.agrees, 0.0 if math.isnan(flow.difference) else abs(flow.difference)))


def _difference(rows: pl.DataFrame, metric: Metric, flow: str | None, reference: str, other: str) -> Difference:
    return Difference(metric, flow, *(_mean(rows, metric.column, world) for world in (reference, other)))


def _mean(rows: pl.DataFrame, column: str, world: str) -> float:
    mean = rows.filter(pl.col("world") == world)[column].cast(pl.Float64).fill_nan(None).mean()
    return float(mean) if isinstance(mean, float) else math.nan
