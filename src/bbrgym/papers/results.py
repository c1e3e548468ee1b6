# SPDX-License-Identifier: GPL-2.0-only
"""Results: each published number and claim beside what was measured, with its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from bbrgym.evaluate.records import RunRecord
from bbrgym.evaluate.statistics import Estimate
from bbrgym.papers.cases import Case, PreparedExperiment
from bbrgym.papers.distributions import percentile_of
from bbrgym.papers.experiment import Claim, Experiment, Number, Quantity
from bbrgym.papers.measurements import Values, estimate, measurements_of, series_of, values_of
from bbrgym.papers.verdicts import Compared, Verdict, verdict_of_claim, verdicts_of
from bbrgym.schema import Float


@dataclass(frozen=True)
class Spread:
    """A quantity in one world: the mean over seeds, its interval and the value of each seed."""

    quantity: Quantity
    world: str
    measured: Estimate
    values: Values


@dataclass(frozen=True)
class NumberResult(Spread):
    """A published number, beside what was measured of its quantity."""

    number: Number
    verdict: Verdict

    @property
    def percentile(self) -> float:
        """Part of the seeds, in percent, whose value is below the published one; a tie counts as a half."""
        return percentile_of(self.number.value, self.values)


@dataclass(frozen=True)
class ClaimResult:
    """A claim in one world, with the values of its sides."""

    claim: Claim
    world: str
    less: float
    than: float
    verdict: Verdict


@dataclass(frozen=True)
class FailedRun:
    """A run that broke, and why, in a sentence."""

    case: Case
    reason: str


@dataclass(frozen=True)
class ReproducedExperiment:
    """Measurements of an experiment's runs."""

    experiment: Experiment  # that was run
    measurements: pl.DataFrame  # a row per world, variant, point, seed and panel of the figure, with ``value``
    numbers: Sequence[NumberResult]  # a result per world and published number
    claims: Sequence[ClaimResult]  # a result per world and claim
    # a result per world and quantity of `Experiment.distributions` that has no published number
    spreads: Sequence[Spread]
    failures: Sequence[FailedRun]  # runs that broke; at their points nothing counts as measured in their worlds
    # time series of the first seed, with the column ``entrant``; None without a figure over time
    series: pl.DataFrame | None
    runs: int  # number of its runs, those that broke included
    simulated_s: float  # simulated time of all runs
    wall_s: float  # wall time within the runs

    def reason_of(self, quantities: Sequence[Quantity], world: str) -> str | None:
        """Return why quantities were not measured in a world; None if no run for them broke."""
        for run in self.failures:
            is_here = run.case.job.world == world or self.experiment.variants[run.case.variant].world is not None
            for one in quantities:
                if is_here and run.case.variant in (one.variant, one.over) and run.case.at == one.at:
                    return run.reason
        return None

    @property
    def worlds(self) -> list[str]:
        """Worlds of its runs, in the order asked for."""
        worlds: list[str] = self.measurements["world"].unique(maintain_order=True).to_list()
        return worlds


def reading_of(experiment: Experiment, variant: str | None) -> str | None:
    """Return the reading that a number or claim about a variant belongs to."""
    return variant if experiment.readings else None


def compare(prepared: PreparedExperiment, outcomes: Sequence[RunRecord | str]) -> ReproducedExperiment:
    """Return what an experiment's runs measured, beside what was published; a text is why there is no record."""
    experiment = prepared.experiment
    measurements = measurements_of(prepared, outcomes)
    records = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    own = [case.job.world for case in prepared.cases if experiment.variants[case.variant].world is None]
    worlds = list(dict.fromkeys(own or [case.job.world for case in prepared.cases]))
    numbers: list[NumberResult] = []
    claims: list[ClaimResult] = []
    spreads: list[Spread] = []
    published = {number.quantity for number in prepared.numbers}
    for world in worlds:
        numbers += _number_results(prepared.numbers, measurements, world)
        claims += [_claim_result(claim, measurements, world) for claim in experiment.claims]
        reported = [one for one in experiment.spread_quantities if one not in published]
        of_reported = [values_of(measurements, world, one) for one in reported]
        spreads += [Spread(one, world, estimate(own), own) for one, own in zip(reported, of_reported, strict=True)]
    return ReproducedExperiment(
        experiment=experiment,
        measurements=measurements,
        numbers=numbers,
        claims=claims,
        spreads=spreads,
        failures=[
            FailedRun(case, outcome)
            for case, outcome in zip(prepared.cases, outcomes, strict=True)
            if isinstance(outcome, str)
        ],
        series=series_of(prepared, outcomes),
        runs=len(outcomes),
        simulated_s=sum(float(record.timing["simulated_s"].sum()) for record in records),
        wall_s=sum(float(record.timing["wall_s"].sum()) for record in records),
    )


def _number_results(numbers: Sequence[Number], measurements: pl.DataFrame, world: str) -> list[NumberResult]:
    values = [values_of(measurements, world, number.quantity) for number in numbers]
    means = [estimate(one) for one in values]
    verdicts = verdicts_of([Compared(number, mean.value) for number, mean in zip(numbers, means, strict=True)])
    return [
        NumberResult(number.quantity, world, mean, of_seeds, number, verdict)
        for number, mean, of_seeds, verdict in zip(numbers, means, values, verdicts, strict=True)
    ]


def _claim_result(claim: Claim, measurements: pl.DataFrame, world: str) -> ClaimResult:
    def value(side: Quantity | Float) -> float:
        return estimate(values_of(measurements, world, side)).value if isinstance(side, Quantity) else side

    less, than = value(claim.less), value(claim.than)
    return ClaimResult(claim, world, less, than, verdict_of_claim(claim, less, than))
