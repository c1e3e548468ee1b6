# SPDX-License-Identifier: GPL-2.0-only
"""The run folder of a sweep.

config.yaml           the request, so that an interrupted sweep can go on
jobs/NAME/            run folder of each job, written by the job's own command
logs/NAME.log         output of all attempts of a job
states/NAME.json      the end of a job
study.db              of a search: Optuna's study
summary.parquet       a row per job; of evaluations a row per job, world and entrant
summary.csv           the same
curves.parquet        of trainings: validation scores, a row per job and step
summary.txt           the tables of the terminal
figures/*.png
report.html           all of it on one page
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bbrgym.run_folder import RunFolder

LOG, STATE = "job.log", "job.json"  # of a multirun's job, in its run folder


class SweepFolder(RunFolder):
    """A sweep's run folder on disk."""

    command = "sweep"
    option = "sweep_dir"

    def __init__(self, path: Path) -> None:
        super().__init__(path.absolute())

    def job(self, name: str) -> Path:
        """Return the run folder of a job."""
        return self.path / "jobs" / name

    def log(self, name: str) -> Path:
        """Return the file of a job's output."""
        return self.path / "logs" / f"{name}.log"

    def state(self, name: str) -> Path:
        """Return the file of a job's end."""
        return self.path / "states" / f"{name}.json"

    def in_job(self, name: str, file: str) -> str:
        """Return the path of a file of a job's run folder, from this folder on."""
        return str((self.job(name) / file).relative_to(self.path))

    def read_state(self, name: str) -> dict[str, Any]:
        """Return the end of a job as a mapping of the fields of `JobEnd`; empty before it has ended.

        Raises:
            ConfigError: it cannot be read.
        """
        return self.read_json(str(self.state(name).relative_to(self.path)))

    def write_state(self, name: str, state: Mapping[str, Any]) -> None:
        """Write the end of a job."""
        self.write_json(str(self.state(name).relative_to(self.path)), state)


class MultirunFolder(SweepFolder):
    """The folder of a multirun of Hydra's on disk: each job's run folder in it holds the job's log and end too.

    NAME/           run folder of each job
    NAME/job.json   its end
    NAME/job.log    its output
    multirun.yaml   the request, as Hydra writes it
    """

    option = "hydra.sweep.dir"

    def job(self, name: str) -> Path:
        """Return the run folder of a job."""
        return self.path / name

    def log(self, name: str) -> Path:
        """Return the file of a job's output."""
        return self.path / name / LOG

    def state(self, name: str) -> Path:
        """Return the file of a job's end."""
        return self.path / name / STATE

    def names(self) -> list[str]:
        """Return the names of the jobs that have begun, sorted."""
        folders = {path.parent for name in (STATE, LOG) for path in self.path.rglob(name)} - {self.path}
        return sorted(str(folder.relative_to(self.path)) for folder in folders)
