# SPDX-License-Identifier: GPL-2.0-only
"""Runs one job in a process of its own, here or wherever a launcher has sent it.

Whatever becomes of the job, the process ends, and how it ended is written down. A job that crashes takes nothing along.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bbrgym.files import write_atomically

Status = Literal["done", "failed", "timed out", "interrupted", "lost"]
_GRACE_S = 30.0  # after SIGTERM, in which a job closes what it has open
_LAST_LINES_BYTES = 4000


@dataclass(frozen=True)
class Task:
    """A job, ready to be sent somewhere.

    Attributes:
        name: of the job.
        overrides: what it was asked for.
        arguments: of the command bbrgym: the same, and where to write.
        log, state: files for what it says and how it ends.
        cwd: where it runs.
        timeout_s: after which it is ended.
    """

    name: str
    overrides: tuple[str, ...]
    arguments: tuple[str, ...]
    log: Path
    state: Path
    cwd: Path
    timeout_s: float


@dataclass(frozen=True)
class End:
    """How a job ended.

    Attributes:
        name: of the job.
        status: ``lost`` where whoever ran it is gone.
        exit_code: of its process; below 0 the signal that ended it.
        wall_s: what this attempt took.
        overrides: what it was asked for.
        reason: what is known beside; the last line that it said, where it failed.
    """

    name: str
    status: Status
    exit_code: int | None
    wall_s: float
    overrides: tuple[str, ...]
    reason: str = ""


class Processes:
    """Those that run now; `stop` ends them all, and no other begins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.is_stopped = False

    def start(self, task: Task, log: int) -> subprocess.Popen[bytes] | None:
        """The job's process; None after `stop`."""
        with self._lock:
            if self.is_stopped:
                return None
            process = subprocess.Popen(
                [sys.executable, "-m", "bbrgym.cli.job", str(os.getpid()), *task.arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=task.cwd,
                start_new_session=True,  # Ctrl-C in a terminal is for us, who pass it on
            )
            self._running.add(process)
            return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends one, in order if it wants, and all that it has started."""
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
        """Ends all; whoever waits for one sees it."""
        with self._lock:
            self.is_stopped = True
            running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            self.end(process)


def run_task(task: Task, processes: Processes | None = None) -> End:
    """Runs a job to its end and writes down what that was."""
    processes = processes or Processes()
    began_s = time.monotonic()
    task.log.parent.mkdir(parents=True, exist_ok=True)
    with task.log.open("ab") as log:
        log.write(f"$ bbrgym {shlex.join(task.arguments)}\n".encode())
        log.flush()
        process = processes.start(task, log.fileno())
        if process is None:
            return End(task.name, "interrupted", None, 0.0, task.overrides)
        status: Status | None = None
        try:
            process.wait(task.timeout_s)
        except subprocess.TimeoutExpired:
            status = "timed out"
        finally:  # also where this thread is interrupted
            processes.end(process)
    code = process.returncode
    if status is None:
        status = "done" if code == 0 else "interrupted" if processes.is_stopped or code == 130 else "failed"
    reason = (
        f"after {task.timeout_s:g} s" if status == "timed out" else "" if status == "done" else _last_line(task.log)
    )
    end = End(task.name, status, code, round(time.monotonic() - began_s, 3), task.overrides, reason)
    text = json.dumps(asdict(end), indent=2) + "\n"
    write_atomically(task.state, lambda partial: partial.write_text(text, encoding="utf-8"))
    return end


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_LINES_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip() and not line.startswith("$ bbrgym")]
    return said[-1] if said else ""
