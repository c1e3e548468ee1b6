# SPDX-License-Identifier: GPL-2.0-only
"""Runs the jobs of a sweep that its folder does not hold yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import Field

from bbrgym.compose import key_of, override_of
from bbrgym.errors import ConfigError
from bbrgym.schema import Float, List, Model, shown, validated
from bbrgym.sweeps.launchers import make_launcher
from bbrgym.sweeps.launchers.launcher import Launcher
from bbrgym.sweeps.plan import JobOptions, SweepJob, check, jobs_of, parse_options
from bbrgym.sweeps.results import STATUS, SweepResults, collect
from bbrgym.sweeps.search import SearchSettings, Study, parse_search
from bbrgym.sweeps.sweep_folder import SweepFolder
from bbrgym.sweeps.sweep_report import write_sweep_report
from bbrgym.sweeps.task import JobEnd, Task

_SEARCH_MAY_GROW = ("n_trials",)  # fields of a search that may differ in a resumed sweep


class Sweep(Model):
    """Request of a sweep, the content of its config.yaml.

    Attributes:
        command: of the jobs.
        overrides: options of the jobs in Hydra's grammar; several values of one make several jobs.
        hparams_search: the fields of `SearchSettings`. Default: no search.
        job_timeout_s: wall time in seconds after which a job is ended.
        launcher: where the jobs run: `_target_` and the fields of a `Launcher`, or the name of a file in conf/launcher.
    """

    command: Literal["train", "evaluate"] = "train"
    overrides: List[str] = ()
    hparams_search: dict[str, Any] | None = None
    job_timeout_s: Annotated[Float, Field(gt=0, le=1e9)] = 604_800
    launcher: str | dict[str, Any] = "joblib"


@dataclass(frozen=True)
class SweepProgress:
    """Progress of a sweep.

    Attributes:
        ended: jobs that have ended, of ``total``.
        failed: those of them that are not done.
        total: number of all jobs.
    """

    ended: int
    failed: int
    total: int


def run_sweep(
    asked: Sweep,
    *,
    sweep_dir: Path,
    resume: bool = False,
    is_trusted: bool = True,
    on_progress: Callable[[SweepProgress], None] | None = None,
    command: str | None = None,
) -> SweepResults:
    """Run a sweep, or go on with one, and write its report.

    Args:
        asked: request.
        sweep_dir: folder to write.
        resume: keep the finished jobs in ``sweep_dir`` and go on with the others.
        is_trusted: whether the launcher's class may be of any module, see `bbrgym.targets`.
        on_progress: called whenever a job has ended.
        command: shown in the report.

    Returns:
        The results; jobs that failed are no error but listed there.

    Raises:
        ScenarioError, ConfigError: the request is wrong, or the folder is in use or holds another search.
        MissingExtraError: the launcher or the search needs a package that is not installed.
        SweepError: the launcher could not go on.
        OSError: a file cannot be written; finished jobs are kept.
    """
    options = parse_options(asked.overrides)
    launcher = make_launcher(asked.launcher, is_trusted=is_trusted)
    search = None
    if asked.hparams_search is not None:
        search, options = parse_search(asked.hparams_search, options)
    elif options.open:
        key = next(iter(options.open))
        raise ConfigError(f"{key}: is an interval, from which only a search takes values, expected hparams_search=own")
    folder = SweepFolder(sweep_dir)
    if search is None:
        check(jobs_of(asked.command, options))
    with folder.opened(resume=resume):
        _refuse_another_search(folder, asked)
        folder.write_config(asked.model_dump(mode="json"))
        runner = _Runner(asked, folder, launcher, on_progress)
        jobs = runner.all_of(options) if search is None else runner.searched(search, options)
        higher = search is None or search.direction == "maximize"
        results = collect(folder, jobs, search.metric if search else None, is_higher_better=higher)
        write_sweep_report(folder, results, command)
    return results


def parse_sweep(fields: Mapping[str, Any]) -> Sweep:
    """Check the request of a sweep.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    return validated(Sweep, dict(fields))


def _refuse_another_search(folder: SweepFolder, asked: Sweep) -> None:
    """Compare the search with the one that the folder holds; it may have more trials.

    Raises:
        ConfigError: names what else differs.
    """
    if not (folder.path / "study.db").exists():
        return
    before, now = folder.read_request(parse_sweep).hparams_search or {}, asked.hparams_search or {}
    for name in {**before, **now}:
        if name not in _SEARCH_MAY_GROW and before.get(name) != now.get(name):
            raise ConfigError(
                f"hparams_search.{name}: is {shown(now.get(name))}, was {shown(before.get(name))} in "
                f"{str(folder.path)!r}; expected the same, or a new sweep_dir"
            )


