# SPDX-License-Identifier: GPL-2.0-only
"""Runs the draft's cases side by side, each in a process, and keeps what they found."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Annotated, Any

import polars as pl
from pydantic import Field

from bbrgym.conformance.case_run import CaseRun, run_case
from bbrgym.conformance.draft_cases import select_cases
from bbrgym.conformance.findings import SCHEMA, Finding
from bbrgym.conformance.setup import Sender
from bbrgym.errors import ConfigError, nearest
from bbrgym.evaluate.evaluation_settings import MAX_JOBS, parse_world_settings
from bbrgym.processes import end_with_parent
from bbrgym.runs.run_folder import RunFolder
from bbrgym.schema import List, Model, Whole, plain, shown, validated
from bbrgym.worlds import FAST_WORLD, WorldSettings, registered_worlds, world_spec

CONTROLS = ("bbr3", "bbr2", "bbr")
READINGS = ("code", "draft")


class Conformance(Model):
    """Request of `bbrgym conformance`."""

    world: Annotated[dict[str, WorldSettings], Field(min_length=1)]  # settings of each world, by its name
    # congestion controls under test: ``bbr3``, ``bbr2``, ``bbr``
    cc: Annotated[List[str], Field(min_length=1)] = ("bbr3",)
    # of ``bbr3`` where google/bbr and the draft differ: ``code``, ``draft``
    reading: Annotated[List[str], Field(min_length=1)] = READINGS
    case: List[str] = ()  # names of cases. Default: all
    seed: Annotated[Whole, Field(ge=0, le=2**63 - 1)] = 1  # of all random numbers
    jobs: Annotated[Whole, Field(ge=1, le=MAX_JOBS)] | None = None  # runs at once. Default: one a core


class ConformanceFolder(RunFolder):
    """Run folder of `bbrgym conformance`.

    It holds findings.parquet and findings.csv, a row per case, condition, sender and world; traces/, the ACKs of each
    run as CSV, all of them around changes of the phase and the loss state and some between; and summary.txt.
    """

    command = "conformance"


@dataclass(frozen=True)
class ConformanceProgress:
    """Progress of the runs."""

    ended: int  # runs that have ended, of ``total``
    failed: int  # those of them that did not pass, without a reason
    total: int  # number of all runs


def parse_conformance(fields: Mapping[str, Any]) -> Conformance:
    """Check a request; one name may stand for a list of one.

    Raises:
        ConfigError: names the option, its value and what is allowed.
    """
    fields = dict(plain(fields))
    for name in ("cc", "reading", "case"):
        value = fields.get(name)
        fields[name] = () if value is None else [value] if isinstance(value, str) else value
        if not fields[name]:
            del fields[name]
    fields["world"] = parse_world_settings(fields.get("world", FAST_WORLD))
    asked = validated(Conformance, fields)
    for option, values, allowed in (("cc", asked.cc, CONTROLS), ("reading", asked.reading, READINGS)):
        for value in values:
            if value not in allowed:
                raise ConfigError(f"{option}: is {shown(value)}; {nearest(value, allowed)}")
    for world in asked.world:
        if world not in registered_worlds() or "policy" not in world_spec(world).options:
            traced = [name for name, spec in registered_worlds().items() if "policy" in spec.options]
            raise ConfigError(f"world: is {shown(world)}; {nearest(world, traced)}")
    select_cases(asked.case)
    return asked


def conformance_runs(asked: Conformance) -> list[CaseRun]:
    """Return all runs of a request."""
    senders = [Sender(cc, reading) for cc in asked.cc for reading in (asked.reading if cc == "bbr3" else ("code",))]
    return [
        CaseRun(case.name, condition, sender, name, options, settings.timeout_s, asked.seed)
        for name, settings in asked.world.items()
        for options in [world_spec(name).given_options(settings.options)]
        for case, sender in itertools.product(select_cases(asked.case), senders)
        for condition in range(len(case.conditions))
    ]


def run_conformance(
    asked: Conformance, folder: ConformanceFolder, on_progress: Callable[[ConformanceProgress], None]
) -> pl.DataFrame:
    """Run the cases, write the folder and return the table of findings."""
    folder.write_config(asked.model_dump(mode="json"))
    runs = conformance_runs(asked)
    found: dict[int, Finding] = {}

    def keep(index: int, finding: Finding) -> None:
        found[index] = finding
        if finding.trace:
            folder.write_text(f"traces/{runs[index].key}.csv", finding.trace)
        failed = sum(one.outcome in ("failed", "broken") for one in found.values())
        on_progress(ConformanceProgress(len(found), failed, len(runs)))

    is_real_time = any(world_spec(name).is_real_time for name in asked.world)
    at_once = 1 if is_real_time else min(asked.jobs or len(os.sched_getaffinity(0)), len(runs))
    # A process that ends by itself takes its pool with it: what it left undone is tried alone.
    for index in _side_by_side(runs, range(len(runs)), at_once, keep):
        for left in _side_by_side(runs, [index], 1, keep):
            keep(left, Finding("broken", reason="the process that ran it has ended"))
    rows = [run.row(found[index]) for index, run in enumerate(runs)]
    table = pl.DataFrame(rows, schema=SCHEMA)
    folder.write_table("findings.parquet", table)
    folder.write_text("findings.csv", table.write_csv())
    return table


def _side_by_side(
    runs: Sequence[CaseRun], indices: Sequence[int], at_once: int, keep: Callable[[int, Finding], None]
) -> list[int]:
    """Run cases in processes; return those that a process which has ended left undone."""
    left: list[int] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, context, initializer=end_with_parent, initargs=(os.getpid(),)) as pool:
        futures = {pool.submit(run_case, runs[index]): index for index in indices}
        try:
            for future in as_completed(futures):
                try:
                    keep(futures[future], future.result())
                except BrokenProcessPool:
                    left.append(futures[future])
        except BaseException:
            for process in pool._processes.values():  # the pool ends none that is at work
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return left
