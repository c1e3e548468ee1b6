# SPDX-License-Identifier: GPL-2.0-only
"""The folder of a sweep.

sweep.yaml            what was asked for, so that an interrupted sweep can go on
jobs/NAME/            run folder of each job, as its own command writes it
logs/NAME.log         what the job said, of all its attempts
states/NAME.json      how the job ended
study.db              of a search: Optuna's study
summary.parquet       a row per job; of evaluations one per job, world and entrant
summary.csv           the same
curves.parquet        of trainings: validation scores, a row per job and step
summary.txt           the tables of the terminal
figures/*.png
report.html           all of it on one page
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import polars as pl
import yaml

from bbrgym.errors import ConfigError
from bbrgym.files import write_atomically

_ASKED = "sweep.yaml"
_LOCK = ".lock"


class SweepFolder:
    """A sweep's folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: IO[bytes] | None = None

    def open(self, *, resume: bool) -> None:
        """Makes the folder, or goes on with it; no other sweep can until `close`.

        Raises:
            ConfigError: it holds something and ``resume`` is off, it is in use, or it cannot be made.
        """
        try:
            if self.path.exists() and not resume and any(self.path.iterdir()):
                raise ConfigError(
                    f"sweep_dir: {str(self.path)!r} is not empty, expected a new one, or resume=true to go on"
                )
            for name in ("jobs", "logs", "states"):
                (self.path / name).mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / _LOCK).open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ConfigError(f"sweep_dir: {str(self.path)!r} is in use by another sweep") from None
        except OSError as error:
            self.close()
            raise ConfigError(f"sweep_dir: cannot use {str(self.path)!r}: {error}") from error

    def close(self) -> None:
        """Lets others use it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def read_asked(self) -> dict[str, Any]:
        """What was asked for.

        Raises:
            ConfigError: it cannot be read.
        """
        try:
            asked: dict[str, Any] = yaml.safe_load((self.path / _ASKED).read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError(f"sweep_dir: {str(self.path)!r} is no folder of bbrgym sweep: {error}") from error
        return asked

    def write_asked(self, asked: Mapping[str, Any]) -> None:
        """What is asked for."""
        self.write_text(_ASKED, yaml.safe_dump(dict(asked), sort_keys=False))

    def job(self, name: str) -> Path:
        """A job's run folder."""
        return self.path / "jobs" / name

    def log(self, name: str) -> Path:
        """What a job said."""
        return self.path / "logs" / f"{name}.log"

    def state(self, name: str) -> Path:
        """How a job ended."""
        return self.path / "states" / f"{name}.json"

    def read_state(self, name: str) -> dict[str, Any]:
        """How a job ended; empty before."""
        path = self.state(name)
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return state

    def write_state(self, name: str, state: Mapping[str, Any]) -> None:
        """How a job ended."""
        self.write_text(f"states/{name}.json", json.dumps(dict(state), indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Writes a text."""
        write_atomically(self.path / name, lambda partial: partial.write_text(text, encoding="utf-8"))

    def write_table(self, name: str, table: pl.DataFrame) -> None:
        """Writes Parquet."""
        whole = table.rechunk()
        write_atomically(self.path / name, lambda partial: whole.write_parquet(partial, compression="zstd"))