class _Runner:
    """Runs the jobs that are not done yet.

    Args:
        asked: request.
        folder: open.
        launcher: of the jobs.
        on_progress: see `run_sweep`.
    """

    def __init__(
        self, asked: Sweep, folder: SweepFolder, launcher: Launcher, on_progress: Callable[[SweepProgress], None] | None
    ) -> None:
        self._asked = asked
        self._folder = folder
        self._launcher = launcher
        self._on_progress = on_progress
        self._ended = self._failed = self._total = 0

    def all_of(self, options: JobOptions) -> list[SweepJob]:
        """Run a job for every combination of options, and return all jobs."""
        jobs = jobs_of(self._asked.command, options)
        self._total = len(jobs)
        self._run(jobs)
        return jobs

    def searched(self, settings: SearchSettings, options: JobOptions) -> list[SweepJob]:
        """Run a job for every trial of a search and every combination of options, and return all jobs.

        Raises:
            ConfigError: the jobs have no such metric.
        """
        jobs: list[SweepJob] = []
        self._total = settings.n_trials * math.prod(len(values) for values in options.swept.values())
        study = Study(self._folder.path / "study.db", settings)
        with closing(study):
            for batch in study.batches():
                of_trials = [jobs_of(self._asked.command, options, trial.parameters, trial.name) for trial in batch]
                check(job for of_trial in of_trials for job in of_trial)
                self._run([job for of_trial in of_trials for job in of_trial])
                for trial, of_trial in zip(batch, of_trials, strict=True):
                    study.tell(trial, self._value(of_trial, settings.metric))
                jobs += [job for of_trial in of_trials for job in of_trial]
        return jobs

    def _value(self, jobs: Sequence[SweepJob], metric: str | None) -> float | None:
        """Return the mean of a metric over jobs; None if one failed.

        Raises:
            ConfigError: the jobs have no such metric.
        """
        summary = collect(self._folder, jobs).summary
        if not (summary[STATUS] == "done").all():
            return None
        metric = metric or ("best_score" if self._asked.command == "train" else "score")
        if metric not in summary.columns or not summary[metric].dtype.is_numeric():
            numbers = [name for name in summary.columns if summary[name].dtype.is_numeric()]
            raise ConfigError(f"hparams_search.metric: is {metric!r}, expected one of {', '.join(numbers)}")
        mean = summary[metric].cast(pl.Float64).mean()
        return float(mean) if isinstance(mean, float) else None

    def _run(self, jobs: Sequence[SweepJob]) -> None:
        waiting = [job for job in jobs if not self._is_done(job)]
        self._ended += len(jobs) - len(waiting)
        self._show()
        if not waiting:
            return
        with closing(self._ends([self._task(job) for job in waiting])) as ends:
            for end in ends:
                self._ended += 1
                self._failed += end.status != "done"
                if end.status == "lost":  # then its process did not write its end
                    self._folder.write_state(end.name, asdict(end))
                self._show()

    def _ends(self, tasks: Sequence[Task]) -> Generator[JobEnd]:
        yield from self._launcher.run(tasks)

    def _is_done(self, job: SweepJob) -> bool:
        state = self._folder.read_state(job.name)
        overrides = state.get("overrides", [])
        if state and tuple(overrides) != job.overrides:
            raise ConfigError(
                f"sweep_dir: {str(self._folder.path)!r} holds job {job.name} with {' '.join(overrides)}, "
                f"expected the same options, not {' '.join(job.overrides)}"
            )
        return state.get(STATUS) == "done"

    def _show(self) -> None:
        if self._on_progress is not None:
            self._on_progress(SweepProgress(self._ended, self._failed, self._total))

    # ---- tasks -------------------------------------------------------------------------------------------------

    def _task(self, job: SweepJob) -> Task:
        return Task(
            name=job.name,
            overrides=job.overrides,
            arguments=(job.command, *job.overrides, *self._given(job)),
            log=self._folder.log(job.name),
            state=self._folder.state(job.name),
            cwd=Path.cwd(),
            timeout_s=self._asked.job_timeout_s,
        )

    def _given(self, job: SweepJob) -> Iterator[str]:
        """Yield the options of a job that the sweep sets."""
        options = {key_of(text): text for text in job.overrides}
        threads = "threads" if job.command == "train" else "jobs"
        if threads not in options:
            yield f"{threads}={self._launcher.threads}"
        if options.get("logger") == "logger=wandb":
            own = {"logger.group": self._folder.path.name, "logger.run_name": job.name}
            yield from (override_of(key, value) for key, value in own.items() if key not in options)
        yield override_of("output_dir", str(self._folder.job(job.name)))
        yield "resume=true"
