# SPDX-License-Identifier: GPL-2.0-only
"""Entries of the benchmark: what entrants score in its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from bbrgym.errors import ConfigError
from bbrgym.evaluate.bench.tasks import Benchmark, TaskRuns, load_benchmark, task_runs
from bbrgym.evaluate.check_results import Verdict, check_runs, verdicts_of
from bbrgym.evaluate.entrant_list import entrants_of
from bbrgym.evaluate.entrants import Entrant, Kind
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.evaluate.records import FIXED, RunRecord
from bbrgym.evaluate.runner import EvaluationProgress, run_all
from bbrgym.evaluate.statistics import Estimate, Scores
from bbrgym.scenario.distribution import Distribution
from bbrgym.schema import Float, List, Model, Whole, shown
from bbrgym.tunables import VARIANTS

DIGITS = 6  # of a score: what the last bits of a processor's arithmetic may change is not kept


class Mean(Model):
    """A mean and its 95 % interval; the ends are null where there is none."""

    mean: Float
    low: Float | None
    high: Float | None


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
        score: over the draws of all scored tasks without recordings.
        tasks: scores by scored task.
        checks_passed: number of the outcomes that passed.
        checks: outcomes by checked task.
    """

    entrant: str
    label: str
    kind: Kind
    score: Mean
    tasks: dict[str, TaskScores]
    checks_passed: Whole
    checks: dict[str, List[CheckOutcome]]


def run_entrants(
    names: Sequence[str],
    on_progress: Callable[[EvaluationProgress], None] | None = None,
    traces: Path | None = None,
) -> list[BenchEntry]:
    """Run entrants in all tasks of the benchmark and return their entries.

    Args:
        names: variants, and agents as the option `agent` of an evaluation takes them; each by itself, so that its entry
            does not depend on the others.
        on_progress: called a few times a second, in the caller's thread.
        traces: folder of the recordings. Default: the task on recordings is left out.

    Raises:
        ConfigError: a name is none, given twice or cannot take part, or the draws or recordings are not those that were
            frozen.
        WorldError: a run broke.
    """
    if len(set(names)) < len(names):
        raise ConfigError(f"bench: entrants are {shown(list(names))}, expected each once")
    benchmark = load_benchmark()
    recorded = None if traces is None else benchmark.recorded.distribution(traces)
    planned = [
        (name, entrant, _plan(benchmark, entrant, recorded)) for name in names for entrant in _entrants(benchmark, name)
    ]
    jobs = [job for _, _, runs in planned for of_task in runs.values() for job in of_task.jobs]
    at_once = parse_settings({"world": benchmark.world, "variants": []}).jobs_at_once()
    records = iter(run_all(jobs, at_once, on_progress=on_progress))
    return [_entry(benchmark, name, entrant, runs, records) for name, entrant, runs in planned]


def _entrants(benchmark: Benchmark, name: str) -> list[Entrant]:
    is_variant = name in VARIANTS
    settings = {
        "world": benchmark.world,
        "score_delta": benchmark.score_delta,
        "variants": [name] if is_variant else [],
    }
    return entrants_of(FIXED if is_variant else name, parse_settings(settings))


def _plan(benchmark: Benchmark, entrant: Entrant, recorded: Distribution | None) -> dict[str, TaskRuns]:
    """Return the runs of an entrant by task."""
    runs = {task.scenario: task_runs(benchmark, task, entrant) for task in (*benchmark.scored, *benchmark.checked)}
    if recorded is not None:
        runs[recorded.name] = task_runs(benchmark, benchmark.recorded, entrant, recorded)
    return runs


def _entry(
    benchmark: Benchmark, name: str, entrant: Entrant, runs: Mapping[str, TaskRuns], records: Iterator[RunRecord]
) -> BenchEntry:
    """Return the entry of an entrant, whose records are the next ones."""
    summaries = {task: [next(records).summary for _ in of_task.jobs] for task, of_task in runs.items()}
    scores = {
        task.scenario: [round(float(one["own_score"][0]), DIGITS) for one in summaries[task.scenario]]
        for task in (*benchmark.scored, benchmark.recorded)
        if task.scenario in summaries
    }
    checks = {
        task.scenario: _outcomes(pl.concat(summaries[task.scenario]), runs[task.scenario]) for task in benchmark.checked
    }
    return BenchEntry(
        entrant=name,
        label=entrant.label,
        kind=entrant.kind,
        score=Mean.model_validate(_mean([score for task in benchmark.scored for score in scores[task.scenario]])),
        tasks={
            task: TaskScores.model_validate({**_mean(of_task), "scores": of_task}) for task, of_task in scores.items()
        },
        checks_passed=sum(outcome.passed for of_task in checks.values() for outcome in of_task),
        checks=checks,
    )


def _outcomes(summary: pl.DataFrame, runs: TaskRuns) -> tuple[CheckOutcome, ...]:
    checks = check_runs(summary, {draw.seed: draw.scenario for draw in runs.draws})
    return tuple(map(_outcome, verdicts_of(checks)))


def _outcome(verdict: Verdict) -> CheckOutcome:
    measured = _known(verdict.measured.value) if verdict.lacking == 0 else None
    return CheckOutcome(check=verdict.check, bounds=verdict.bounds, measured=measured, passed=verdict.passed)


def _mean(scores: Sequence[float]) -> dict[str, float | None]:
    estimate: Estimate = Scores({"": scores}).mean("")
    return {"mean": _known(estimate.value), "low": _known(estimate.low), "high": _known(estimate.high)}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, DIGITS)
