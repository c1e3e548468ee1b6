# SPDX-License-Identifier: GPL-2.0-only
"""The jobs of a Hydra multirun: each is a command in a process and a folder of its own.

    DIR/NAME/            run folder of a job, as its own command writes it
    DIR/NAME/job.json    its end: status, exit code, wall time, overrides
    DIR/NAME/job.log     output of all its attempts

A job whose folder is finished returns its result at once, another one goes on from its folder: so a repeated multirun
resumes. A job that crashes affects no other, and no process of a job outlives the one that waits for it, nor, on the
machine of its multirun, the multirun.
"""

from __future__ import annotations

import json
import math
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from bbrgym.config.overrides import key_of, override_of, parse_override
from bbrgym.errors import ConfigError
from bbrgym.runs.atomic_files import open_to_append, write_text
from bbrgym.sweeps.multirun import LOG, STATE, MultirunFolder, metric_of
from bbrgym.sweeps.pruning import Watch, watched

TIMEOUT = "BBRGYM_JOB_TIMEOUT_S"  # environment variable: wall time after which a job is ended
_TIMEOUT_S = 604_800.0  # where it is not set
_THREADS = {"evaluate": "jobs", "reproduce": "jobs", "train": "threads"}  # option of each command for its cores
_FOR_JOBS = ("hydra.job.", "hydra.searchpath", "hydra.verbose", "hydra.job_logging", "hydra/job_logging")
_SET = ("job.num", "job.id", "job.override_dirname", "sweep.dir", "sweep.subdir")
_GRACE_S = 30.0  # for a job to close its files and worlds after SIGTERM
_OTHERS_S = 20.0  # for the end of another process in the folder, such as one whose multirun was killed
_WATCH_S = 1.0  # between two looks at whether a job is to be pruned or its multirun has ended


@dataclass(frozen=True)
class Job:
    """Function that Hydra's launchers call for each job, here or on another machine."""

    command: str
    flags: tuple[str, ...]  # Hydra's, for the jobs, such as ``--config-dir``
    cwd: str  # working directory
    owner_pid: int | None = None  # process of this machine with which jobs end. Default: none, they go on without it

    def __call__(self, config: DictConfig) -> float | None:  # noqa: ARG002 - the job composes its own
        """Run the job of Hydra's current configuration, and return the metric; None after a failure.

        Raises:
            ConfigError: the folder holds a job with other options or is in use, or a file of it is damaged.
            SweepError: the database of the search, whose pruner watches the job, cannot be used.
        """
        hydra: Any = HydraConfig.get()
        texts: Any = OmegaConf.to_container(hydra.overrides, resolve=False)  # the job itself resolves references
        folder, overrides = Path(hydra.runtime.output_dir), tuple(texts["task"])
        if not folder.name or Path(hydra.sweep.dir).absolute() not in folder.parents:
            raise ConfigError(
                f"hydra.sweep.subdir: is {str(hydra.sweep.subdir)!r}, expected a folder for each job in hydra.sweep.dir"
            )
        MultirunFolder(folder).wait_until_free(_OTHERS_S)
        state = MultirunFolder(folder.parent).read_state(folder.name)
        if state.get("status") not in ("done", "pruned"):
            given = [*_about(hydra, texts["hydra"]), *self._given(hydra, folder, overrides)]
            arguments = [self.command, *self.flags, *overrides, *given]
            environment = dict(os.environ)
            if "WANDB_RUN_ID" not in hydra.job.env_set:  # a run of W&B named for all jobs would be one for all
                environment.pop("WANDB_RUN_ID", None)
            with watched(hydra, folder) as is_hopeless:
                state = self._run(arguments, folder, environment, is_hopeless)
            state["overrides"] = list(overrides)
            write_text(folder / STATE, json.dumps(state, indent=2) + "\n")
        elif tuple(state["overrides"]) != overrides:
            raise ConfigError(
                f"hydra.sweep.dir: {str(folder)!r} holds a job with {' '.join(state['overrides'])}, expected the same "
                f"options, not {' '.join(overrides)}, or another hydra.sweep.dir or subdir"
            )
        is_whole = state["status"] in ("done", "pruned")
        return metric_of(folder, self.command, hydra.sweeper.get("metric")) if is_whole else None

    def _given(self, hydra: DictConfig, folder: Path, overrides: tuple[str, ...]) -> Iterator[str]:
        """Yield the options of a job that the multirun sets."""
        options = {key_of(text): text for text in overrides}
        threads = _THREADS.get(self.command)
        if threads is not None and threads not in options:
            yield f"{threads}={_cores_of(hydra.launcher)}"
        logger = options.get("logger", "")
        if "wandb" in logger:
            where = "logger.wandb" if "[" in logger else "logger"
            name = os.path.relpath(folder, str(hydra.sweep.dir))
            own = {"group": ("WANDB_RUN_GROUP", Path(str(hydra.sweep.dir)).name), "run_name": ("WANDB_NAME", name)}
            for key, (variable, value) in own.items():
                if f"{where}.{key}" not in options and not os.environ.get(variable):
                    yield override_of(f"{where}.{key}", value)
        yield override_of("output_dir", str(folder))
        yield "resume=true"

    def _run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], is_hopeless: Watch
    ) -> dict[str, Any]:
        """Run the job's process to the end; return a mapping that describes the end."""
        limit_s = job_limit_s()
        began_s = time.monotonic()
        with open_to_append(folder / LOG) as log:
            log.write(f"$ bbrgym {shlex.join(arguments)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                [sys.executable, "-m", "bbrgym.cli.job", str(os.getpid()), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.cwd,
                env=environment,
                start_new_session=True,  # Ctrl-C in a terminal is for the multirun, which passes it on
            )
            try:
                with _end_of(self.owner_pid) as is_abandoned:
                    status = _wait(process, limit_s, is_abandoned, is_hopeless)
            finally:  # also where this process is interrupted
                _end(process)
        reason = ""
        if status == "timed out":
            reason = f"after {limit_s:g} s"
        elif status not in ("done", "pruned"):
            reason = MultirunFolder(folder.parent).last_line(folder.name)
        wall_s = round(time.monotonic() - began_s, 3)
        end = {"status": status, "exit_code": process.returncode, "wall_s": wall_s}
        return {"name": folder.name, "command": self.command, **end, "reason": reason}


