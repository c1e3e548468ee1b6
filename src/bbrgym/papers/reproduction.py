# SPDX-License-Identifier: GPL-2.0-only
"""Runs experiments and compares what they measure with what was published."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from bbrgym.errors import ConfigError, one_line
from bbrgym.evaluate.entrants import preset
from bbrgym.evaluate.evaluation_settings import MAX_JOBS, world_settings
from bbrgym.evaluate.records import EvaluationFolder, RunRecord
from bbrgym.evaluate.resume import refuse_differences
from bbrgym.evaluate.runner import EvaluationJob, EvaluationProgress, run_each
from bbrgym.evaluate.statistics import MIN_DRAWS, Estimate, bootstrap_mean, student_mean
from bbrgym.papers.catalogue import reference_numbers, select_experiments
from bbrgym.papers.experiment import Claim, Experiment, Number, Quantity, VariantSettings
from bbrgym.papers.metrics import MeasuredRun, measure
from bbrgym.papers.verdicts import Compared, Verdict, verdict_of_claim, verdict_of_readings, verdicts_of
from bbrgym.scenario.files import parse_scenario
from bbrgym.scenario.model import check_tunables
from bbrgym.scenario.stack import SenderStack
from bbrgym.schema import FieldProblem, Float, Model, Whole, validated
from bbrgym.tunables import STOCK_CONTROLS, VARIANTS
from bbrgym.worlds import FAST_WORLD, WorldError, WorldSettings, check_world_has, registered_worlds, world_spec

Values = npt.NDArray[np.float64]

_SCORE_DELTA = 0.5  # no metric depends on the score
_OWN_WORLD_TIMEOUT_S = 600.0  # ns-3 walks a list of all that is out for each packet sent again: slow under load


class Reproduction(Model):
    """Request of `bbrgym reproduce`.

    Attributes:
        paper: whose experiments are run. Default: all.
        experiment: names or files of experiments. Default: all.
        world: settings of each world, by its name.
        seeds: number of runs of each variant and point. Default: each experiment's own.
        stack: of every sender in place of the experiment's, but of ns-3's own: a preset's name, or a mapping; one
            without ``preset`` changes facts of the experiment's. Default: each experiment's own.
        reference: folder of the authors' files, whose numbers are compared too. Default: none.
        recordings: folder of the authors' traces of links. Default: shipped traces take their places.
        jobs: runs at once. Default: one a core.
    """

    paper: str | None = None
    experiment: tuple[str, ...] = ()
    world: Annotated[dict[str, WorldSettings], Field(min_length=1)]
    seeds: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    stack: SenderStack | None = None
    reference: str | None = None
    recordings: str | None = None
    jobs: Annotated[Whole, Field(ge=1, le=MAX_JOBS)] | None = None

    @property
    def stack_text(self) -> str:
        """The stack as the option takes it; empty for each experiment's own."""
        if self.stack is None:
            return ""
        if not self.stack.overrides:
            return self.stack.preset or "{}"
        facts = self.stack.model_dump(exclude_none=True)
        return f"{{{', '.join(f'{name}: {str(value).lower()}' for name, value in facts.items())}}}"


class ReproductionFolder(EvaluationFolder):
    """Run folder of a reproduction.

    It holds jobs/, failures.json (why runs broke, by their keys), numbers.parquet, measurements.parquet, figures/ and
    report.html.
    """

    command = "reproduce"

    def read_failures(self) -> dict[str, str]:
        """Return why runs broke in the last attempt, by their keys.

        Raises:
            ConfigError: the file is damaged.
        """
        return self.read_json("failures.json")

    def write_failures(self, reasons: Mapping[str, str]) -> None:
        """Write why runs broke, by their keys."""
        self.write_json("failures.json", reasons)


# ---- the request --------------------------------------------------------------------------------------


def parse_reproduction(fields: Mapping[str, Any]) -> Reproduction:
    """Check a request; one name may stand for a list of one, a world's name for its default settings.

    Raises:
        ConfigError: names the option, its value and what is allowed.
    """
    fields = dict(fields)
    names = fields.get("experiment") or ()
    fields["experiment"] = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, list) else names
    fields["world"] = world_settings(fields.get("world", FAST_WORLD))
    asked = validated(Reproduction, fields)
    for name in asked.world:
        world_spec(name)
    return asked


