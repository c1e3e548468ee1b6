# SPDX-License-Identifier: GPL-2.0-only
"""Runs every variant with every seed on one scenario, in one world or several, and records what came out."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import polars as pl
import yaml
from pydantic import Field, ValidationError, model_validator

from bbrgym import plots, tables
from bbrgym.agents import fixed
from bbrgym.errors import ConfigError, nearest
from bbrgym.records import RUN_COLUMNS, SUMMARY_SCHEMA, TIMING_SCHEMA, RunFolder, RunRecord
from bbrgym.scenario import Scenario
from bbrgym.scenario_files import load_scenario
from bbrgym.score import flow_scores, run_score
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.validation import FieldProblem, Float, List, Model, Whole, first_problem, shown
from bbrgym.worlds import Isolation, World, make_world, world_kinds

_POLL_S = 0.2  # how soon Ctrl-C and progress are looked at
MAX_JOBS = 256


class WorldSettings(Model):
    """How the runs of a world happen; see :func:`bbrgym.make_world`."""

    isolation: Isolation | None = None
    timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = 60.0


class Evaluation(Model):
    """What an evaluation is asked for, beside the scenario.

    Attributes:
        world: where the runs happen, by name; where there are several, the first is what the others are compared with.
        variants: congestion controls that take the learner flows' place, one after the other.
        tunables: in natural units, for those of the variants that have them.
        seeds: each variant runs once with each.
        interval_s: between two rows of a flow in the time series.
        score_delta: weight of the RTT in the score.
        jobs: runs at once; one a core unless given.
    """

    world: Annotated[dict[str, WorldSettings], Field(min_length=1)] = Field(
        default_factory=lambda: {"ns3": WorldSettings()}
    )
    variants: Annotated[List[str], Field(min_length=1)]
    tunables: dict[str, Float] = Field(default_factory=dict)
    seeds: Annotated[List[Annotated[Whole, Field(ge=0, le=2**63 - 1)]], Field(min_length=1)] = (1,)
    interval_s: Annotated[Float, Field(ge=1e-3, le=3600)] = 0.1
    score_delta: Annotated[Float, Field(ge=0, le=100)] = 0.5
    jobs: Annotated[Whole, Field(ge=1, le=MAX_JOBS)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Evaluation:
        for name in self.world:
            if name not in world_kinds():
                raise FieldProblem("world", f"is {shown(name)}; {nearest(name, world_kinds())}")
        for index, variant in enumerate(self.variants):
            if variant not in VARIANTS:
                raise FieldProblem(f"variants[{index}]", f"is {shown(variant)}; {nearest(variant, VARIANTS)}")
        for name in ("variants", "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise FieldProblem(name, f"is {shown(list(values))}, expected each once")
        for name in self.tunables:
            if name not in TUNABLES:
                raise FieldProblem(f"tunables.{name}", f"is no tunable; {nearest(name, TUNABLES)}")
            if not any(name in VARIANTS[variant].preset for variant in self.variants):
                having = [variant.name for variant in VARIANTS.values() if name in variant.preset]
                raise FieldProblem(
                    f"tunables.{name}", f"is given, but none of the variants has it; {', '.join(having)} have"
                )
        alone = self._alone()
        if alone is not None and (self.jobs or 1) > 1:
            raise FieldProblem(
                "jobs", f"is {self.jobs}, expected 1 with world.{alone}.isolation none: one run at a time"
            )
        return self

    def jobs_at_once(self) -> int:
        """How many runs may go on at the same time."""
        return 1 if self._alone() is not None else self.jobs or os.cpu_count() or 1

    def _alone(self) -> str | None:
        """A world that runs in this process and can do so only once at a time."""
        for name, settings in self.world.items():
            kind = world_kinds()[name]
            if kind.is_alone and (settings.isolation or kind.isolation) == "none":
                return name
        return None


@dataclass(frozen=True)
class Job:
    """One run: everything its records depend on."""

    scenario: Scenario
    world: str
    variant: str
    seed: int
    settings: Evaluation

    @property
    def key(self) -> str:
        """Names the run; another scenario, world, variant, seed or setting has another key."""
        depends_on = [
            self.scenario.resolved_json(),
            self.variant,
            self.seed,
            self.world,
            self.settings.interval_s,
            self.settings.score_delta,
        ]
        digest = hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()
        return f"{self.scenario.name}-{self.world}-{self.variant}-{self.seed}-{digest[:16]}"


@dataclass(frozen=True)
class Progress:
    """How far an evaluation is.

    Attributes:
        done_s: simulated time done, of ``total_s``.
        total_s: simulated time of all runs.
        done_runs: runs finished, of ``total_runs``.
        total_runs: all runs.
    """

    done_s: float
    total_s: float
    done_runs: int
    total_runs: int


def evaluate(
    scenario: str | Path | Mapping[str, Any] | Scenario = "rtt_fairness",
    variants: Sequence[str] = ("bbr", "bbr-plus", "bbr-acd", "bbq", "bbr-pg", "bbr-pg-inv", "cubic"),
    *,
    output_dir: str | Path | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> pl.DataFrame:
    """Compares variants on a scenario.

    Args:
        scenario: as :func:`bbrgym.load_scenario` takes it; its learner flows get the variants.
        variants: their names, see ``bbrgym.VARIANTS``.
        output_dir: run folder to write; without it nothing is written.
        resume: keep the finished runs that ``output_dir`` already holds.
        on_progress: called now and then, in the caller's thread.
        **settings: the other fields of :class:`Evaluation`: world (a name, a list of names, or a mapping from names
            to settings), tunables, seeds, interval_s, score_delta, jobs.

    Returns:
        The rows of summary.parquet: one per world, variant, seed and flow.

    Raises:
        ScenarioError, ConfigError: what was asked for is wrong.
        WorldError: a run broke; finished runs are kept in ``output_dir``.
    """
    loaded = load_scenario(scenario)
    asked = parse_settings({"variants": variants, **settings})
    jobs = plan(loaded, asked)
    folder = None
    if output_dir is not None:
        folder = RunFolder(Path(output_dir))
        folder.open(resume=resume)
        folder.write_text("config.yaml", config_text(loaded, asked))
    records = _run_all(jobs, asked, folder, on_progress)
    summary = pl.concat([record.summary for record in records])
    if folder is not None:
        timeseries = pl.concat([record.timeseries for record in records])
        folder.write_table("summary.parquet", summary)
        folder.write_table("timeseries.parquet", timeseries)
        folder.write_timing(pl.concat([record.timing for record in records]))
        folder.write_text("summary.txt", tables.summary_text(summary))
        plots.write_figures(folder.path / "figures", summary, timeseries)
    return summary


def parse_settings(fields: Mapping[str, Any]) -> Evaluation:
    """Checks what an evaluation is asked for; a single variant, seed or world stands for itself.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    fields = dict(fields)
    for name in ("variants", "seeds"):
        if isinstance(fields.get(name), str | int):
            fields[name] = [fields[name]]
    fields["world"] = _world_settings(fields.get("world", "ns3"))
    try:
        return Evaluation.model_validate(fields)
    except ValidationError as error:
        path, problem = first_problem(error, Evaluation)
        raise ConfigError(f"{path}: {problem}") from None


