# SPDX-License-Identifier: GPL-2.0-only
"""Runs the jobs of a sweep, whatever of them a folder already holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import yaml
from pydantic import Field, ValidationError

from bbrgym.errors import ConfigError
from bbrgym.schema import Float, List, Model, first_problem, shown
from bbrgym.sweeps.folder import SweepFolder
from bbrgym.sweeps.launchers import Launcher, make_launcher
from bbrgym.sweeps.outcome import write_outcome
from bbrgym.sweeps.plan import Job, Options, check, jobs_of, key_of, parse_options
from bbrgym.sweeps.results import STATUS, Results, collect
from bbrgym.sweeps.search import SearchSettings, Study, parse_search
from bbrgym.sweeps.task import End, Task

_SEARCH_MAY_GROW = ("n_trials",)


class Sweep(Model):
    """What a sweep is asked for; sweep.yaml holds it.

    Attributes:
        command: of the jobs.
        overrides: of their options, those that have several values among them.
        hparams_search: what is searched, if anything.
        job_timeout_s: after which a job is ended.
    """

    command: Literal["train", "evaluate"] = "train"
    overrides: List[str] = ()
    hparams_search: dict[str, Any] | None = None
    job_timeout_s: Annotated[Float, Field(gt=0, le=1e9)] = 604_800


@dataclass(frozen=True)
class Progress:
    """How far a sweep is: jobs that have ended, how many of them are not done, and how many there are."""

    ended: int
    failed: int
    total: int


def run_sweep(
    asked: Sweep,
    launcher: Mapping[str, Any],
    *,
    sweep_dir: Path,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    command: str | None = None,
) -> Results:
    """Runs a sweep, or goes on with one, and writes its outcome.

    Args:
        asked: for what.
        launcher: name and settings.
        sweep_dir: folder to write.
        resume: keep the finished jobs that it holds, and go on with the others.
        on_progress: called whenever a job has ended.
        command: shown in the report.

    Raises:
        ScenarioError, ConfigError: what was asked for is wrong.
        SweepError: the launcher could not go on. That jobs fail is no error here: see `Results.failed`.
    """
    options = parse_options(asked.overrides)
    where = make_launcher(launcher)
    search = None
    if asked.hparams_search is not None:
        search, options = parse_search(asked.hparams_search, options)
    elif options.open:
        key = next(iter(options.open))
        raise ConfigError(f"{key}: is an interval, from which only a search takes values, expected hparams_search=own")
    folder = SweepFolder(sweep_dir)
    if search is None:
        check(jobs_of(asked.command, options))
    folder.open(resume=resume)
    try:
        _refuse_another_search(folder, asked)
        folder.write_asked(asked.model_dump(mode="json"))
        runner = _Runner(asked, folder, where, on_progress)
        jobs = runner.all_of(options) if search is None else runner.searched(search, options)
        higher = search is None or search.direction == "maximize"
        results = collect(folder, jobs, search.metric if search else None, is_higher_better=higher)
        text = yaml.safe_dump({**asked.model_dump(mode="json"), "launcher": dict(launcher)}, sort_keys=False)
        write_outcome(folder, results, text, command)
    finally:
        folder.close()
    return results


def parse_sweep(fields: Mapping[str, Any]) -> Sweep:
    """Checks what a sweep is asked for.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    try:
        return Sweep.model_validate(dict(fields))
    except ValidationError as error:
        path, problem = first_problem(error, Sweep)
        raise ConfigError(f"{path}: {problem}") from None


def _refuse_another_search(folder: SweepFolder, asked: Sweep) -> None:
    """A study can grow, but not change."""
    if not (folder.path / "study.db").exists():
        return
    before, now = folder.read_asked().get("hparams_search") or {}, asked.hparams_search or {}
    for name in {**before, **now}:
        if name not in _SEARCH_MAY_GROW and before.get(name) != now.get(name):
            raise ConfigError(
                f"hparams_search.{name}: is {shown(now.get(name))}, was {shown(before.get(name))} in "
                f"{str(folder.path)!r}; expected a new sweep_dir, or resume=true without other options"
            )


class _Runner:
    """Runs jobs that are not done yet."""

    def __init__(
        self, asked: Sweep, folder: SweepFolder, launcher: Launcher, on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._asked = asked
        self._folder = folder
        self._launcher = launcher
        self._on_progress = on_progress
        self._ended = self._failed = self._total = 0

    def all_of(self, options: Options) -> list[Job]:
        """Every combination."""
        jobs = jobs_of(self._asked.command, options)
        self._total = len(jobs)
        self._run(jobs)
        return jobs

    def searched(self, settings: SearchSettings, options: Options) -> list[Job]:
        """Every combination, of every trial."""
        jobs: list[Job] = []
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

    def _value(self, jobs: Sequence[Job], metric: str) -> float | None:
        """The mean of a metric; None where a job failed.

        Raises:
            ConfigError: the jobs have no such number.
        """
        summary = collect(self._folder, jobs).summary
        if not (summary[STATUS] == "done").all():
            return None
        if metric not in summary.columns or not summary[metric].dtype.is_numeric():
            numbers = [name for name in summary.columns if summary[name].dtype.is_numeric()]
            raise ConfigError(f"hparams_search.metric: is {metric!r}, expected one of {', '.join(numbers)}")
        mean = summary[metric].cast(pl.Float64).mean()
        return float(mean) if isinstance(mean, float) else None

    def _run(self, jobs: Sequence[Job]) -> None:
        waiting = [job for job in jobs if not self._is_done(job)]
        self._ended += len(jobs) - len(waiting)
        self._show()
        if not waiting:
            return
        with closing(self._ends([self._task(job) for job in waiting])) as ends:
            for end in ends:
                self._ended += 1
                self._failed += end.status != "done"
                if end.status == "lost":  # nobody else could write it down
                    self._folder.write_state(end.name, asdict(end))
                self._show()

    def _ends(self, tasks: Sequence[Task]) -> Generator[End]:
        yield from self._launcher.run(tasks)

    def _is_done(self, job: Job) -> bool:
        state = self._folder.read_state(job.name)
        if state and tuple(state["overrides"]) != job.overrides:
            raise ConfigError(
                f"sweep_dir: {str(self._folder.path)!r} holds job {job.name} with {' '.join(state['overrides'])}, "
                f"expected the same options, not {' '.join(job.overrides)}"
            )
        return state.get(STATUS) == "done"

    def _show(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(self._ended, self._failed, self._total))

    # ---- tasks -------------------------------------------------------------------------------------------------

    def _task(self, job: Job) -> Task:
        return Task(
            name=job.name,
            overrides=job.overrides,
            arguments=(job.command, *job.overrides, *self._given(job)),
            log=self._folder.log(job.name),
            state=self._folder.state(job.name),
            cwd=Path.cwd(),
            timeout_s=self._asked.job_timeout_s,
        )

    def _given(self, job: Job) -> Iterator[str]:
        """What a sweep gives a job beside its own options."""
        options = {key_of(text): text for text in job.overrides}
        threads = "threads" if job.command == "train" else "jobs"
        if threads not in options:
            yield f"{threads}={self._launcher.threads}"
        if options.get("logger") == "logger=wandb":
            own = {"logger.group": self._folder.path.name, "logger.run_name": job.name}
            yield from (f"{key}={_quoted(value)}" for key, value in own.items() if key not in options)
        yield f"output_dir={_quoted(str(self._folder.job(job.name)))}"
        yield "resume=true"


def _quoted(text: str) -> str:
    """A text as a value in Hydra's grammar."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
