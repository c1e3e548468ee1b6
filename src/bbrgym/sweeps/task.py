# SPDX-License-Identifier: GPL-2.0-only
"""Runs one job in its own process, on this machine or on the one that a launcher chose.

The process always ends, and its end is written to a file. A job that crashes affects no other.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bbrgym.atomic_files import write_text

Status = Literal["done", "failed", "timed out", "interrupted", "lost", "pruned"]
_GRACE_S = 30.0  # for a job to close its files and worlds after SIGTERM
_WATCH_S = 1.0  # between two looks at a job that may be pruned
_LAST_LINES_BYTES = 4000


@dataclass(frozen=True)
class Task:
    """A job in the form that is sent to another machine.

    Attributes:
        name: of the job.
        overrides: its options.
        arguments: of the command bbrgym: these options, and the folder to write.
        log, state: files for its output and its end.
        cwd: working directory.
        timeout_s: wall time after which it is ended.
    """

    name: str
    overrides: tuple[str, ...]
    arguments: tuple[str, ...]
    log: Path
    state: Path
    cwd: Path
    timeout_s: float


@dataclass(frozen=True)
class JobEnd:
    """The end of a job.

    Attributes:
        name: of the job.
        status: ``lost`` if the process that waited for it is gone.
        exit_code: of its process; minus the number of the signal that ended it. None if it is unknown.
        wall_s: wall time of this attempt.
        overrides: options of the job.
        reason: last line of the output of a job that failed, or why it was ended; empty if it is done.
        command: of the job.
    """

    name: str
    status: Status
    exit_code: int | None
    wall_s: float
    overrides: tuple[str, ...]
    reason: str = ""
    command: str = ""


class Processes:
    """The running processes of jobs; `stop` ends them all, and none starts afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.is_stopped = False

    def start(self, task: Task, log: int) -> subprocess.Popen[bytes] | None:
        """Start a job's process; return None after `stop`."""
        with self._lock:
            if self.is_stopped:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", "bbrgym.cli.job", str(os.getpid()), *task.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=task.cwd,
                start_new_session=True,  # Ctrl-C in a terminal is for the sweep, which passes it on
            )
            self._running.add(process)
            return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a process in order; after a grace time kill it and all that it has started."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(_GRACE_S)
        with self._lock:
            self._running.discard(process)

    def stop(self) -> None:
        """End all processes."""
        with self._lock:
            self.is_stopped = True
            running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            self.end(process)


def run_task(task: Task, processes: Processes | None = None, is_hopeless: Callable[[], bool] | None = None) -> JobEnd:
    """Run a job to its end, and write that to its file.

    Args:
        task: the job.
        processes: that can be stopped. Default: its own.
        is_hopeless: asked every second; true ends the job, which is then pruned. Default: never.

    Raises:
        OSError: the log or the file of its end cannot be written, or the process cannot be started.
    """
    processes = processes or Processes()
    began_s = time.monotonic()
    task.log.parent.mkdir(parents=True, exist_ok=True)
    with task.log.open("ab") as log:
        log.write(f"$ bbrgym {shlex.join(task.arguments)}\n".encode())
        log.flush()
        process = processes.start(task, log.fileno())
        if process is None:
            return JobEnd(task.name, "interrupted", None, 0.0, task.overrides)
        status: Status | None = None
        try:
            status = _wait(process, task.timeout_s, is_hopeless)
        finally:  # also where this thread is interrupted
            processes.end(process)
    code = process.returncode
    if status is None:
        status = "done" if code == 0 else "interrupted" if processes.is_stopped or code == 130 else "failed"
    reason = (
        f"after {task.timeout_s:g} s"
        if status == "timed out"
        else ""
        if status in ("done", "pruned")
        else _last_line(task.log)
    )
    end = JobEnd(
        task.name, status, code, round(time.monotonic() - began_s, 3), task.overrides, reason, task.arguments[0]
    )
    write_text(task.state, json.dumps(asdict(end), indent=2) + "\n")
    return end


def _wait(process: subprocess.Popen[bytes], timeout_s: float, is_hopeless: Callable[[], bool] | None) -> Status | None:
    """Wait for the end of a process; return the status of one that has to be ended, else None."""
    until_s = time.monotonic() + timeout_s
    while True:
        left_s = until_s - time.monotonic()
        try:
            process.wait(max(0.0, left_s if is_hopeless is None else min(left_s, _WATCH_S)))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= until_s:
                return "timed out"
            if is_hopeless is not None and is_hopeless():
                return "pruned"
        else:
            return None


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_LINES_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip() and not line.startswith("$ bbrgym")]
    return said[-1] if said else ""
