# SPDX-License-Identifier: GPL-2.0-only
"""Runs experiments of the papers and compares what they measure with what was published.

request -> cases -> runs -> measurements -> results, beside what was published -> tables in the run folder
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import polars as pl

from bbrgym.errors import one_line
from bbrgym.evaluate.records import EvaluationFolder, RunRecord
from bbrgym.evaluate.resume import refuse_differences
from bbrgym.evaluate.runner import EvaluationProgress, run_each
from bbrgym.papers.cases import PreparedExperiment, prepare_experiment
from bbrgym.papers.catalogue import select_experiments
from bbrgym.papers.measurements import MEASUREMENTS
from bbrgym.papers.numbers_table import numbers_table
from bbrgym.papers.request import Reproduction, parse_reproduction
from bbrgym.papers.results import ReproducedExperiment, compare
from bbrgym.worlds import WorldError

FAILURES = "failures.json"  # why runs broke in the last attempt, by their keys
_OnProgress = Callable[[EvaluationProgress], None]


class ReproductionFolder(EvaluationFolder):
    """Run folder of a reproduction.

    It holds jobs/, failures.json, numbers.parquet, measurements.parquet, figures/ and report.html.
    """

    command = "reproduce"


def prepare_reproduction(asked: Reproduction) -> PreparedReproduction:
    """Check all that a reproduction is asked for; nothing is run or written.

    Raises:
        ConfigError: an experiment, or a field of it, cannot be used.
    """
    experiments = select_experiments(asked.paper, asked.experiment)
    return PreparedReproduction(asked, [prepare_experiment(experiment, asked) for experiment in experiments])


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
        on_progress: _OnProgress | None = None,
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
            self._keep_request(folder)
        total_s, runs = sum(one.duration_s for one in self.experiments), sum(len(one.cases) for one in self.experiments)
        before = EvaluationProgress(0.0, total_s, 0, runs)
        results = []
        for one in self.experiments:
            report = None if on_progress is None else partial(_report, on_progress, before)
            results.append(compare(one, self._outcomes(one, folder, report, given_up)))
            done_s, done_runs = before.done_s + one.duration_s, before.done_runs + len(one.cases)
            before = replace(before, done_s=done_s, done_runs=done_runs)
        if folder is not None:
            _write_tables(folder, results)
        return results

    def _keep_request(self, folder: ReproductionFolder) -> None:
        """Write the request into the folder, if it holds no other one."""
        if folder.has_config():
            stored = folder.read_request(parse_reproduction).model_dump(mode="json")
            refuse_differences(self.config, stored, "reproduction", folder)
        folder.write_config(self.config)

    def _outcomes(
        self,
        one: PreparedExperiment,
        folder: ReproductionFolder | None,
        report: _OnProgress | None,
        given_up: Mapping[str, str],
    ) -> list[RunRecord | str]:
        """Return the records of an experiment's runs, or in a sentence why there are none."""
        jobs = [case.job for case in one.cases if case.job.key not in given_up]
        outcomes = iter(run_each(jobs, self.asked.parallel_runs, folder, report))
        found: list[RunRecord | str] = []
        for case in one.cases:
            outcome = given_up[case.job.key] if case.job.key in given_up else next(outcomes)
            found.append(one_line(outcome) if isinstance(outcome, WorldError) else outcome)
        return found


def _report(on_progress: _OnProgress, before: EvaluationProgress, own: EvaluationProgress) -> None:
    """Report the progress of an experiment on top of that before it."""
    on_progress(replace(before, done_s=before.done_s + own.done_s, done_runs=before.done_runs + own.done_runs))


def _write_tables(folder: ReproductionFolder, results: Sequence[ReproducedExperiment]) -> None:
    """Write the tables of a reproduction, and why runs broke, into its run folder."""
    folder.write_json(FAILURES, {run.case.job.key: run.reason for one in results for run in one.failures})
    folder.write_table("numbers.parquet", numbers_table(results))
    measured = [one.measurements for one in results]
    folder.write_table("measurements.parquet", pl.concat(measured) if measured else pl.DataFrame(schema=MEASUREMENTS))