@dataclass(frozen=True)
class Case:
    """A run of an experiment.

    Attributes:
        variant: name in the experiment.
        at: point of the sweep.
        job: of the run.
    """

    variant: str
    at: float | None
    job: EvaluationJob


@dataclass(frozen=True)
class PreparedExperiment:
    """An experiment with all its runs and published numbers.

    Attributes:
        experiment: that is reproduced.
        numbers: published, those in the authors' files among them.
        cases: its runs.
    """

    experiment: Experiment
    numbers: Sequence[Number]
    cases: Sequence[Case]


@dataclass(frozen=True)
class PreparedReproduction:
    """A reproduction whose request has been checked."""

    asked: Reproduction
    experiments: Sequence[PreparedExperiment]

    @property
    def config(self) -> dict[str, Any]:
        """Content of config.yaml."""
        return self.asked.model_dump(mode="json")

    def run(
        self,
        folder: ReproductionFolder | None = None,
        on_progress: Callable[[EvaluationProgress], None] | None = None,
        given_up: Mapping[str, str] = MappingProxyType({}),
    ) -> list[ReproducedExperiment]:
        """Run what the folder does not hold yet; a run that breaks is noted and the others go on.

        Args:
            folder: open; keeps every finished run. Default: none, nothing is written.
            on_progress: called a few times a second, in the caller's thread.
            given_up: runs by their keys that are not tried, with the reason.

        Raises:
            ConfigError: the folder holds another reproduction, or a damaged run.
            OSError: a file cannot be written; finished runs are kept.
        """
        if folder is not None:
            if folder.has_config():
                stored = folder.read_request(parse_reproduction).model_dump(mode="json")
                refuse_differences(self.config, stored, "reproduction", folder)
            folder.write_config(self.config)
        sizes = [[case.job.scenario.duration_s for case in one.cases] for one in self.experiments]
        total_s, total = sum(map(sum, sizes)), sum(map(len, sizes))
        done_s, done = 0.0, 0
        results = []
        for one, durations_s in zip(self.experiments, sizes, strict=True):

            def report(progress: EvaluationProgress, before_s: float = done_s, before: int = done) -> None:
                if on_progress is not None:
                    runs = before + progress.done_runs
                    on_progress(EvaluationProgress(before_s + progress.done_s, total_s, runs, total))

            results.append(_reproduced(one, self._outcomes(one, folder, report, given_up)))
            done_s, done = done_s + sum(durations_s), done + len(durations_s)
        if folder is not None:
            write_reproduction(folder, results)
        return results

    def _outcomes(
        self,
        one: PreparedExperiment,
        folder: ReproductionFolder | None,
        report: Callable[[EvaluationProgress], None],
        given_up: Mapping[str, str],
    ) -> list[RunRecord | str]:
        """Return the records of an experiment's runs, or in a sentence why there are none."""
        jobs = [case.job for case in one.cases if case.job.key not in given_up]
        outcomes = iter(run_each(jobs, _at_once(self.asked), folder, report))
        found: list[RunRecord | str] = []
        for case in one.cases:
            outcome = given_up[case.job.key] if case.job.key in given_up else next(outcomes)
            found.append(one_line(outcome) if isinstance(outcome, WorldError) else outcome)
        return found


def _at_once(asked: Reproduction) -> int:
    return asked.jobs or os.cpu_count() or 1


def prepare_reproduction(asked: Reproduction) -> PreparedReproduction:
    """Check all that a reproduction is asked for; nothing is run or written.

    Raises:
        ConfigError: an experiment, or a field of it, cannot be used.
    """
    experiments = select_experiments(asked.paper, asked.experiment)
    return PreparedReproduction(asked, [_prepared(experiment, asked) for experiment in experiments])


def _prepared(experiment: Experiment, asked: Reproduction) -> PreparedExperiment:
    extra = [] if asked.reference is None else reference_numbers(experiment, Path(asked.reference))
    cases = []
    if experiment.no_run is None:
        for name, variant in experiment.variants.items():
            for at in experiment.points:
                cases += _cases(experiment, name, variant, at, asked)
    return PreparedExperiment(experiment, [*experiment.numbers, *extra], cases)


