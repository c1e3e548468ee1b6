# SPDX-License-Identifier: GPL-2.0-only
"""The jobs of a multirun of Hydra's: each is a command in a process and a folder of its own.

    DIR/NAME/            run folder of a job, as its own command writes it
    DIR/NAME/job.json    its end: status, exit code, wall time, overrides
    DIR/NAME/job.log     output of all its attempts

A job whose folder is finished returns its result at once, another one goes on from its folder: so a repeated multirun
resumes. A job that crashes affects no other.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from bbrgym.compose import key_of, override_of
from bbrgym.errors import ConfigError
from bbrgym.sweeps.results import metric_of
from bbrgym.sweeps.search import watcher_of
from bbrgym.sweeps.sweep_folder import MultirunFolder
from bbrgym.sweeps.task import Task, run_task

_TIMEOUT_S = 604_800.0  # of a job, unless BBRGYM_JOB_TIMEOUT_S says otherwise
_THREADS = {"evaluate": "jobs", "reproduce": "jobs", "train": "threads"}  # option of each command for its cores


@dataclass(frozen=True)
class Job:
    """Function that Hydra's launchers call for each job, here or on another machine.

    Attributes:
        command: of the jobs.
        flags: of Hydra's for the jobs, such as ``--config-dir``.
        cwd: working directory.
    """

    command: str
    flags: tuple[str, ...]
    cwd: str

    def __call__(self, config: DictConfig) -> float | None:  # noqa: ARG002 - the job composes its own
        """Run the job of Hydra's current configuration, and return its metric; None if it failed.

        Raises:
            ConfigError: the folder holds a job with other options.
        """
        hydra: Any = HydraConfig.get()
        folder, overrides = Path(hydra.runtime.output_dir), tuple(hydra.overrides.task)
        jobs = MultirunFolder(folder.parent)
        state = jobs.read_state(folder.name)
        if state and tuple(state["overrides"]) != overrides:
            raise ConfigError(
                f"hydra.sweep.dir: {str(folder)!r} holds a job with {' '.join(state['overrides'])}, expected the same "
                f"options, not {' '.join(overrides)}"
            )
        metric = hydra.sweeper.get("metric")
        if state.get("status") in ("done", "pruned"):
            return metric_of(folder, self.command, metric)
        arguments = (self.command, *self.flags, *overrides, *self._given(hydra, folder, overrides))
        timeout_s = float(os.environ.get("BBRGYM_JOB_TIMEOUT_S", _TIMEOUT_S))
        task = Task(
            folder.name, overrides, arguments, jobs.log(folder.name), jobs.state(folder.name), Path(self.cwd), timeout_s
        )
        end = run_task(task, is_hopeless=watcher_of(hydra, folder))
        return metric_of(folder, self.command, metric) if end.status in ("done", "pruned") else None

    def _given(self, hydra: DictConfig, folder: Path, overrides: tuple[str, ...]) -> Iterator[str]:
        """Yield the options of a job that the multirun sets."""
        options = {key_of(text): text for text in overrides}
        threads, cores = _THREADS.get(self.command), _cores_of(hydra.launcher)
        if threads is not None and threads not in options:
            yield f"{threads}={cores}"
        if self.command == "train" and "wandb" in options.get("logger", ""):
            own = {"logger.group": Path(str(hydra.sweep.dir)).name, "logger.run_name": folder.name}
            yield from (override_of(key, value) for key, value in own.items() if key not in options)
        yield override_of("output_dir", str(folder))
        yield "resume=true"


def _cores_of(launcher: DictConfig) -> int:
    """Return the cores of each job, by the settings of Hydra's launcher."""
    here = len(os.sched_getaffinity(0))
    if "cpus_per_task" in launcher and launcher.cpus_per_task is not None:
        return int(launcher.cpus_per_task)
    remote = OmegaConf.select(launcher, "ray.remote.num_cpus")
    if remote is not None or "ray" in launcher:
        return max(1, math.floor(remote or 1))
    jobs = int(launcher.get("n_jobs") or 1)
    return max(1, here // (jobs if jobs > 0 else max(1, here + 1 + jobs)))
