# SPDX-License-Identifier: GPL-2.0-only
"""Launches jobs on this machine, with joblib; needs the extra `train`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, field_validator

from bbrgym.schema import FieldProblem, Whole
from bbrgym.sweeps.launchers.launcher import Launcher
from bbrgym.sweeps.task import JobEnd, Processes, Task, run_task


class JoblibLauncher(Launcher):
    """Runs jobs in processes of this machine; a thread waits for each.

    Attributes:
        n_jobs: jobs at once; -1 is one a core, -2 one less, and so on, as in joblib.
    """

    library = ("joblib", "train")

    n_jobs: Annotated[Whole, Field(ge=-256, le=256)] = 1

    @field_validator("n_jobs")
    @classmethod
    def _check(cls, n_jobs: int) -> int:
        if n_jobs == 0:
            raise FieldProblem("", "is 0, expected a number from 1, or -1 for one a core")
        return n_jobs

    @property
    def threads(self) -> int:
        """Return the cores of each job."""
        return max(1, len(os.sched_getaffinity(0)) // self._at_once())

    def _at_once(self) -> int:
        cores = len(os.sched_getaffinity(0))
        return self.n_jobs if self.n_jobs > 0 else max(1, cores + 1 + self.n_jobs)

    def run(self, tasks: Sequence[Task]) -> Iterator[JobEnd]:
        """See `Launcher`."""
        from joblib import Parallel, delayed

        processes = Processes()
        # Threads, since each only waits for a process; with joblib's processes a job would have one more parent.
        at_once = self._at_once()
        parallel = Parallel(at_once, backend="threading", return_as="generator_unordered", pre_dispatch="n_jobs")
        ends = parallel(delayed(run_task)(task, processes) for task in tasks)
        try:
            yield from ends
        finally:
            processes.stop()
            for _ in ends:  # wait until those that were running have ended
                pass
