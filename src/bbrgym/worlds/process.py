# SPDX-License-Identifier: GPL-2.0-only
"""A world in a process of its own: its abort is an exception here, and any number run at once.

::

    owner                             worker (worker.py)
      command word, arguments  ---->    reads them
      eventfd `command` + 1    ---->    wakes
      polls `done` and the worker's     runs the simulation, which reads and
      pidfd, with a timeout             writes its tables in the shared memory
      wakes                    <----    eventfd `done` + 1
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import weakref
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bbrgym.worlds.errors import WorldError
from bbrgym.worlds.layout import MIN_TEXT_BYTES, Command, Real, SharedMemory, Status, Table, Word
from bbrgym.worlds.wakeup import Wakeup
from bbrgym.worlds.world import World

_SCRIPT = str(Path(__file__).with_name("worker.py"))
_KILL_TIMEOUT_S = 10.0
_STDERR_TAIL_BYTES = 4096
_STDERR_TAIL_LINES = 20


class _WorkerFailure(Exception):
    """The worker died or did not answer; the text is the reason."""


class _Worker:
    """The process, the memory shared with it, and the descriptors that wake the two."""

    def __init__(self, engine: str) -> None:
        with ExitStack() as held:
            self.memory = SharedMemory.create()
            held.callback(os.close, self.memory.fd)
            self._stderr_fd = os.memfd_create("bbrgym-stderr", os.MFD_CLOEXEC)
            held.callback(os.close, self._stderr_fd)
            fcntl.fcntl(self._stderr_fd, fcntl.F_SETFL, os.O_APPEND)
            self._command_fd = os.eventfd(0, os.EFD_CLOEXEC)
            held.callback(os.close, self._command_fd)
            self._done_fd = os.eventfd(0, os.EFD_CLOEXEC)
            held.callback(os.close, self._done_fd)
            self._process = self._spawn(engine)
            held.callback(_kill, self._process, os.getpid())
            pid_fd = os.pidfd_open(self._process.pid)
            held.callback(os.close, pid_fd)
            self._answer = Wakeup(self._done_fd, pid_fd)
            #: Kills the process and frees all of this; also at garbage collection and at exit.
            self.close = weakref.finalize(self, held.pop_all().close)

    def _spawn(self, engine: str) -> subprocess.Popen[bytes]:
        fds = {"memory_fd": self.memory.fd, "command_fd": self._command_fd, "done_fd": self._done_fd}
        start = {"parent_pid": os.getpid(), "path": [str(entry) for entry in sys.path], "engine": engine, **fds}
        # -I: PYTHON* variables are meant for the owner. Its own session: Ctrl-C is for the owner too.
        return subprocess.Popen(
            [sys.executable, "-I", _SCRIPT, json.dumps(start)],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr_fd,
            stderr=self._stderr_fd,
            pass_fds=tuple(fds.values()),
            start_new_session=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # numpy is only a view here
        )

    def ask(self, command: Command, timeout_s: float) -> None:
        """Sends a command and waits for its end; raises _WorkerFailure."""
        self.memory.words[Word.COMMAND] = command
        os.eventfd_write(self._command_fd, 1)
        ready = self._answer.wait(timeout_s)
        for fd, _ in ready:
            if fd == self._done_fd:
                os.eventfd_read(fd)
                return
        if ready:
            raise _WorkerFailure(f"the worker {self._how_it_died()}{self._last_words()}")
        raise _WorkerFailure(f"no answer within {timeout_s:g} s (timeout_s sets how long to wait){self._last_words()}")

    def _how_it_died(self) -> str:
        code = self._process.wait(_KILL_TIMEOUT_S)
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:  # a real-time signal has no name
            return f"was killed by signal {-code}"

    def _last_words(self) -> str:
        size = os.fstat(self._stderr_fd).st_size
        tail = os.pread(self._stderr_fd, _STDERR_TAIL_BYTES, max(0, size - _STDERR_TAIL_BYTES))
        lines = tail.decode("utf-8", "replace").strip().splitlines()[-_STDERR_TAIL_LINES:]
        return "; it last wrote:\n" + "\n".join(lines) if lines else ""


def _kill(process: subprocess.Popen[bytes], owner_pid: int) -> None:
    if os.getpid() == owner_pid:  # a fork of the owner only gives its descriptors back
        process.kill()
        process.wait(_KILL_TIMEOUT_S)


class WorkerWorld(World):
    """Runs the engine's Simulation in a worker, one process for all its runs."""

    def __init__(self, name: str, engine: str, scenario: Any, seed: int, timeout_s: float) -> None:
        super().__init__(name, scenario, seed, timeout_s)
        self._engine = engine
        self._start()
        self.reset()

    @property
    def now_s(self) -> float:
        self._refuse_unless_running()
        return float(self._memory.reals[Real.NOW_S])

    @property
    def done(self) -> bool:
        self._refuse_unless_running()
        return bool(self._memory.words[Word.DONE])

    def _reset(self) -> None:
        if not self._worker.close.alive:
            self._start()
        memory = self._memory
        scenario_json = self._scenario_json.encode()
        memory.reshape(replace(self._shape(), text_capacity_bytes=max(MIN_TEXT_BYTES, len(scenario_json))))
        memory.write_text(scenario_json)
        memory.words[Word.SEED] = self._seed
        memory.reals[Real.NOW_S] = 0.0
        self._ask(Command.RESET, self._timeout_s)
        self._show(memory.tables)

    def _advance(self, seconds: float) -> None:
        self._memory.reals[Real.DURATION_S] = seconds
        self._ask(Command.ADVANCE, self._timeout_s * max(1.0, seconds))

    def _summary(self) -> tuple[Table, Table]:
        self._ask(Command.SUMMARISE, self._timeout_s)
        return self._memory.tables.flow_summary.copy(), self._memory.tables.link_summary.copy()

    def _close(self) -> None:
        self._worker.close()

    def _start(self) -> None:
        self._worker = _Worker(self._engine)
        self._memory = self._worker.memory
        self._ask(Command.DESCRIBE, self._timeout_s)
        self._take_fields(*json.loads(self._memory.read_text()))

    def _ask(self, command: Command, timeout_s: float) -> None:
        try:
            self._worker.ask(command, timeout_s)
        except BaseException as error:  # also Ctrl-C: where the worker is now, nobody knows
            self._break()
            if isinstance(error, _WorkerFailure):
                raise self._error(str(error)) from None
            raise
        status = self._memory.words[Word.STATUS]
        if status == Status.INVALID:
            raise ValueError(self._memory.read_text())
        if status == Status.FAILED:
            self._break()
            raise self._error(self._memory.read_text())

    def _break(self) -> None:
        """Gives the worker up; reset() starts another."""
        self._is_running = False
        self._close()

    def _error(self, reason: str) -> WorldError:
        return WorldError(self.scenario.name, self.seed, self._memory.reals[Real.NOW_S], reason)