def _world_settings(world: Any) -> Any:
    """Settings by name, for one world's name or a list of them."""
    names = [world] if isinstance(world, str) else world
    if not isinstance(names, list | tuple):
        return world
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"world: is {shown(world)}, expected a world's name or a list of them")
    if len(set(names)) < len(names):
        raise ConfigError(f"world: is {shown(world)}, expected each once")
    return {name: {} for name in names}


def config_text(scenario: Scenario, settings: Evaluation) -> str:
    """The run folder's config.yaml."""
    config = {
        "scenario": scenario.model_dump(mode="json", exclude_none=True),
        **settings.model_dump(mode="json"),
    }
    return yaml.safe_dump(config, sort_keys=False)


def plan(scenario: Scenario, settings: Evaluation) -> list[Job]:
    """The runs, in the order of the records."""
    if len(settings.variants) > 1 and not any(flow.role == "learner" for flow in scenario.flows):
        raise ConfigError(
            f"variants: {list(settings.variants)} given, but scenario {scenario.name} has no flow of role learner to "
            "take them, expected one variant or such a flow"
        )
    return [
        Job(fixed.assign(scenario, variant, settings.tunables), world, variant, seed, settings)
        for world in settings.world
        for variant in settings.variants
        for seed in settings.seeds
    ]


# ---- running ------------------------------------------------------------------------------------------


def _run_all(
    jobs: list[Job], settings: Evaluation, folder: RunFolder | None, on_progress: Callable[[Progress], None] | None
) -> list[RunRecord]:
    now_s = {index: job.scenario.duration_s if _is_kept(job, folder) else 0.0 for index, job in enumerate(jobs)}
    total_s = sum(job.scenario.duration_s for job in jobs)
    stop = threading.Event()

    def run(index: int) -> RunRecord:
        return _run_or_load(jobs[index], folder, stop, lambda at_s: now_s.__setitem__(index, at_s))

    with ThreadPoolExecutor(settings.jobs_at_once(), thread_name_prefix="bbrgym-run") as pool:
        futures = [pool.submit(run, index) for index in range(len(jobs))]
        pending: set[Future[RunRecord]] = set(futures)
        try:
            while pending:
                done, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()  # raises what broke the run
                if on_progress is not None:
                    finished = len(jobs) - len(pending)
                    on_progress(Progress(sum(now_s.values()), total_s, finished, len(jobs)))
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _is_kept(job: Job, folder: RunFolder | None) -> bool:
    return folder is not None and folder.has_job(job.key)


