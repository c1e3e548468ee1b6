# SPDX-License-Identifier: GPL-2.0-only
"""Runs experiments of the papers and compares the measurements with the published numbers.

request -> cases (variant, point, seed and world of an experiment) -> runs -> a row per number and claim, with a verdict
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from pydantic import Field

from bbrgym.errors import ConfigError, one_line
from bbrgym.evaluate.entrants import preset
from bbrgym.evaluate.evaluation_settings import MAX_JOBS, parse_world_settings
from bbrgym.evaluate.records import EvaluationFolder, RunRecord
from bbrgym.evaluate.resume import check_same_config
from bbrgym.evaluate.runner import EvaluationJob, EvaluationProgress, run_each
from bbrgym.evaluate.statistics import MIN_DRAWS, Estimate, bootstrap_mean, known_values, student_mean
from bbrgym.papers.catalogue import select_experiments
from bbrgym.papers.experiment import Experiment, Quantity
from bbrgym.papers.metrics import MeasuredRun, measure
from bbrgym.papers.verdicts import Compared, verdict_of_claim, verdicts_of
from bbrgym.scenario.families import queue_bytes
from bbrgym.scenario.files import parse_scenario
from bbrgym.scenario.flow import check_tunables
from bbrgym.schema import FieldProblem, Float, List, Model, PathText, Whole, plain, validated
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import (
    FAST_WORLD,
    WorldError,
    WorldSettings,
    check_world_has,
    registered_worlds,
    runs_at_once,
    world_spec,
)

#: Columns of numbers.parquet: a row of a published number has ``published``, one of a claim ``claim`` and the values of
#: its sides, one of a comparison neither, and no verdict. ``reason`` says why a row was not measured.
NUMBERS = pl.Schema(
    {
        **dict.fromkeys(("experiment", "world", "reading", "variant", "metric", "flow"), pl.String),
        "at": pl.Float64,
        "over": pl.String,
        "published": pl.Float64,
        **dict.fromkeys(("unit", "source"), pl.String),
        **dict.fromkeys(("measured", "low", "high"), pl.Float64),
        "seeds": pl.Int64,
        "claim": pl.String,
        **dict.fromkeys(("less", "than"), pl.Float64),
        **dict.fromkeys(("verdict", "reason"), pl.String),
    }
)
_SCORE_DELTA = 0.5  # no metric depends on the score
_OWN_WORLD_TIMEOUT_S = 600.0  # ns-3 walks a list of all that is out for each retransmission: slow under load
_Values = npt.NDArray[np.float64]


class Reproduction(Model):
    """Request of `bbrgym reproduce`."""

    paper: str | None = None  # whose experiments are run. Default: all
    experiment: List[PathText] = ()  # names or files of experiments. Default: all
    world: Annotated[dict[str, WorldSettings], Field(min_length=1)]  # settings of each world, by its name
    # number of runs of each variant and point. Default: each experiment's own
    seeds: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    # folder of the authors' traces of links. Default: shipped traces take their places
    recordings: PathText | None = None
    # runs at once. Default: one a core; in real time one for two cores
    jobs: Annotated[Whole, Field(ge=1, le=MAX_JOBS)] | None = None

    @property
    def parallel_runs(self) -> int:
        """Number of runs at once."""
        return self.jobs or runs_at_once(self.world)


def parse_reproduction(fields: Mapping[str, Any]) -> Reproduction:
    """Check a request; one name may stand for a list of one, a world's name for its default settings."""
    fields = dict(plain(fields))
    names = fields.get("experiment") or ()
    fields["experiment"] = (names,) if isinstance(names, str | os.PathLike) else names
    fields["world"] = parse_world_settings(fields.get("world", FAST_WORLD))
    asked = validated(Reproduction, fields)
    for name in asked.world:
        world_spec(name)
    return asked


# ---- runs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A run of an experiment."""

    variant: str  # name in the experiment
    at: float | None  # point of the sweep
    job: EvaluationJob


@dataclass(frozen=True)
class PreparedExperiment:
    """An experiment with all runs."""

    experiment: Experiment
    worlds: Sequence[str]  # those asked for, or the only one that has its variants
    cases: Sequence[Case]

    @property
    def duration_s(self) -> float:
        """Simulated time of all runs."""
        return sum(case.job.scenario.duration_s for case in self.cases)


class ReproductionFolder(EvaluationFolder):
    """Run folder of a reproduction: jobs/, numbers.parquet and summary.txt."""

    command = "reproduce"


@dataclass(frozen=True)
class Reproduced:
    """Results of a reproduction."""

    numbers: pl.DataFrame  # see `NUMBERS`
    failures: Mapping[str, str]  # why runs broke, by their keys; at their points nothing counts as measured