def _about(hydra: DictConfig, given: Sequence[str]) -> Iterator[str]:
    """Yield Hydra's own options for a job's process: the given ones that concern a job, and the launcher's."""
    yield from (text for text in given if parse_override(text).key_or_group.startswith(_FOR_JOBS))
    for key in _SET:
        value = OmegaConf.select(hydra, key, throw_on_missing=False)
        if value is not None:
            yield f"hydra.{key}={value}" if key == "job.num" else override_of(f"hydra.{key}", str(value))
    yield override_of("hydra.run.dir", str(hydra.runtime.output_dir))


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


@contextmanager
def _end_of(pid: int | None) -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether a process of this machine has ended; None never does."""
    if pid is None:
        yield lambda: False
        return
    try:
        pid_fd = os.pidfd_open(pid)
    except ProcessLookupError:
        yield lambda: True
        return
    try:
        poll = select.poll()
        poll.register(pid_fd, select.POLLIN)
        yield lambda: bool(poll.poll(0))
    finally:
        os.close(pid_fd)


def _wait(
    process: subprocess.Popen[bytes], timeout_s: float, is_abandoned: Callable[[], bool], is_hopeless: Watch
) -> str:
    """Wait for the end of a process, or for a reason to end the process, and return the job's status."""
    until_s = time.monotonic() + timeout_s
    while True:
        try:
            code = process.wait(min(max(0.0, until_s - time.monotonic()), _WATCH_S))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= until_s:
                return "timed out"
            if is_abandoned():
                return "interrupted"
            if is_hopeless():
                return "pruned"
        else:
            return {0: "done", 130: "interrupted"}.get(code, "failed")


def job_limit_s() -> float:
    """Return the wall time after which a job is ended.

    Raises:
        ConfigError: the environment variable is not a number above 0.
    """
    text = os.environ.get(TIMEOUT, str(_TIMEOUT_S))
    with suppress(ValueError):
        if (limit_s := float(text)) > 0:
            return limit_s
    raise ConfigError(f"{TIMEOUT}: is {text!r}, expected a number of seconds above 0")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process in order; after a grace time kill the process and all descendants."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(_GRACE_S)