class _Stopped(Exception):
    """Another run broke, or the user wants to stop."""


def _run_or_load(
    job: Job, folder: RunFolder | None, stop: threading.Event, report: Callable[[float], None]
) -> RunRecord:
    if folder is not None and folder.has_job(job.key):
        return folder.load_job(job.key)
    record = run_job(job, stop, report)
    if folder is not None:
        folder.store_job(job.key, record)
    return record


def run_job(job: Job, stop: threading.Event | None = None, report: Callable[[float], None] | None = None) -> RunRecord:
    """Runs one job to its end; ``report`` is called with the simulated time after each interval."""
    how = job.settings.world[job.world]
    flow_rows: list[npt.NDArray[np.float64]] = []
    link_rows: list[npt.NDArray[np.float64]] = []
    times_s: list[float] = []
    clock = _Clock()
    with make_world(job.world, job.scenario, seed=job.seed, isolation=how.isolation, timeout_s=how.timeout_s) as world:
        with clock:  # once more, since the first reset starts a worker and loads the engine
            world.reset()
        while not world.done:
            if stop is not None and stop.is_set():
                raise _Stopped
            with clock:
                world.advance(job.settings.interval_s)
            times_s.append(world.now_s)
            flow_rows.append(world.flow_stats().copy())
            link_rows.append(world.link_stats().copy())
            if report is not None:
                report(times_s[-1])
        return RunRecord(
            _summary(job, world),
            _timeseries(job, world, times_s, flow_rows, link_rows),
            _timing(job, times_s[-1], clock.elapsed_s),
        )


class _Clock:
    """Sums the wall time of the blocks it is entered for."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def __enter__(self) -> None:
        self._began_s = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.elapsed_s += time.perf_counter() - self._began_s


def _summary(job: Job, world: World) -> pl.DataFrame:
    flow_table, link_row = world.summary()
    flow_column = dict(zip(world.flow_summary_fields, flow_table.T, strict=True))
    link_value = dict(zip(world.link_summary_fields, link_row.tolist(), strict=True))
    flows = job.scenario.resolved().flows
    rtt_ms = np.array([flow.rtt_ms for flow in flows])
    scores = flow_scores(
        flow_column["goodput_mbps"],
        flow_column["fair_share_mbps"],
        flow_column["stop_s"] - flow_column["start_s"],
        flow_column["rtt_mean_ms"],
        rtt_ms,
        mss_bytes=job.scenario.mss_bytes,
        delta=job.settings.score_delta,
    )
    columns: dict[str, Any] = {
        **_run_columns(job, len(flows)),
        "flow": [flow.name for flow in flows],
        "cc": [flow.cc for flow in flows],
        "role": [flow.role for flow in flows],
        "rtt_ms": rtt_ms,
        "utilisation": [link_value["utilisation"]] * len(flows),
        "jain": [link_value["jain"]] * len(flows),
        "score": [run_score(scores, [flow.role for flow in flows])] * len(flows),
    }
    columns |= {name: flow_column[name] for name in SUMMARY_SCHEMA if name not in columns}
    return pl.DataFrame(columns, schema_overrides=SUMMARY_SCHEMA).select(SUMMARY_SCHEMA.names())


def _timeseries(
    job: Job,
    world: World,
    times_s: list[float],
    flow_rows: list[npt.NDArray[np.float64]],
    link_rows: list[npt.NDArray[np.float64]],
) -> pl.DataFrame:
    names = [flow.name for flow in job.scenario.resolved().flows]
    flow_columns = np.concatenate(flow_rows).T
    link_columns = np.repeat(np.array(link_rows), len(names), axis=0).T
    columns: dict[str, Any] = {
        **_run_columns(job, len(names) * len(times_s)),
        "time_s": np.repeat(times_s, len(names)),
        "flow": names * len(times_s),
        **dict(zip(world.flow_fields, flow_columns, strict=True)),
        **{f"link_{field}": column for field, column in zip(world.link_fields, link_columns, strict=True)},
    }
    return pl.DataFrame(columns, schema_overrides={"seed": pl.Int64})


def _timing(job: Job, simulated_s: float, wall_s: float) -> pl.DataFrame:
    values = (job.scenario.name, job.world, job.variant, job.seed, simulated_s, wall_s)
    return pl.DataFrame([values], schema=TIMING_SCHEMA, orient="row")


def _run_columns(job: Job, rows: int) -> dict[str, list[Any]]:
    values = (job.scenario.name, job.world, job.variant, fixed.NAME, job.seed)
    return {column: [value] * rows for column, value in zip(RUN_COLUMNS, values, strict=True)}
