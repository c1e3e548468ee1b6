# SPDX-License-Identifier: GPL-2.0-only
"""Jobs on this machine; needs the extra `sweep`. A thread waits for each process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field

from bbrgym.errors import ConfigError
from bbrgym.schema import Model, Whole
from bbrgym.sweeps.launchers import needs
from bbrgym.sweeps.task import End, Processes, Task, run_task


class Settings(Model):
    """What can be set.

    Attributes:
        n_jobs: at once; -1 is one a core, -2 leaves one core free, as joblib has it.
    """

    n_jobs: Annotated[Whole, Field(ge=-256, le=256)] = 1


def launcher(settings: Settings) -> JoblibLauncher:
    """The launcher."""
    return JoblibLauncher(settings)


class JoblibLauncher:
    """See `Launcher`."""

    def __init__(self, settings: Settings) -> None:
        cores = len(os.sched_getaffinity(0))
        if settings.n_jobs == 0:
            raise ConfigError("launcher.n_jobs: is 0, expected a whole number above it, or -1 for one a core")
        self._n_jobs = settings.n_jobs if settings.n_jobs > 0 else max(1, cores + 1 + settings.n_jobs)
        self.threads = max(1, cores // self._n_jobs)

    def run(self, tasks: Sequence[Task]) -> Iterator[End]:
        """See `Launcher`."""
        try:
            from joblib import Parallel, delayed
        except ModuleNotFoundError as error:
            raise needs("joblib", error, "sweep") from error
        processes = Processes()
        # Threads: each only waits for its process, and no process of joblib's stands between us and the job's.
        parallel = Parallel(self._n_jobs, backend="threading", return_as="generator_unordered", pre_dispatch="n_jobs")
        ends = parallel(delayed(run_task)(task, processes) for task in tasks)
        try:
            yield from ends
        finally:
            processes.stop()
            for _ in ends:  # those that were still running have ended when this is through
                pass