def _cases(
    experiment: Experiment, name: str, variant: VariantSettings, at: float | None, asked: Reproduction
) -> list[Case]:
    """Return the runs of a variant at a point: in every world asked for, with every seed."""
    cc = variant.cc or name
    where = f"experiment {experiment.name}"
    if cc not in VARIANTS:
        raise ConfigError(f"{where}: variants.{name}: is no variant, expected cc with one of bbrgym list")
    try:
        check_tunables(cc, variant.tunables)
        fields = experiment.fields_of(name, at, None if asked.recordings is None else Path(asked.recordings))
        if asked.stack is not None and cc not in STOCK_CONTROLS:
            fields = with_stack(fields, asked.stack)
    except FieldProblem as error:
        prefix = f"variants.{name}." if error.path.startswith("tunables") else ""
        raise ConfigError(f"{where}: {prefix}{error.path}: {error.problem}") from None
    try:
        entrant = preset(cc, variant.tunables)
        scenario = entrant.prepared(parse_scenario(fields))
    except ConfigError as error:
        raise ConfigError(f"{where}: variant {name}{'' if at is None else f' at {at:g}'}: {error}") from error
    cases = []
    for world, settings in _worlds_of(variant, asked).items():
        check_world_has(world_spec(world), scenario)
        for seed in range(1, (asked.seeds or experiment.seeds) + 1):
            job = EvaluationJob(
                entrant=entrant,
                scenario=scenario,
                world=world,
                seed=seed,
                interval_s=experiment.interval_s,
                score_delta=_SCORE_DELTA,
                keeps_series=True,
                how=settings,
            )
            cases.append(Case(name, at, job))
    return cases


def with_stack(fields: Mapping[str, Any], stack: SenderStack) -> dict[str, Any]:
    """Return a scenario's fields with every sender's stack replaced, or without ``preset`` with facts of it changed."""
    facts = stack.model_dump(exclude_none=True)
    flows = [dict(flow) for flow in fields["flows"]]
    if stack.preset is None:
        for flow in flows:
            if "stack" in flow:
                flow["stack"] = _merged(flow["stack"], facts)
        return {**fields, "stack": _merged(fields.get("stack", {}), facts), "flows": flows}
    for flow in flows:
        flow.pop("stack", None)
    return {**fields, "stack": facts, "flows": flows}