@dataclass(frozen=True)
class PreparedReproduction:
    """A reproduction whose request has been checked."""

    asked: Reproduction
    experiments: Sequence[PreparedExperiment]

    @property
    def runs(self) -> int:
        """Number of all runs."""
        return sum(len(one.cases) for one in self.experiments)

    @property
    def duration_s(self) -> float:
        """Simulated time of all runs."""
        return sum(one.duration_s for one in self.experiments)

    def run(
        self, folder: ReproductionFolder | None = None, on_progress: Callable[[EvaluationProgress], None] | None = None
    ) -> Reproduced:
        """Run what the folder does not hold yet; a run that breaks is noted and the others go on.

        Args:
            folder: open; keeps every finished run. Default: none, nothing is written.
            on_progress: called a few times a second, in the caller's thread.

        Raises:
            ConfigError: the folder holds another reproduction, or a damaged run.
            OSError: a file cannot be written; finished runs are kept.
        """
        if folder is not None:
            config = self.asked.model_dump(mode="json")
            if folder.has_config():
                stored = folder.read_request(parse_reproduction).model_dump(mode="json")
                check_same_config(config, stored, "reproduction", folder)
            folder.write_config(config)
        tables, failures = [pl.DataFrame(schema=NUMBERS)], dict[str, str]()
        done_s, done_runs = 0.0, 0
        for one in self.experiments:
            report = None if on_progress is None else partial(self._report, on_progress, done_s, done_runs)
            outcomes = run_each([case.job for case in one.cases], self.asked.parallel_runs, folder, report)
            measured = Measurements(one, outcomes)
            tables.append(pl.DataFrame(list(measured.rows()), schema=NUMBERS))
            failures |= measured.failures
            done_s, done_runs = done_s + one.duration_s, done_runs + len(one.cases)
        numbers = pl.concat(tables)
        if folder is not None:
            folder.write_table("numbers.parquet", numbers)
        return Reproduced(numbers, failures)

    def _report(
        self, on_progress: Callable[[EvaluationProgress], None], done_s: float, done_runs: int, own: EvaluationProgress
    ) -> None:
        """Report the progress of an experiment on top of the earlier experiments'."""
        on_progress(EvaluationProgress(done_s + own.done_s, self.duration_s, done_runs + own.done_runs, self.runs))


def prepare_reproduction(asked: Reproduction) -> PreparedReproduction:
    """Check all that a reproduction is asked for; nothing is run or written.

    Raises:
        ConfigError: an experiment, or a field of it, cannot be used.
    """
    experiments = select_experiments(asked.paper, asked.experiment)
    return PreparedReproduction(asked, [_prepared(experiment, asked) for experiment in experiments])


def _prepared(experiment: Experiment, asked: Reproduction) -> PreparedExperiment:
    if experiment.no_run is not None:
        return PreparedExperiment(experiment, (), ())
    own = [variant.world for variant in experiment.variants.values()]
    worlds = list(asked.world) if None in own else [name for name in dict.fromkeys(own) if name is not None]
    at_points = [_cases(experiment, name, at, asked) for name in experiment.variants for at in experiment.points]
    return PreparedExperiment(experiment, worlds, list(chain.from_iterable(at_points)))


def _cases(experiment: Experiment, name: str, at: float | None, asked: Reproduction) -> Iterator[Case]:
    """Yield the runs of a variant at a point, in every world asked for, or in the only one that has it."""
    variant, where = experiment.variants[name], f"experiment {experiment.name}"
    cc = variant.cc or name
    if cc not in VARIANTS:
        raise ConfigError(f"{where}: variants.{name}: is not a variant, expected cc with one of bbrgym list")
    recordings = None if asked.recordings is None else Path(asked.recordings)
    for world, settings in _worlds_of(variant.world, asked).items():
        try:
            check_tunables(cc, variant.tunables)
            fields = experiment.fields_of(name, at, recordings, has_radio=world_spec(world).has_last_hops)
        except FieldProblem as error:
            prefix = f"variants.{name}." if error.path.startswith("tunables") else ""
            raise ConfigError(f"{where}: {prefix}{error.path}: {error.problem}") from None
        try:
            entrant = preset(cc, variant.tunables)
            scenario = entrant.prepared(parse_scenario(fields))
        except ConfigError as error:
            raise ConfigError(f"{where}: variant {name}{'' if at is None else f' at {at:g}'}: {error}") from error
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
                world_settings=settings,
            )
            yield Case(name, at, job)


