# SPDX-License-Identifier: GPL-2.0-only
"""Runs the experiments of a reproduction as jobs of a launcher, each in its own process and run folder.

    DIR/experiments/<paper>-<id>/    run folder of each, with the job's log and end: job.log, job.json

Their finished runs are then kept in DIR as if they had run there, so that DIR/config.yaml resumes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bbrgym.config.overrides import override_of
from bbrgym.errors import ConfigError
from bbrgym.papers.reproduction import FAILURES, PreparedReproduction, ReproductionFolder
from bbrgym.papers.request import Reproduction

#: Runs jobs of `bbrgym reproduce`, given as overrides by name, in folders of these names below a folder.
Launch = Callable[[Path, Mapping[str, Sequence[str]]], None]


def launch_experiments(prepared: PreparedReproduction, folder: ReproductionFolder, launch: Launch) -> dict[str, str]:
    """Run what the folder does not hold yet; `PreparedReproduction.run` then finds the runs that are finished.

    Returns:
        Why the other runs are not finished, by their keys.

    Raises:
        ConfigError: the options of a job, or of the launcher, are wrong.
        SweepError: the launcher gave up.
    """
    folder.write_config(prepared.config)
    below = folder.path.absolute() / "experiments"
    names = [one.experiment.name for one in prepared.experiments]
    sources = dict(zip(names, prepared.asked.experiment or names, strict=True))
    running = [one for one in prepared.experiments if not all(folder.has_job(case.job.key) for case in one.cases)]
    jobs = {one.experiment.name: _overrides(sources[one.experiment.name], prepared.asked) for one in running}
    if jobs:
        launch(below, {_job(name): overrides for name, overrides in jobs.items()})
    given_up: dict[str, str] = {}
    for one in running:
        job = below / _job(one.experiment.name)
        _take_over(ReproductionFolder(job), folder)
        missing = [case.job.key for case in one.cases if not folder.has_job(case.job.key)]
        reasons = _failures(job) if missing else {}
        given_up |= {key: reasons.get(key) or _end_of(job) for key in missing}
    return given_up


def _job(name: str) -> str:
    return name.replace("/", "-")


def _overrides(source: str, asked: Reproduction) -> list[str]:
    return [
        override_of("experiment", source),
        f"world=[{','.join(asked.world)}]",
        *(f"world.{world}.timeout_s={world_settings.timeout_s}" for world, world_settings in asked.world.items()),
        *([] if asked.seeds is None else [f"seeds={asked.seeds}"]),
        *([] if asked.stack is None else [f"stack={asked.stack_text}"]),
        *([] if asked.recordings is None else [override_of("recordings", asked.recordings)]),
    ]


def _end_of(job: Path) -> str:
    """Return how a job ended."""
    try:
        end = ReproductionFolder(job).read_json("job.json")
        return f"{job.name} {end['status']}: {end['reason']} ({job / 'job.log'})"
    except (ConfigError, KeyError):
        return f"{job.name} did not end ({job / 'job.log'})"


def _failures(job: Path) -> dict[str, str]:
    """Return why runs of a job broke; empty where the job wrote no file, or what it wrote is damaged."""
    try:
        return ReproductionFolder(job).read_json(FAILURES)
    except (ConfigError, OSError):
        return {}


def _take_over(source: ReproductionFolder, target: ReproductionFolder) -> None:
    """Copy the finished runs of a folder into another one."""
    for name in sorted(f"jobs/{file.name}" for file in (source.path / "jobs").glob("*.parquet")):
        if not target.holds(name):
            target.copy_file(name, source)