def _merged(stack: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {**({"preset": stack} if isinstance(stack, str) else stack), **facts}


def _worlds_of(variant: VariantSettings, asked: Reproduction) -> Mapping[str, WorldSettings]:
    """Return the worlds of a variant: those asked for, or the only one that has it."""
    if variant.world is None:
        return asked.world
    default = WorldSettings.model_validate(
        {**registered_worlds()[variant.world].default_settings(), "timeout_s": _OWN_WORLD_TIMEOUT_S}
    )
    return {variant.world: asked.world.get(variant.world, default)}


# ---- results ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberResult:
    """A published number in one world.

    Attributes:
        number: published.
        world: of the runs.
        measured: mean over seeds with its interval.
        values: of each seed.
        verdict: on it.
    """

    number: Number
    world: str
    measured: Estimate
    values: Values
    verdict: Verdict

    @property
    def ratio(self) -> float:
        """Measured / published; NaN where the published value is 0."""
        return self.measured.value / self.number.value if self.number.value else math.nan

    @property
    def percentile(self) -> float:
        """Part of the seeds, in percent, whose value is below the published one; a tie counts as a half."""
        known = self.values[~np.isnan(self.values)]
        if not len(known):
            return math.nan
        return 100 * float(np.mean((known < self.number.value) + 0.5 * (known == self.number.value)))


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
    """A run that broke.

    Attributes:
        case: of the experiment.
        reason: in a sentence.
    """

    case: Case
    reason: str


@dataclass(frozen=True)
class ReproducedExperiment:
    """Measurements of an experiment's runs.

    Attributes:
        experiment: that was run.
        measurements: a row per world, variant, point, seed and panel of the figure, with ``value``.
        numbers: a result per world and published number.
        claims: a result per world and claim.
        failures: runs that broke; at their points nothing counts as measured in their worlds.
        series: time series of the first seed, with the column ``entrant``; None without a figure over time.
        runs: number of its runs, those that broke included.
        simulated_s: simulated time of all runs.
        wall_s: wall time within the runs.
    """

    experiment: Experiment
    measurements: pl.DataFrame
    numbers: Sequence[NumberResult]
    claims: Sequence[ClaimResult]
    failures: Sequence[FailedRun]
    series: pl.DataFrame | None
    runs: int
    simulated_s: float
    wall_s: float

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Verdicts on all numbers and claims."""
        return [*(one.verdict for one in self.numbers), *(one.verdict for one in self.claims)]

    @property
    def verdict(self) -> Verdict:
        """Verdict on the experiment."""
        about = [*(one.number.quantity.variant for one in self.numbers), *(one.claim.variant for one in self.claims)]
        return verdict_of_readings(self.verdicts, [_reading(self.experiment, variant) for variant in about])[0]

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


_MEASUREMENTS = pl.Schema(
    {
        "experiment": pl.String,
        "world": pl.String,
        "variant": pl.String,
        "at": pl.Float64,
        "seed": pl.Int64,
        "metric": pl.String,
        "flow": pl.String,
        "value": pl.Float64,
    }
)


def estimate(values: npt.ArrayLike) -> Estimate:
    """Return the mean over seeds with its 95 % interval: by bootstrap from 10 seeds on, below by Student's t."""
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    return bootstrap_mean(known) if len(known) >= MIN_DRAWS else student_mean(known)


def values_of(measurements: pl.DataFrame, world: str, quantity: Quantity) -> Values:
    """Return a quantity of each seed in a world; empty if it has not run there.

    A variant that only one world has counts for every world.
    """
    rows = measurements.filter(
        (pl.col("metric") == quantity.metric)
        & pl.col("flow").eq_missing(pl.lit(quantity.flow, pl.String))
        & pl.col("at").eq_missing(pl.lit(quantity.at, pl.Float64))
    )

    def of(variant: str) -> pl.DataFrame:
        own = rows.filter(pl.col("variant") == variant)
        here = own.filter(pl.col("world") == world)
        return (here if len(here) else own).select("seed", "value").sort("seed")

    if quantity.over is None:
        return of(quantity.variant)["value"].to_numpy()
    pairs = of(quantity.variant).join(of(quantity.over), on="seed", suffix="_over")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Values = pairs["value"].to_numpy() / pairs["value_over"].to_numpy()
    return np.where(np.isfinite(ratios), ratios, np.nan)


def _reproduced(prepared: PreparedExperiment, outcomes: Sequence[RunRecord | str]) -> ReproducedExperiment:
    experiment = prepared.experiment
    measurements = _measurements(prepared, outcomes)
    records = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    own = [case.job.world for case in prepared.cases if experiment.variants[case.variant].world is None]
    worlds = list(dict.fromkeys(own or [case.job.world for case in prepared.cases]))
    numbers: list[NumberResult] = []
    claims: list[ClaimResult] = []
    for world in worlds:
        numbers += _number_results(prepared.numbers, measurements, world)
        claims += [_claim_result(claim, measurements, world) for claim in experiment.claims]
    return ReproducedExperiment(
        experiment=experiment,
        measurements=measurements,
        numbers=numbers,
        claims=claims,
        failures=[
            FailedRun(case, outcome)
            for case, outcome in zip(prepared.cases, outcomes, strict=True)
            if isinstance(outcome, str)
        ],
        series=_series(prepared, outcomes),
        runs=len(outcomes),
        simulated_s=sum(float(record.timing["simulated_s"].sum()) for record in records),
        wall_s=sum(float(record.timing["wall_s"].sum()) for record in records),
    )


def _measurements(prepared: PreparedExperiment, outcomes: Sequence[RunRecord | str]) -> pl.DataFrame:
    """Return the values of all runs: NaN for every seed where one broke, since a mean of the others misleads."""
    panels = dict.fromkeys((panel.metric, panel.flow) for panel in prepared.experiment.panels)
    runs = list(zip(prepared.cases, outcomes, strict=True))
    broken = {_point(case) for case, outcome in runs if isinstance(outcome, str)}
    rows = [
        (prepared.experiment.name, case.job.world, case.variant, case.at, case.job.seed, metric, flow, value)
        for case, outcome in runs
        for metric, flow in panels
        for value in [
            math.nan
            if isinstance(outcome, str) or _point(case) in broken
            else measure(MeasuredRun(outcome, case.job.scenario.mss_bytes), metric, flow)
        ]
    ]
    return pl.DataFrame(rows, schema=_MEASUREMENTS, orient="row")


def _point(case: Case) -> tuple[str, str, float | None]:
    return case.job.world, case.variant, case.at


def _number_results(numbers: Sequence[Number], measurements: pl.DataFrame, world: str) -> list[NumberResult]:
    values = [values_of(measurements, world, number.quantity) for number in numbers]
    means = [estimate(one) for one in values]
    verdicts = verdicts_of([Compared(number, mean.value) for number, mean in zip(numbers, means, strict=True)])
    return [
        NumberResult(number, world, mean, of_seeds, verdict)
        for number, mean, of_seeds, verdict in zip(numbers, means, values, verdicts, strict=True)
    ]


def _claim_result(claim: Claim, measurements: pl.DataFrame, world: str) -> ClaimResult:
    def value(side: Quantity | Float) -> float:
        return estimate(values_of(measurements, world, side)).value if isinstance(side, Quantity) else side

    less, than = value(claim.less), value(claim.than)
    return ClaimResult(claim, world, less, than, verdict_of_claim(claim, less, than))


def _series(prepared: PreparedExperiment, outcomes: Sequence[RunRecord | str]) -> pl.DataFrame | None:
    wanted = prepared.experiment.over_time
    if wanted is None:
        return None
    end_s = math.inf if wanted.to_s is None else wanted.to_s
    parts = [
        outcome.timeseries.with_columns(entrant=pl.lit(case.variant)).filter(
            pl.col("time_s").is_between(wanted.from_s, end_s)
        )
        for case, outcome in zip(prepared.cases, outcomes, strict=True)
        if case.at == wanted.at and case.job.seed == 1 and not isinstance(outcome, str)
    ]
    return pl.concat(parts, how="diagonal") if parts else None


# ---- tables -------------------------------------------------------------------------------------------


def _reading(experiment: Experiment, variant: str | None) -> str | None:
    """Return the reading that a number or claim about a variant belongs to."""
    return variant if experiment.readings else None


def numbers_table(results: Sequence[ReproducedExperiment]) -> pl.DataFrame:
    """Return a row per world and published number or claim: what numbers.parquet holds."""
    rows = [
        {
            "experiment": one.experiment.name,
            "world": result.world,
            "reading": _reading(one.experiment, result.number.quantity.variant),
            "variant": result.number.quantity.variant,
            "metric": result.number.quantity.metric,
            "flow": result.number.quantity.flow,
            "at": result.number.quantity.at,
            "over": result.number.quantity.over,
            "published": result.number.value,
            "unit": result.number.unit,
            "source": result.number.source,
            "measured": result.measured.value,
            "low": result.measured.low,
            "high": result.measured.high,
            "seeds": int(np.count_nonzero(~np.isnan(result.values))),
            "percentile": result.percentile,
            "verdict": result.verdict,
            "reason": one.reason_of([result.number.quantity], result.world),
        }
        for one in results
        for result in one.numbers
    ]
    claims = [
        {
            "experiment": one.experiment.name,
            "world": result.world,
            "reading": _reading(one.experiment, result.claim.variant),
            "claim": result.claim.text,
            "source": result.claim.source,
            "less": result.less,
            "than": result.than,
            "verdict": result.verdict,
            "reason": one.reason_of(result.claim.quantities, result.world),
        }
        for one in results
        for result in one.claims
    ]
    return pl.DataFrame([*rows, *claims], schema=_NUMBERS)


_NUMBERS = pl.Schema(
    {
        **dict.fromkeys(("experiment", "world", "reading", "variant", "metric", "flow"), pl.String),
        "at": pl.Float64,
        "over": pl.String,
        "published": pl.Float64,
        "unit": pl.String,
        "source": pl.String,
        **dict.fromkeys(("measured", "low", "high"), pl.Float64),
        "seeds": pl.Int64,
        "percentile": pl.Float64,
        "claim": pl.String,
        **dict.fromkeys(("less", "than"), pl.Float64),
        "verdict": pl.String,
        "reason": pl.String,
    }
)


def write_reproduction(folder: ReproductionFolder, results: Sequence[ReproducedExperiment]) -> None:
    """Write the tables of a reproduction, and why runs broke, into its run folder."""
    folder.write_failures({run.case.job.key: run.reason for one in results for run in one.failures})
    folder.write_table("numbers.parquet", numbers_table(results))
    measured = [one.measurements for one in results]
    folder.write_table("measurements.parquet", pl.concat(measured) if measured else pl.DataFrame(schema=_MEASUREMENTS))
