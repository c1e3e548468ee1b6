# SPDX-License-Identifier: GPL-2.0-only
"""Entries of the benchmark: what entrants score in its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy.typing as npt
import polars as pl

from bbrgym.errors import ConfigError
from bbrgym.evaluate.bench.deployable import deployment_measures
from bbrgym.evaluate.bench.tasks import Benchmark, TaskRuns, load_benchmark, task_runs
from bbrgym.evaluate.check_results import Verdict, check_runs, verdicts_of
from bbrgym.evaluate.entrant_list import entrants_of
from bbrgym.evaluate.entrants import Entrant, Kind
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.evaluate.harm import with_harm
from bbrgym.evaluate.records import FIXED, Records, per_run
from bbrgym.evaluate.runner import EvaluationJob, EvaluationProgress, run_all
from bbrgym.evaluate.statistics import Estimate, bootstrap_mean
from bbrgym.schema import Float, List, Model, Whole, shown
from bbrgym.tunables import VARIANTS

DIGITS = 4  # of a number: what the last bits of a processor's arithmetic may change is not kept


class Mean(Model):
    """A mean and its 95 % interval; the ends are null where there is none."""

    mean: Float
    low: Float | None
    high: Float | None

    @property
    def estimate(self) -> Estimate:
        """Mean and interval, NaN where an end is not known."""
        return Estimate(self.mean, *(math.nan if end is None else end for end in (self.low, self.high)))


class TaskScores(Mean):
    """Scores in a task, and their mean.

    Attributes:
        scores: one per draw, in their order.
    """

    scores: List[Float]


class CheckOutcome(Model):
    """Outcome of a check, over all runs of a scenario.

    Attributes:
        check: measurement.
        bounds: allowed, in words.
        measured: mean over the runs; null if a run lacks the measurement.
        passed: whether it keeps to the bounds.
    """

    check: str
    bounds: str
    measured: Float | None
    passed: bool


class BenchEntry(Model):
    """Scores of an entrant.

    Attributes:
        entrant: name of a variant, or agent as the option `agent` of an evaluation takes it.
        label: of the entrant in tables.
        kind: of the entrant.
        score: the network's, over the draws of all scored tasks.
        own_score: likewise.
        harm: to the goodput of the other flows, over those of the draws that have any.
        tasks: scores by scored task.
        deployment: what tells whether it is deployable, by measure; those without a value are left out.
        checks_passed: number of the outcomes that passed.
        checks: outcomes by checked task.
    """

    entrant: str
    label: str
    kind: Kind
    score: Mean
    own_score: Mean
    harm: Mean
    tasks: dict[str, TaskScores]
    deployment: dict[str, Mean]
    checks_passed: Whole
    checks: dict[str, List[CheckOutcome]]


def run_entrants(
    names: Sequence[str], on_progress: Callable[[EvaluationProgress], None] | None = None
) -> list[BenchEntry]:
    """Run entrants in all tasks of the benchmark and return their entries.

    Args:
        names: variants, and agents as the option `agent` of an evaluation takes them; each by itself, so that its entry
            does not depend on the others.
        on_progress: called a few times a second, in the caller's thread.

    Raises:
        ConfigError: a name is none, given twice or cannot take part, or the draws are not those that were frozen.
        WorldError: a run broke.
    """
    if len(set(names)) < len(names):
        raise ConfigError(f"bench: entrants are {shown(list(names))}, expected each once")
    benchmark = load_benchmark()
    planned = [
        (name, entrant, {task: task_runs(benchmark, one, entrant) for task, one in benchmark.tasks.items()})
        for name in names
        for entrant in _entrants(benchmark, name)
    ]
    jobs = {  # a reference may be the run of several entrants
        job.key: job
        for _, _, runs in planned
        for of_task in runs.values()
        for job in (*of_task.jobs, *of_task.references)
    }
    at_once = parse_settings({"world": benchmark.world, "variants": []}).jobs_at_once()
    records = run_all(jobs, at_once, on_progress=on_progress)
    return [_entry(benchmark, name, entrant, runs, records) for name, entrant, runs in planned]


def _entrants(benchmark: Benchmark, name: str) -> list[Entrant]:
    is_variant = name in VARIANTS
    settings = {
        "world": benchmark.world,
        "score_delta": benchmark.score_delta,
        "variants": [name] if is_variant else [],
    }
    return entrants_of(FIXED if is_variant else name, parse_settings(settings))


def _entry(
    benchmark: Benchmark,
    name: str,
    entrant: Entrant,
    runs: Mapping[str, TaskRuns],
    records: Records,
) -> BenchEntry:
    """Return the entry of an entrant from the records of all runs by key."""

    def rows(jobs: Sequence[EvaluationJob]) -> pl.DataFrame:
        return records.of([job.key for job in jobs]).summary

    references = {task: rows(of_task.references) for task, of_task in runs.items()}
    summaries = {task: with_harm(rows(of_task.jobs), references[task]) for task, of_task in runs.items()}
    scored = {task.scenario: per_run(summaries[task.scenario]) for task in benchmark.scored}
    scores = {task: [round(score, DIGITS) for score in of_task["score"]] for task, of_task in scored.items()}
    columns = pl.concat([of_task.select("own_score", pl.col("harm").cast(pl.Float64)) for of_task in scored.values()])
    checks = {task.scenario: _outcomes(summaries[task.scenario], runs[task.scenario]) for task in benchmark.checked}
    measures = deployment_measures(summaries, references, benchmark.alone)
    return BenchEntry(
        entrant=name,
        label=entrant.label,
        kind=entrant.kind,
        score=_mean([score for of_task in scores.values() for score in of_task]),
        own_score=_mean(columns["own_score"]),
        harm=_mean(columns["harm"].drop_nulls()),
        tasks={
            task: TaskScores(**_mean(of_task).model_dump(), scores=tuple(of_task)) for task, of_task in scores.items()
        },
        deployment={measure: _rounded(one) for measure, one in measures.items() if not math.isnan(one.value)},
        checks_passed=sum(outcome.passed for of_task in checks.values() for outcome in of_task),
        checks=checks,
    )


def _outcomes(summary: pl.DataFrame, runs: TaskRuns) -> tuple[CheckOutcome, ...]:
    checks = check_runs(summary, {draw.seed: draw.scenario for draw in runs.draws})
    return tuple(map(_outcome, verdicts_of(checks)))


def _outcome(verdict: Verdict) -> CheckOutcome:
    measured = _known(verdict.measured.value) if verdict.lacking == 0 else None
    return CheckOutcome(check=verdict.check, bounds=verdict.bounds, measured=measured, passed=verdict.passed)


def _mean(values: npt.ArrayLike) -> Mean:
    return _rounded(bootstrap_mean(values))


def _rounded(estimate: Estimate) -> Mean:
    return Mean(mean=round(estimate.value, DIGITS), low=_known(estimate.low), high=_known(estimate.high))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, DIGITS)
