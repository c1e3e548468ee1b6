# SPDX-License-Identifier: GPL-2.0-only
"""Jobs through SLURM; needs the extra `slurm`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from bbrgym.errors import SweepError
from bbrgym.schema import Float, Model, Whole
from bbrgym.sweeps.launchers import needs
from bbrgym.sweeps.task import End, Task, run_task

_GONE_S = 60.0  # for a job of this machine to end once it was told to


class Settings(Model):
    """What can be set.

    Attributes:
        cluster: slurm, or processes of this machine.
        n_jobs: at once.
        cpus_per_task, mem_gb, timeout_min: of a job.
        max_timeouts: so often a job is put in the queue again.
        wait_s: for all jobs together.
        poll_s: between two looks at the queue.
        parameters: others of submitit's.
    """

    cluster: Literal["slurm", "local"] = "slurm"
    n_jobs: Annotated[Whole, Field(ge=1, le=10_000)] = 16
    cpus_per_task: Annotated[Whole, Field(ge=1, le=256)] = 2
    mem_gb: Annotated[Float, Field(gt=0)] = 4
    timeout_min: Annotated[Whole, Field(ge=1)] = 1440
    max_timeouts: Annotated[Whole, Field(ge=0)] = 3
    wait_s: Annotated[Float, Field(gt=0)] = 604_800
    poll_s: Annotated[Float, Field(gt=0)] = 5.0
    parameters: dict[str, Any] = Field(default_factory=dict)


def launcher(settings: Settings) -> SubmititLauncher:
    """The launcher."""
    return SubmititLauncher(settings)


class Resumable:
    """A job that goes on in the queue where it was preempted or timed out: its run folder says from where."""

    def __call__(self, task: Task) -> End:
        return run_task(task)

    def checkpoint(self, task: Task) -> Any:
        """What submitit puts into the queue."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)


class SubmititLauncher:
    """See `Launcher`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.threads = settings.cpus_per_task

    def run(self, tasks: Sequence[Task]) -> Iterator[End]:
        """See `Launcher`."""
        jobs: dict[Any, Task] = {}
        waiting = list(tasks)
        executor = self._executor(tasks[0].log.parent / "submitit") if tasks else None
        until_s = time.monotonic() + self._settings.wait_s
        try:
            while executor is not None and (jobs or waiting):
                free = self._settings.n_jobs - len(jobs)
                if self._settings.cluster == "slurm":  # which keeps to n_jobs by itself
                    free = len(waiting)
                begun, waiting = waiting[:free], waiting[free:]
                if begun:
                    jobs |= dict(zip(executor.map_array(Resumable(), begun), begun, strict=True))
                ended = [job for job in jobs if job.done()]
                for job in ended:
                    yield _end_of(job, jobs.pop(job))
                if not ended and time.monotonic() > until_s:
                    raise SweepError(
                        f"{len(jobs)} jobs did not end within launcher.wait_s, {self._settings.wait_s:g} s"
                    )
                if jobs and not ended:
                    time.sleep(self._settings.poll_s)  # submitit tells of an end only who asks
        finally:
            _cancel(list(jobs))

    def _executor(self, folder: Path) -> Any:
        try:
            import submitit
        except ModuleNotFoundError as error:
            raise needs("submitit", error, "slurm") from error
        settings = self._settings
        timeouts = {"slurm_max_num_timeout": settings.max_timeouts} if settings.cluster == "slurm" else {}
        executor = submitit.AutoExecutor(folder, cluster=settings.cluster, **timeouts)
        arrays = {"slurm_array_parallelism": settings.n_jobs} if settings.cluster == "slurm" else {}
        executor.update_parameters(
            name="bbrgym",
            cpus_per_task=settings.cpus_per_task,
            mem_gb=settings.mem_gb,
            timeout_min=settings.timeout_min,
            **arrays,
            **settings.parameters,
        )
        return executor


def _end_of(job: Any, task: Task) -> End:
    """How a job ended; lost, where it left no result."""
    import submitit

    try:
        end: End = job.result()
    except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        return End(task.name, "lost", None, 0.0, task.overrides, f"{reason} ({job.paths.stderr})")
    return end


def _cancel(jobs: Sequence[Any]) -> None:
    """Ends what still runs; on this machine it waits for that."""
    for job in jobs:
        job.cancel(check=False)
    for job in jobs:
        process = getattr(job, "_process", None)
        if process is not None:
            process.wait(_GONE_S)