def _worlds_of(own: str | None, asked: Reproduction) -> Mapping[str, WorldSettings]:
    if own is None:
        return asked.world
    default = {**registered_worlds()[own].default_settings(), "timeout_s": _OWN_WORLD_TIMEOUT_S}
    return {own: asked.world.get(own, WorldSettings.model_validate(default))}


# ---- results ------------------------------------------------------------------------------------------


def estimate(values: npt.ArrayLike) -> Estimate:
    """Return the mean over seeds with its 95 % interval: by bootstrap from 10 seeds on, below by Student's t."""
    return bootstrap_mean(values) if len(known_values(values)) >= MIN_DRAWS else student_mean(values)


class Measurements:
    """Values of an experiment's runs; none at a point where a run broke, since a mean of the others misleads."""

    def __init__(self, prepared: PreparedExperiment, outcomes: Sequence[RunRecord | WorldError]) -> None:
        self._experiment, self._worlds = prepared.experiment, prepared.worlds
        self.failures: dict[str, str] = {}
        self._reasons: dict[tuple[str, str, float | None], str] = {}
        self._values: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        claimed = [one for claim in self._experiment.claims for one in claim.quantities]
        quantities = (
            [one.quantity for one in self._experiment.published] + claimed + self._experiment.compared_quantities
        )
        metrics = dict.fromkeys((one.metric, one.flow) for one in quantities)
        for case, outcome in zip(prepared.cases, outcomes, strict=True):
            point = (case.job.world, case.variant, case.at)
            if isinstance(outcome, WorldError):
                self.failures[case.job.key] = one_line(outcome)
                self._reasons.setdefault(point, one_line(outcome))
                continue
            scenario = case.job.scenario
            run = MeasuredRun(outcome.summary, outcome.timeseries, scenario.mss_bytes, queue_bytes(scenario))
            for metric, flow in metrics:
                self._values[*point, metric, flow].append(measure(run, metric, flow))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `NUMBERS`."""
        experiment = self._experiment
        for world in self._worlds:
            numbers = [(one, *self._measured(one.quantity, world)) for one in experiment.published]
            verdicts = verdicts_of([Compared(one, cells["measured"]) for one, cells, _ in numbers])
            for (one, cells, reason), verdict in zip(numbers, verdicts, strict=True):
                about = {"published": one.value, "unit": one.unit, "source": one.origin}
                yield {**cells, **about, "verdict": verdict, "reason": reason}
            for quantity in experiment.compared_quantities:
                yield self._measured(quantity, world)[0]
        for world in self._worlds:
            for claim in experiment.claims:
                less, than = (self._side(side, world) for side in (claim.less, claim.than))
                reasons = [self._measured(one, world)[1] for one in claim.quantities]
                said = {"claim": claim.text, "source": claim.source, "less": less, "than": than}
                verdict, reason = verdict_of_claim(claim, less, than), next((one for one in reasons if one), None)
                yield {**self._about(claim.variant, world), **said, "verdict": verdict, "reason": reason}

    def _measured(self, quantity: Quantity, world: str) -> tuple[dict[str, Any], str | None]:
        """Return the cells of a quantity, and why the quantity was not measured; None if measured."""
        values, reason = self._of(quantity, world)
        mean = estimate(values)
        cells = {"measured": mean.value, "low": mean.low, "high": mean.high, "seeds": len(known_values(values))}
        return {**self._about(quantity.variant, world), **quantity.model_dump(), **cells}, reason

    def _side(self, side: Quantity | Float, world: str) -> float:
        return estimate(self._of(side, world)[0]).value if isinstance(side, Quantity) else side

    def _of(self, quantity: Quantity, world: str) -> tuple[_Values, str | None]:
        """Return a quantity of each seed, or NaN and why; a variant that one world has counts for every world."""

        def of(variant: str) -> tuple[_Values, str | None]:
            point = (self._experiment.variants[variant].world or world, variant, quantity.at)
            reason = self._reasons.get(point)
            key = (*point, quantity.metric, quantity.flow)
            return np.array([math.nan] if reason else self._values[key], dtype=np.float64), reason

        values, reason = of(quantity.variant)
        if quantity.over is None:
            return values, reason
        others, other_reason = of(quantity.over)
        if reason or other_reason:
            return np.array([math.nan]), reason or other_reason
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = values / others
        return np.where(np.isfinite(ratios), ratios, np.nan), None

    def _about(self, variant: str | None, world: str) -> dict[str, str | None]:
        """Return the first cells of a row about a variant; None: about more than one."""
        reading = variant if self._experiment.readings else None
        return {"experiment": self._experiment.name, "world": world, "reading": reading}
