# SPDX-License-Identifier: GPL-2.0-only
"""The outcome of a scenario's checks (`bbrgym.scenario.checks`) in the runs of an evaluation.

A run passes a check if its measurement keeps to the bounds. An entrant passes it if the mean over its runs does, and
none of them lacks the measurement. Where a distribution draws the bounds, they are means over the runs as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from bbrgym.evaluate.records import RUN_COLUMNS, RUN_SCHEMA, with_entrants
from bbrgym.evaluate.statistics import Estimate, bootstrap_mean, student_mean
from bbrgym.scenario.model import Scenario

#: Columns of checks.parquet, in this order: a row per run and check. A check without a bound has null there.
CHECKS_SCHEMA = pl.Schema(
    {
        **RUN_SCHEMA,
        "check": pl.String,
        **dict.fromkeys(("at_least", "at_most", "measured"), pl.Float64),
        "passed": pl.Boolean,
    }
)


def check_runs(summary: pl.DataFrame, scenarios: Mapping[int, Scenario]) -> pl.DataFrame:
    """Return the rows of checks.parquet."""
    rows: list[dict[str, Any]] = []
    if any(scenario.checks for scenario in scenarios.values()):
        for key, run in summary.group_by(*RUN_COLUMNS, maintain_order=True):
            of_run = dict(zip(RUN_COLUMNS, key, strict=True))
            rows += [{**of_run, **row} for row in _rows(run, scenarios[of_run["seed"]])]
    return pl.DataFrame(rows, schema=CHECKS_SCHEMA)


def _rows(run: pl.DataFrame, scenario: Scenario) -> Iterator[dict[str, Any]]:
    columns = {name: run[name].to_list() for name in {"flow", *(check.metric for check in scenario.checks)}}
    for check in scenario.checks:
        measured = check.measured(columns)
        bounds = {"at_least": check.at_least, "at_most": check.at_most}
        yield {"check": check.subject, **bounds, "measured": measured, "passed": check.holds(measured)}


def with_checks_passed(summary: pl.DataFrame, checks: pl.DataFrame) -> pl.DataFrame:
    """Return the summary with a column ``checks_passed``, the share of its checks that a run passes, if it has any."""
    if checks.is_empty():
        return summary
    passed = checks.group_by(*RUN_COLUMNS).agg(pl.col("passed").mean().alias("checks_passed"))
    return summary.join(passed, on=RUN_COLUMNS, how="left", maintain_order="left")


@dataclass(frozen=True)
class Verdict:
    """An entrant's outcome in one check, over all its runs in one world."""

    check: str  # what is measured
    entrant: str  # label of the entrant
    world: str
    at_least: float | None  # mean of the runs' lower bounds, None without one
    at_most: float | None  # mean of their upper bounds
    measured: Estimate  # mean over the runs, with its interval
    passing: int  # number of runs that pass on their own
    lacking: int  # number of runs without a measurement
    runs: int  # number of runs

    @property
    def passed(self) -> bool:
        """True if the mean keeps to the bounds and every run has a measurement."""
        return (
            self.lacking == 0
            and (self.at_least is None or self.measured.value >= self.at_least)
            and (self.at_most is None or self.measured.value <= self.at_most)
        )

    @property
    def bounds(self) -> str:
        """The bounds in words."""
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:g} to {self.at_most:g}"
        return f"at least {self.at_least:g}" if self.at_least is not None else f"at most {self.at_most:g}"


def verdicts_of(checks: pl.DataFrame) -> list[Verdict]:
    """Return a verdict per check, entrant and world: check by check, each in the order of the rows."""
    is_of_draws = checks["scenario"].n_unique() > 1
    mean = bootstrap_mean if is_of_draws else student_mean
    # A check may be there twice with other bounds, of which one has a side that the other lacks.
    sides = (pl.col("at_least").is_null().alias("no_least"), pl.col("at_most").is_null().alias("no_most"))
    groups = with_entrants(checks).group_by("check", *sides, "entrant", "world", maintain_order=True)
    verdicts = [
        Verdict(
            check=check,
            entrant=entrant,
            world=world,
            at_least=None if no_least else float(np.mean(rows["at_least"].to_numpy())),
            at_most=None if no_most else float(np.mean(rows["at_most"].to_numpy())),
            measured=mean(rows["measured"].to_numpy()),
            passing=int(rows["passed"].sum()),
            lacking=int(rows["measured"].is_nan().sum()),
            runs=len(rows),
        )
        for (check, no_least, no_most, entrant, world), rows in groups
    ]
    order = list(dict.fromkeys((verdict.check, verdict.bounds) for verdict in verdicts))
    return sorted(verdicts, key=lambda verdict: order.index((verdict.check, verdict.bounds)))
