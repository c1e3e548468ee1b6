# SPDX-License-Identifier: GPL-2.0-only
"""Launches jobs through SLURM, with submitit; needs the extra `slurm`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from bbrgym.errors import SweepError, one_line
from bbrgym.schema import Float, Whole
from bbrgym.sweeps.launchers.launcher import Launcher
from bbrgym.sweeps.task import JobEnd, Task, run_task

_GONE_S = 60.0  # for a cancelled job of this machine to end


class Resumable:
    """A job that is put in the queue again after a preemption or timeout, and goes on from its run folder."""

    def __call__(self, task: Task) -> JobEnd:
        return run_task(task)

    def checkpoint(self, task: Task) -> Any:
        """Return the submission that submitit puts in the queue again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)


class SubmititLauncher(Launcher):
    """Runs jobs as an array of SLURM, or in processes of this machine.

    Attributes:
        cluster: slurm, or local for processes of this machine.
        n_jobs: jobs at once, at most.
        cpus_per_task: CPUs of each job.
        mem_gb: memory of each job.
        timeout_min: wall time of each job, in minutes.
        max_timeouts: number of times that a job is put in the queue again after that.
        wait_s: wall time for all jobs together, their time in the queue included, in seconds.
        poll_s: time between two looks at the queue, in seconds.
        parameters: other parameters of submitit's executor.
    """

    library = ("submitit", "slurm")

    cluster: Literal["slurm", "local"] = "slurm"
    n_jobs: Annotated[Whole, Field(ge=1, le=10_000)] = 16
    cpus_per_task: Annotated[Whole, Field(ge=1, le=256)] = 2
    mem_gb: Annotated[Float, Field(gt=0)] = 4
    timeout_min: Annotated[Whole, Field(ge=1)] = 1440
    max_timeouts: Annotated[Whole, Field(ge=0)] = 3
    wait_s: Annotated[Float, Field(gt=0)] = 604_800
    poll_s: Annotated[Float, Field(gt=0)] = 5.0
    parameters: dict[str, Any] = Field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Return the CPUs of each job."""
        return self.cpus_per_task

    def run(self, tasks: Sequence[Task]) -> Iterator[JobEnd]:
        """See `Launcher`."""
        jobs: dict[Any, Task] = {}
        waiting = list(tasks)
        executor = self._executor(tasks[0].log.parent / "submitit") if tasks else None
        until_s = time.monotonic() + self.wait_s
        try:
            while executor is not None and (jobs or waiting):
                free = self.n_jobs - len(jobs)
                if self.cluster == "slurm":  # which limits the jobs at once itself
                    free = len(waiting)
                begun, waiting = waiting[:free], waiting[free:]
                if begun:
                    jobs |= dict(zip(executor.map_array(Resumable(), begun), begun, strict=True))
                ended = [job for job in jobs if job.done()]
                for job in ended:
                    yield _end_of(job, jobs.pop(job))
                if not ended and time.monotonic() > until_s:
                    raise SweepError(f"{len(jobs)} jobs did not end within launcher.wait_s, {self.wait_s:g} s")
                if jobs and not ended:
                    time.sleep(self.poll_s)  # submitit has no call that waits for the next end
        finally:
            _cancel(list(jobs))

    def _executor(self, folder: Path) -> Any:
        import submitit

        timeouts = {"slurm_max_num_timeout": self.max_timeouts} if self.cluster == "slurm" else {}
        executor = submitit.AutoExecutor(folder, cluster=self.cluster, **timeouts)
        arrays = {"slurm_array_parallelism": self.n_jobs} if self.cluster == "slurm" else {}
        executor.update_parameters(
            name="bbrgym",
            cpus_per_task=self.cpus_per_task,
            mem_gb=self.mem_gb,
            timeout_min=self.timeout_min,
            **arrays,
            **self.parameters,
        )
        return executor


def _end_of(job: Any, task: Task) -> JobEnd:
    """Return the end of a job; lost, if it left no result."""
    import submitit

    try:
        end: JobEnd = job.result()
    except (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError, OSError) as error:
        reason = one_line(error)[:300]
        return JobEnd(task.name, "lost", None, 0.0, task.overrides, f"{reason} ({job.paths.stderr})")
    return end


def _cancel(jobs: Sequence[Any]) -> None:
    """Cancel jobs; wait for the end of those on this machine."""
    for job in jobs:
        job.cancel(check=False)
    for job in jobs:
        process = getattr(job, "_process", None)
        if process is not None:
            process.wait(_GONE_S)
