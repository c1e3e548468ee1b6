# SPDX-License-Identifier: GPL-2.0-only
"""Runs experiments of the papers and compares what they measure with what was published.

request -> cases -> runs -> measurements -> results, beside what was published -> tables in the run folder
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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

_OnProgress = Callable[[EvaluationProgress], None]


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
        progress = _Progress(self.experiments, on_progress)
        results = []
        for one in self.experiments:
            results.append(compare(one, self._outcomes(one, folder, progress.report, given_up)))
            progress.finish(one)
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
        report: _OnProgress,
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


class _Progress:
    """Progress over all experiments, from that of one after the other."""

    def __init__(self, experiments: Sequence[PreparedExperiment], on_progress: _OnProgress | None) -> None:
        self._on_progress = on_progress
        self._total_s = sum(one.duration_s for one in experiments)
        self._total_runs = sum(len(one.cases) for one in experiments)
        self._done_s, self._done_runs = 0.0, 0

    def report(self, own: EvaluationProgress) -> None:
        """Report the progress of the experiment that runs now."""
        if self._on_progress is not None:
            done_s, done_runs = self._done_s + own.done_s, self._done_runs + own.done_runs
            self._on_progress(EvaluationProgress(done_s, self._total_s, done_runs, self._total_runs))

    def finish(self, one: PreparedExperiment) -> None:
        """Count an experiment as done."""
        self._done_s, self._done_runs = self._done_s + one.duration_s, self._done_runs + len(one.cases)


def _write_tables(folder: ReproductionFolder, results: Sequence[ReproducedExperiment]) -> None:
    """Write the tables of a reproduction, and why runs broke, into its run folder."""
    folder.write_failures({run.case.job.key: run.reason for one in results for run in one.failures})
    folder.write_table("numbers.parquet", numbers_table(results))
    measured = [one.measurements for one in results]
    folder.write_table("measurements.parquet", pl.concat(measured) if measured else pl.DataFrame(schema=MEASUREMENTS))
