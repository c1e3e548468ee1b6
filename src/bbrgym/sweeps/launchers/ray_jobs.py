# SPDX-License-Identifier: GPL-2.0-only
"""Jobs as tasks of a Ray cluster; needs the extra `ray`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field

from bbrgym.errors import SweepError
from bbrgym.ray_session import ray_session
from bbrgym.schema import Float, Model, Whole
from bbrgym.sweeps.task import End, Task, run_task

_LOOK_S = 60.0  # between two looks at whether the time is over
_GONE_S = 60.0


class Settings(Model):
    """What can be set.

    Attributes:
        address: of a cluster; without, one of this machine.
        n_jobs: at once, at most.
        cpus_per_job: of a job.
        wait_s: for all jobs together.
    """

    address: str | None = None
    n_jobs: Annotated[Whole, Field(ge=1, le=10_000)] = 16
    cpus_per_job: Annotated[Whole, Field(ge=1, le=256)] = 1
    wait_s: Annotated[Float, Field(gt=0)] = 604_800


def launcher(settings: Settings) -> RayLauncher:
    """The launcher."""
    return RayLauncher(settings)


class RayLauncher:
    """See `Launcher`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.threads = settings.cpus_per_job

    def run(self, tasks: Sequence[Task]) -> Iterator[End]:
        """See `Launcher`."""
        with ray_session(self._settings.address, "launcher=ray") as ray:
            yield from self._run(ray, tasks)

    def _run(self, ray: Any, tasks: Sequence[Task]) -> Iterator[End]:
        remote = ray.remote(num_cpus=self._settings.cpus_per_job, max_retries=0)(run_task)
        waiting, running = list(tasks), dict[Any, Task]()
        until_s = time.monotonic() + self._settings.wait_s
        try:
            while waiting or running:
                while waiting and len(running) < self._settings.n_jobs:
                    task = waiting.pop(0)
                    running[remote.remote(task)] = task
                ended, _ = ray.wait(list(running), num_returns=1, timeout=min(_LOOK_S, self._settings.wait_s))
                for reference in ended:
                    yield _end_of(ray, reference, running.pop(reference))
                if not ended and time.monotonic() > until_s:
                    raise SweepError(
                        f"{len(running)} jobs did not end within launcher.wait_s, {self._settings.wait_s:g} s; the "
                        f"cluster has {ray.cluster_resources().get('CPU', 0):g} CPUs, a job takes {self.threads}"
                    )
        finally:
            for reference in running:
                ray.cancel(reference)
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=_GONE_S)


def _end_of(ray: Any, reference: Any, task: Task) -> End:
    """How a job ended; lost, where its node or worker is."""
    try:
        end: End = ray.get(reference, timeout=_GONE_S)
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:300]
        return End(task.name, "lost", None, 0.0, task.overrides, reason)
    return end
