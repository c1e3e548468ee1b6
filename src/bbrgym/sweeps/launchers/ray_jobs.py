# SPDX-License-Identifier: GPL-2.0-only
"""Launches jobs as tasks of a Ray cluster; needs the extra `ray`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field

from bbrgym.errors import SweepError, one_line
from bbrgym.ray_session import ray_session
from bbrgym.schema import Float, Whole
from bbrgym.sweeps.launchers.launcher import Launcher
from bbrgym.sweeps.task import JobEnd, Task, run_task

_POLL_S = 60.0  # between two looks at the clock
_GONE_S = 60.0  # for cancelled jobs to end, and for the result of an ended one


class RayLauncher(Launcher):
    """Runs jobs as tasks of a Ray cluster.

    Attributes:
        address: of the cluster. Default: one on this machine.
        n_jobs: jobs at once, at most.
        cpus_per_job: CPUs of each job.
        wait_s: wall time for all jobs together, in seconds.
    """

    library = ("ray", "ray")

    address: str | None = None
    n_jobs: Annotated[Whole, Field(ge=1, le=10_000)] = 16
    cpus_per_job: Annotated[Whole, Field(ge=1, le=256)] = 1
    wait_s: Annotated[Float, Field(gt=0)] = 604_800

    @property
    def threads(self) -> int:
        """Return the CPUs of each job."""
        return self.cpus_per_job

    def run(self, tasks: Sequence[Task]) -> Iterator[JobEnd]:
        """See `Launcher`."""
        with ray_session(self.address, "launcher=ray") as ray:
            yield from self._run(ray, tasks)

    def _run(self, ray: Any, tasks: Sequence[Task]) -> Iterator[JobEnd]:
        remote = ray.remote(num_cpus=self.cpus_per_job, max_retries=0)(run_task)
        waiting, running = list(tasks), dict[Any, Task]()
        until_s = time.monotonic() + self.wait_s
        try:
            while waiting or running:
                while waiting and len(running) < self.n_jobs:
                    task = waiting.pop(0)
                    running[remote.remote(task)] = task
                ended, _ = ray.wait(list(running), num_returns=1, timeout=min(_POLL_S, self.wait_s))
                for reference in ended:
                    yield _end_of(ray, reference, running.pop(reference))
                if not ended and time.monotonic() > until_s:
                    raise SweepError(
                        f"{len(running)} jobs did not end within launcher.wait_s, {self.wait_s:g} s; the "
                        f"cluster has {ray.cluster_resources().get('CPU', 0):g} CPUs, a job takes {self.threads}"
                    )
        finally:
            for reference in running:
                ray.cancel(reference)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_GONE_S)


def _end_of(ray: Any, reference: Any, task: Task) -> JobEnd:
    """Return the end of a job; lost, if its node or worker is."""
    try:
        end: JobEnd = ray.get(reference, timeout=_GONE_S)
    except ray.exceptions.RayError as error:
        reason = one_line(error)[:300]
        return JobEnd(task.name, "lost", None, 0.0, task.overrides, reason)
    return end
