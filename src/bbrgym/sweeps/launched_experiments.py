# SPDX-License-Identifier: GPL-2.0-only
"""Runs the experiments of a reproduction as jobs of a launcher, each in its own process and run folder.

    DIR/experiments/<paper>-<id>/    run folder of each
    DIR/logs/<paper>-<id>.log        its output

Their finished runs are then kept in DIR as if they had run there, so that DIR/config.yaml resumes them all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bbrgym.atomic_files import write_atomically
from bbrgym.compose import override_of
from bbrgym.errors import ConfigError
from bbrgym.papers.reproduction import PreparedReproduction
from bbrgym.papers.reproduction_folder import ReproductionFolder
from bbrgym.papers.request import Reproduction
from bbrgym.sweeps.launchers import make_launcher
from bbrgym.sweeps.run_sweep import SweepProgress
from bbrgym.sweeps.task import Task

_TIMEOUT_S = 604_800.0  # of an experiment


def launch_experiments(
    prepared: PreparedReproduction,
    folder: ReproductionFolder,
    launcher: str | Mapping[str, Any],
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> dict[str, str]:
    """Run what the folder does not hold yet; `PreparedReproduction.run` then finds the runs that are finished.

    Args:
        prepared: reproduction.
        folder: open.
        launcher: see `make_launcher`.
        on_progress: called whenever an experiment has ended.

    Returns:
        Why the other runs are not finished, by their keys.

    Raises:
        ConfigError, MissingExtraError: the launcher cannot be used.
        SweepError: the launcher could not go on.
    """
    runner = make_launcher(launcher)
    folder.write_config(prepared.config)
    path = folder.path.absolute()
    names = [one.experiment.name for one in prepared.experiments]
    sources = prepared.asked.experiment or names
    tasks = [
        _task(one.experiment.name, source, prepared.asked, path, runner.threads)
        for one, source in zip(prepared.experiments, sources, strict=True)
        if one.cases
    ]
    failed = {}
    for number, end in enumerate(runner.run(tasks), start=1):
        if end.status != "done":
            failed[end.name] = f"{end.name} {end.status}: {end.reason} ({_log(path, end.name)})"
        if on_progress is not None:
            on_progress(SweepProgress(number, len(failed), len(tasks)))
    given_up: dict[str, str] = {}
    for one in prepared.experiments:
        job = _job(one.experiment.name)
        if one.cases:
            _take_over(_folder(path, job), path)
        if job in failed:
            reasons = _failures(_folder(path, job))
            keys = [case.job.key for case in one.cases if not folder.has_job(case.job.key)]
            given_up |= {key: reasons.get(key, failed[job]) for key in keys}
    return given_up


def _job(name: str) -> str:
    return name.replace("/", "-")


def _folder(path: Path, job: str) -> Path:
    return path / "experiments" / job


def _log(path: Path, job: str) -> Path:
    return path / "logs" / f"{job}.log"


def _task(name: str, source: str, asked: Reproduction, path: Path, threads: int) -> Task:
    job = _job(name)
    overrides = [
        override_of("experiment", source),
        f"world=[{','.join(asked.world)}]",
        *(f"world.{world}.timeout_s={how.timeout_s}" for world, how in asked.world.items()),
        *([] if asked.seeds is None else [f"seeds={asked.seeds}"]),
        *([] if asked.stack is None else [f"stack={asked.stack_text}"]),
        *([] if asked.recordings is None else [override_of("recordings", asked.recordings)]),
        f"jobs={threads}",
    ]
    arguments = ["reproduce", *overrides, override_of("output_dir", str(_folder(path, job))), "resume=true"]
    return Task(
        name=job,
        overrides=tuple(overrides),
        arguments=tuple(arguments),
        log=_log(path, job),
        state=path / "states" / f"{job}.json",
        cwd=Path.cwd(),
        timeout_s=_TIMEOUT_S,
    )


def _failures(job_folder: Path) -> dict[str, str]:
    """Return why runs of a job broke; empty where the job wrote no file, or what it wrote is damaged."""
    try:
        return ReproductionFolder(job_folder).read_failures()
    except (ConfigError, OSError):
        return {}


def _take_over(source: Path, target: Path) -> None:
    """Copy the finished runs of a folder into another one."""
    for file in sorted((source / "jobs").glob("*.parquet")):
        if not (target / "jobs" / file.name).exists():
            write_atomically(target / "jobs" / file.name, partial(shutil.copyfile, file))
