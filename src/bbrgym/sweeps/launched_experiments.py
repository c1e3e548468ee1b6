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
from bbrgym.errors import SweepError
from bbrgym.papers.reproduction import PreparedReproduction, Reproduction, ReproductionFolder
from bbrgym.sweeps.launchers import make_launcher
from bbrgym.sweeps.run_sweep import SweepProgress
from bbrgym.sweeps.task import Task

_TIMEOUT_S = 604_800.0  # of an experiment


def launch_experiments(
    prepared: PreparedReproduction,
    folder: ReproductionFolder,
    launcher: str | Mapping[str, Any],
    on_progress: Callable[[SweepProgress], None] | None = None,
) -> None:
    """Run what the folder does not hold yet; `PreparedReproduction.run` then finds every run finished.

    Args:
        prepared: reproduction.
        folder: open.
        launcher: see `make_launcher`.
        on_progress: called whenever an experiment has ended.

    Raises:
        ConfigError, MissingExtraError: the launcher cannot be used.
        SweepError: names the experiments that failed; what is finished is kept.
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
            failed[end.name] = f"{end.status}: {end.reason} ({_log(path, end.name)})"
        if on_progress is not None:
            on_progress(SweepProgress(number, len(failed), len(tasks)))
    for task in tasks:
        _take_over(_folder(path, task.name), path)
    if failed:
        lines = [f"  {name} {reason}" for name, reason in failed.items()]
        raise SweepError("\n".join([f"{len(failed)} of {len(tasks)} experiments are not done", *lines]))


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


def _take_over(source: Path, target: Path) -> None:
    """Copy the finished runs of a folder into another one."""
    for file in sorted((source / "jobs").glob("*.parquet")):
        if not (target / "jobs" / file.name).exists():
            write_atomically(target / "jobs" / file.name, partial(shutil.copyfile, file))
