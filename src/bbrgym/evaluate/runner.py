# SPDX-License-Identifier: GPL-2.0-only
"""Takes an evaluation's runs side by side and keeps each as it ends, so that an interrupted evaluation can go on."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from bbrgym.evaluate.entrants import Conditions, Entrant, Run
from bbrgym.evaluate.records import (
    RUN_COLUMNS,
    SUMMARY_SCHEMA,
    TIMING_SCHEMA,
    TUNABLE_PREFIX,
    EvaluationFolder,
    Records,
    RunRecord,
)
from bbrgym.worlds import LateRunError, Table, WorldError, repeat_late, world_spec
from bbrgym.worlds.score import HARMS, score_of_run, shares_of_fair

_LOG = logging.getLogger(__name__)
_LATENESS = ("late_p50_us", "late_p99_us", "late_p999_us", "late_share")
_UNSEEN_S = 1.0  # between two measurements of a run that leaves no time series
_POLL_S = 0.2  # between two looks at progress and Ctrl-C


@dataclass(frozen=True, kw_only=True)
class EvaluationJob(Conditions):
    """A run of an entrant: all that its records depend on, save the isolation and the timeout of `world_settings`.

    The scenario need not be prepared for the entrant: that takes its memory while the run lasts alone.
    """

    entrant: Entrant  # that takes part
    score_delta: float  # weight of the RTT in the score
    keeps_series: bool  # whether it leaves rows in the time series

    @property
    def run_id(self) -> tuple[Entrant, str, int, int, object]:
        """Identity of the run in one evaluation, whose entrants are all different."""
        return self.entrant, self.world, self.seed, id(self.scenario), self.world_settings.options.get("policy")

    @property
    def key(self) -> str:
        """Return a name that differs between runs whose records may differ."""
        depends_on = [
            self.entrant.prepared(self.scenario).resolved_json(),
            self.entrant.variant,
            self.entrant.agent,
            self.entrant.identity(),
            self.seed,
            self.world,
            *([self.world_settings.options] if self.world_settings.options else []),
            self.interval_s,
            self.score_delta,
            self.keeps_series,
            SUMMARY_SCHEMA.names(),
        ]
        digest = hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()
        who = self.entrant.label.replace(" ", "-")
        return f"{self.scenario.name}-{self.world}-{who}-{self.seed}-{digest[:16]}"


@dataclass(frozen=True)
class EvaluationProgress:
    """Progress of an evaluation."""

    done_s: float  # simulated time so far, of ``total_s``
    total_s: float  # simulated time of all runs
    done_runs: int  # finished runs, of ``total_runs``
    total_runs: int  # number of all runs


def run_all(
    jobs: Mapping[Any, EvaluationJob],
    at_once: int,
    folder: EvaluationFolder | None = None,
    on_progress: Callable[[EvaluationProgress], None] | None = None,
) -> Records:
    """Return the records of all jobs by their keys; ``on_progress`` is called now and then in the caller's thread.

    The folder, which is open, keeps the records of each finished run, and spares the runs that it holds.

    Raises:
        ConfigError: a kept run is damaged.
        WorldError: a run broke; the others stop.
        OSError: records cannot be written; the others stop.
    """
    records, keys = Records(), list(jobs)

    def keep(index: int, outcome: RunRecord | WorldError) -> None:
        if isinstance(outcome, WorldError):
            raise outcome
        records.add(keys[index], outcome)

    _run(list(jobs.values()), at_once, folder, on_progress, keep)
    return records


def run_each(
    jobs: Sequence[EvaluationJob],
    at_once: int,
    folder: EvaluationFolder | None = None,
    on_progress: Callable[[EvaluationProgress], None] | None = None,
) -> list[RunRecord | WorldError]:
    """Return the records of each job in their order, or why it broke; the others then go on."""
    found: dict[int, RunRecord | WorldError] = {}
    _run(jobs, at_once, folder, on_progress, found.__setitem__)
    return [found[index] for index in range(len(jobs))]


def _run(
    jobs: Sequence[EvaluationJob],
    at_once: int,
    folder: EvaluationFolder | None,
    on_progress: Callable[[EvaluationProgress], None] | None,
    keep: Callable[[int, RunRecord | WorldError], None],
) -> None:
    """Run all jobs; ``keep`` takes the index of each and what it gave, and stops the others by an exception."""
    ended, ended_s, now_s = ([0.0] * at_once for _ in range(3))  # of each thread: its runs, their time, and that now
    total_s = sum(job.scenario.duration_s for job in jobs)
    stop, left = threading.Event(), iter(range(len(jobs)))

    def work(thread: int) -> None:
        for index in left:
            job = jobs[index]
            try:
                outcome: RunRecord | WorldError = _run_or_load(job, folder, stop, partial(now_s.__setitem__, thread))
            except WorldError as error:
                outcome = error
            keep(index, outcome)
            now_s[thread], ended_s[thread] = 0.0, ended_s[thread] + job.scenario.duration_s
            ended[thread] += 1

    with ThreadPoolExecutor(at_once, thread_name_prefix="bbrgym-run") as pool:
        pending = {pool.submit(work, thread) for thread in range(at_once)}  # no future a run: there may be many runs
        try:
            while pending:
                done, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()  # raises what broke the run
                if on_progress is not None:
                    done_s = sum(ended_s) + sum(now_s)
                    on_progress(EvaluationProgress(done_s, total_s, int(sum(ended)), len(jobs)))
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


class _Stopped(Exception):
    """The run is to stop: another one broke, or the evaluation was interrupted."""


def _run_or_load(
    job: EvaluationJob, folder: EvaluationFolder | None, stop: threading.Event, report: Callable[[float], None]
) -> RunRecord:
    """Run one job that the folder does not hold; one that was late is repeated, as the log and the records say."""
    key = job.key
    if folder is not None and folder.has_job(key):
        return folder.load_job(key)
    refused: list[LateRunError] = []

    def note(error: LateRunError) -> None:
        _LOG.warning("%s is repeated: %s", key, error.reason)
        refused.append(error)

    record = repeat_late(lambda: run_job(job, stop, report, len(refused)), note)
    if folder is not None:
        folder.store_job(key, record)
    return record


def run_job(job: EvaluationJob, stop: threading.Event, report: Callable[[float], None], late_repeats: int) -> RunRecord:
    """Run one job to its end, or until it is to stop, and return its records; report the simulated time on the way.

    Raises:
        WorldError: the simulation broke.
    """

    def check() -> None:
        if stop.is_set():
            raise _Stopped

    rows, job = _Rows(), replace(job, scenario=job.entrant.prepared(job.scenario))
    if not job.keeps_series and not world_spec(job.world).is_real_time:
        job = replace(job, interval_s=max(job.interval_s, _UNSEEN_S))  # the summary does not depend on it
    with closing(job.entrant.start(replace(job, check=check))) as run:
        wall_s = _timed(run.restart)  # once more, since the first reset starts a worker and loads the engine
        while not run.worlds.done[0]:
            check()
            wall_s += _timed(run.advance)
            if job.keeps_series:
                rows.add(run)
            report(float(run.worlds.now_s[0]))
        times = {"simulated_s": [float(run.worlds.now_s[0])], "wall_s": [wall_s]}
        return RunRecord(
            _summary(job, run, late_repeats),
            rows.table(job, run),
            pl.DataFrame({**_run_columns(job, 1), **times}, schema=TIMING_SCHEMA),
        )


def _timed(deed: Callable[[], None]) -> float:
    """Return the wall time of a call in s."""
    began_s = time.perf_counter()
    deed()
    return time.perf_counter() - began_s


# ---- records ------------------------------------------------------------------------------------------


class _Rows:
    """Rows of a run in the time series."""

    def __init__(self) -> None:
        self._times_s: list[float] = []
        self._flows: list[Table] = []
        self._links: list[Table] = []
        self._each_link: dict[str, list[Table]] = {}
        self._settings: list[Table] = []

    def add(self, run: Run) -> None:
        """Add the rows of the last interval."""
        flows = len(run.worlds.flow_names(0))
        self._times_s.append(float(run.worlds.now_s[0]))
        self._flows.append(run.worlds.flow_stats[0, :flows].copy())
        self._links.append(np.tile(run.worlds.link_stats[0], (flows, 1)))
        for name in run.worlds.scenarios[0].links:
            row = run.worlds.link_stats_of(0, name)
            self._each_link.setdefault(name, []).append(np.tile(row, (flows, 1)))
        self._settings.append(run.current_tunables()[:flows].copy())

    def table(self, job: EvaluationJob, run: Run) -> pl.DataFrame:
        """Return all rows."""
        names = list(run.worlds.flow_names(0)) if self._times_s else []
        columns: dict[str, Any] = {
            **_run_columns(job, len(names) * len(self._times_s)),
            "time_s": np.repeat(self._times_s, len(names)),
            "flow": names * len(self._times_s),
            **_named(run.worlds.flow_fields, "", self._flows),
            **_named(run.worlds.link_fields, "link_", self._links),
            **{
                column: values
                for name, parts in self._each_link.items()
                for column, values in _named(run.worlds.link_fields, f"link_{name}_", parts).items()
            },
            **_named(run.tunables, TUNABLE_PREFIX, self._settings),
        }
        return pl.DataFrame(columns, schema_overrides={"seed": pl.Int64, "flow": pl.String})


def _named(names: Sequence[str], prefix: str, parts: Sequence[Table]) -> dict[str, Table]:
    """Return the columns of tables placed one below the other."""
    table = np.concatenate([np.empty((0, len(names))), *parts])
    return {prefix + name: column for name, column in zip(names, table.T, strict=True)}


def _summary(job: EvaluationJob, run: Run, late_repeats: int) -> pl.DataFrame:
    flow_table, link_row = run.worlds.summary(0)
    flow_column = dict(zip(run.worlds.flow_summary_fields, flow_table.T, strict=True))
    link_value = dict(zip(run.worlds.link_summary_fields, link_row.tolist(), strict=True))
    flows = job.scenario.resolved().flows
    measured = (job.scenario, run.worlds.flow_summary_fields, flow_table)
    columns: dict[str, Any] = {
        **_run_columns(job, len(flows)),
        "flow": [flow.name for flow in flows],
        "cc": [flow.control for flow in flows],
        "role": [flow.role for flow in flows],
        "rtt_ms": [flow.rtt_ms for flow in flows],
        "utilisation": [link_value["utilisation"]] * len(flows),
        "jain": [link_value["jain"]] * len(flows),
        "score": [score_of_run(*measured, delta=job.score_delta)] * len(flows),
        "own_score": [score_of_run(*measured, delta=job.score_delta, score="own")] * len(flows),
        "share_of_fair": shares_of_fair(*measured),
        **dict.fromkeys(HARMS, [math.nan] * len(flows)),
    }
    lateness = {**{name: link_value[name] for name in _LATENESS}, "late_repeats": late_repeats}
    is_real_time = world_spec(job.world).is_real_time
    columns |= {name: [value if is_real_time else None] * len(flows) for name, value in lateness.items()}
    for name in SUMMARY_SCHEMA:
        if name not in columns:
            values = zip(flows, flow_column[name].tolist(), strict=True)
            columns[name] = [None if flow.quic and math.isnan(value) else value for flow, value in values]
    rows = list(zip(*(columns[name] for name in SUMMARY_SCHEMA), strict=True))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA, orient="row")  # a quarter of the time by columns


def _run_columns(job: EvaluationJob, rows: int) -> dict[str, list[Any]]:
    values = (job.scenario.name, job.world, job.entrant.variant, job.entrant.agent, job.seed)
    return {column: [value] * rows for column, value in zip(RUN_COLUMNS, values, strict=True)}
