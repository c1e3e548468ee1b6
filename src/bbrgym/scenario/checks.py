# SPDX-License-Identifier: GPL-2.0-only
"""Checks of a scenario: bounds on measurements, which an evaluation reports as passed or failed.

    checks:
      - {metric: utilisation, at_least: 0.9}
      - {metric: queue_delay_mean_ms, at_most: 10}
      - {metric: share, flow: cubic, across: sum, at_least: 0.25, at_most: 0.75}

No world reads them, so they change no run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from bbrgym.errors import nearest
from bbrgym.schema import FieldProblem, Float, Model, shown

#: Measurements of a whole run that a check may name, columns of summary.parquet.
RUN_METRICS = ("utilisation", "jain", "score", "own_score")

#: Measurements of each flow that a check may name, columns of summary.parquet.
FLOW_METRICS = (
    "goodput_mbps",
    "throughput_mbps",
    "share",
    "share_of_fair",
    "harm",
    "harm_rtt_p95",
    "harm_loss",
    "retransmit_rate",
    "loss_rate",
    "rtt_mean_ms",
    "rtt_p95_ms",
    "queue_delay_mean_ms",
    "in_order_arrival_mbps",
    "out_of_order_rate",
    "busy_share",
    "rwnd_limited_share",
    "sndbuf_limited_share",
    "completed",
    "completion_s",
    "slowdown",
    "frame_delay_p50_ms",
    "frame_delay_p99_ms",
    "late_frame_share",
)

_ACROSS: Mapping[str, Callable[[npt.NDArray[np.float64]], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "sum": lambda values: float(np.sum(values)),
    "lowest": lambda values: float(np.min(values)),
    "highest": lambda values: float(np.max(values)),
    "p50": lambda values: float(np.percentile(values, 50)),
    "p95": lambda values: float(np.percentile(values, 95)),
    "p99": lambda values: float(np.percentile(values, 99)),
}


class ScenarioCheck(Model):
    """A bound on a measurement; a run passes within the bound.

    Attributes:
        metric: column of summary.parquet, such as ``queue_delay_mean_ms``; ``utilisation``, ``jain`` and ``score`` are
            the whole run's.
        flow: name of the flow that is measured, or of an entry with a count, whose flows all are. Default: all flows.
        across: the number that stands for several flows; flows without a measurement are left out.
        at_least: smallest value that passes.
        at_most: largest value that passes.
    """

    metric: str
    flow: Annotated[str, Field(min_length=1)] | None = None
    across: Literal["mean", "sum", "lowest", "highest", "p50", "p95", "p99"] = "mean"
    at_least: Float | None = None
    at_most: Float | None = None

    @model_validator(mode="after")
    def _check(self) -> ScenarioCheck:
        if self.metric not in (*RUN_METRICS, *FLOW_METRICS):
            hint = nearest(self.metric, RUN_METRICS + FLOW_METRICS, f"help({__name__})")
            raise FieldProblem("metric", f"is {shown(self.metric)}; {hint}")
        if self.metric in RUN_METRICS and (self.flow is not None or self.across != "mean"):
            name, value = ("flow", self.flow) if self.flow is not None else ("across", self.across)
            raise FieldProblem(name, f"is {value!r}, expected none: {self.metric} is measured of the whole run")
        if self.at_least is None and self.at_most is None:
            raise FieldProblem("", "has no bound, expected at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise FieldProblem("at_least", f"is {self.at_least:g}, expected at most at_most = {self.at_most:g}")
        return self

    @property
    def subject(self) -> str:
        """Measurement and flows in words, e.g. ``share of cubic, sum``."""
        flows = "" if self.flow is None else f" of {self.flow}"
        return self.metric + flows + ("" if self.across == "mean" else f", {self.across}")

    def covers(self, flow: str) -> bool:
        """Return whether the flow of this name is measured."""
        return self.flow is None or re.fullmatch(rf"{re.escape(self.flow)}(-\d+)?", flow) is not None

    def measured(self, summary: Mapping[str, Sequence[Any]]) -> float:
        """Return the value of a run, given the columns of the summary by name; NaN if no flow has one."""
        column = np.asarray(summary[self.metric], dtype=np.float64)
        if self.metric in RUN_METRICS:
            return float(column[0])
        covered = np.array([self.covers(flow) for flow in summary["flow"]], dtype=bool)
        values = column[covered & ~np.isnan(column)]
        return _ACROSS[self.across](values) if len(values) > 0 else math.nan

    def holds(self, measured: float) -> bool:
        """Return whether a value keeps to the bounds; NaN does not."""
        return (self.at_least is None or measured >= self.at_least) and (
            self.at_most is None or measured <= self.at_most
        )
