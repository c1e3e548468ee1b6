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

    def read_state(self, name: str) -> dict[str, Any]:
        """Return the end of a job as a mapping of the fields of `JobEnd`; empty before it has ended.

        Raises:
            ConfigError: it cannot be read.
        """
        return self.read_json(f"states/{name}.json")

    def write_state(self, name: str, state: Mapping[str, Any]) -> None:
        """Write the end of a job."""
        self.write_json(f"states/{name}.json", state)
