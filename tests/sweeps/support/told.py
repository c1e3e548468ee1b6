# SPDX-License-Identifier: GPL-2.0-only
"""A callback of Hydra's that writes down what it is told."""

import os
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback


class Told(Callback):
    """Adds a line to a file for each call, with the variable OF_JOB of the environment and a job's end."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def add(self, *words: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(" ".join(words) + "\n")

    def on_job_start(self, config: Any, **rest: Any) -> None:
        self.add("job_start", os.environ["OF_JOB"])

    def on_job_end(self, config: Any, job_return: Any, **rest: Any) -> None:
        self.add("job_end", job_return.status.name)


for _name in ("run_start", "run_end", "multirun_start", "multirun_end"):
    setattr(Told, f"on_{_name}", lambda self, config, name=_name, **rest: self.add(name))
