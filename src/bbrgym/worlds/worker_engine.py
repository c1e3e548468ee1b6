# SPDX-License-Identifier: GPL-2.0-only
"""An engine in a worker process: an abort is an error here, and any number run at once.

::

    owner                             worker (worker.py)
      mailbox: request         ---->    reads it
      eventfd `request` + 1    ---->    wakes
      polls `done` and the worker's     runs the engine, which reads and
      pidfd, with a timeout             writes its rows of the shared arrays
      wakes                    <----    eventfd `done` + 1
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import astuple
from typing import Any

import numpy as np

from bbrgym.plugins import PLUGINS
from bbrgym.processes import describe_exit, light_command, output_tail
from bbrgym.worlds.engine import advance_timeout_s
from bbrgym.worlds.errors import ControllerFailure, EngineFailure, LateRunFailure
from bbrgym.worlds.layout import Flags, Mailbox, SharedArrays, Table
from bbrgym.worlds.wakeup import Wakeup

_KILL_TIMEOUT_S = 10.0
_STDERR_TAIL_BYTES = 4096
_WAKE = (1).to_bytes(8, sys.byteorder)  # what an eventfd counts
_FAILURES: dict[str, type[Exception]] = {
    "invalid": ValueError,
    "late": LateRunFailure,
    "failed": EngineFailure,
    "controller": ControllerFailure,
}


class WorkerEngine:
    """An engine of one world in a separate process; see `bbrgym.worlds.engine.Engine`.

    Args:
        engine: dotted name of the engine's class.
        options: of the engine; JSON values.
        timeout_s: the longest wall time of a start or a reset, and of each simulated second of an advance.
        shared: memory of the arrays of all worlds.
        index: which rows of them are this world's.
    """

    def __init__(
        self, engine: str, options: Mapping[str, Any], timeout_s: float, shared: SharedArrays, index: int
    ) -> None:
        self._timeout_s = timeout_s
        self._shared = shared
        self._index = index
        self._owner_pid = os.getpid()
        self._in_use = threading.Lock()
        with ExitStack() as held:
            self._mailbox = Mailbox.create()
            held.callback(os.close, self._mailbox.fd)
            self._process = self._start(held, engine, options)
            pid_fd = os.pidfd_open(self._process.pid)
            held.callback(os.close, pid_fd)
            self._answer = Wakeup(self._done_fd, pid_fd)
            self._free = weakref.finalize(self, held.pop_all().close)  # also at garbage collection and at exit

    def lay_out(self, flow_capacity: int, *rows: Table | Flags) -> None:  # noqa: ARG002 - the worker maps them itself
        self._ask(self._timeout_s, "lay_out", *astuple(self._shared.shape))

    def reset(self, index: int, scenario_json: str | None, seed: int) -> None:  # noqa: ARG002 - there is one
        self._ask(self._timeout_s, "reset", scenario_json, seed)

    def advance(self, durations_s: Table) -> None:
        self._ask(advance_timeout_s(self._timeout_s, durations_s[0]), "advance", float(durations_s[0]))

    def summary(self, index: int, flow_out: Table, link_out: Table) -> None:  # noqa: ARG002 - they are shared
        self._ask(self._timeout_s, "summary", len(flow_out))

    def links(self, index: int) -> Table:  # noqa: ARG002 - there is one
        rows: Table = np.array(json.loads(self._ask(self._timeout_s, "links")))
        return rows

    def close(self) -> None:
        """Kill the process and free all resources; a second call does nothing."""
        if os.getpid() != self._owner_pid:  # in a fork no other thread is here, whatever the lock says
            self._free()
        elif self._free.alive:
            self._process.kill()
            with self._in_use:  # what waits for an answer learns of the death
                self._free()

    def _start(self, held: ExitStack, engine: str, options: Mapping[str, Any]) -> Any:
        """Return the process, whose end and descriptors `held` frees."""
        self._stderr_fd = os.memfd_create("bbrgym-stderr", os.MFD_CLOEXEC)
        held.callback(os.close, self._stderr_fd)
        fcntl.fcntl(self._stderr_fd, fcntl.F_SETFL, os.O_APPEND)
        self._request_fd = os.eventfd(0, os.EFD_CLOEXEC)
        held.callback(os.close, self._request_fd)
        self._done_fd = os.eventfd(0, os.EFD_CLOEXEC)
        held.callback(os.close, self._done_fd)
        fds = {
            "mailbox_fd": self._mailbox.fd,
            "arrays_fd": self._shared.fd,
            "request_fd": self._request_fd,
            "done_fd": self._done_fd,
        }
        path = [str(entry) for entry in sys.path]
        plugins = {name: built for name, built in PLUGINS.items() if built}  # a class of this process stays here
        what = {"engine": engine, "options": dict(options), "index": self._index, "plugins": plugins}
        # Its own session: Ctrl-C is for the owner.
        process = subprocess.Popen(
            light_command("bbrgym.worlds.worker", json.dumps({"parent_pid": os.getpid(), "path": path, **what, **fds})),
            stdin=subprocess.DEVNULL,
            stdout=self._stderr_fd,
            stderr=self._stderr_fd,
            pass_fds=tuple(fds.values()),
            start_new_session=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # numpy is only a view here
        )
        held.callback(_kill, process, self._owner_pid)
        return process

    def _ask(self, timeout_s: float, *request: Any) -> str:
        """Send a request, wait for the end and return the answer's text.

        Raises:
            ValueError: the engine refused it.
            LateRunFailure: the engine's run was late.
            EngineFailure: the engine failed, the worker died, or did not answer in time.
        """
        with self._in_use:
            self._mailbox.write(*request)
            has_ended, is_done = True, False
            with suppress(ConnectionError):  # a program's socket has ended
                os.write(self._request_fd, _WAKE)
                ready = self._answer.wait(timeout_s)
                has_ended = bool(ready)
                is_done = any(fd == self._done_fd and os.read(fd, len(_WAKE)) for fd, _ in ready)
            if not is_done:
                late = f"no answer within {timeout_s:g} s (timeout_s sets how long to wait)"
                raise EngineFailure(self._why_it_ended() if has_ended else late + self._output_tail())
        outcome, *texts = self._mailbox.read()
        if outcome != "ok":
            raise _FAILURES[outcome](*texts)
        return str(texts[0])

    def _why_it_ended(self) -> str:
        return f"the worker {describe_exit(self._process.wait(_KILL_TIMEOUT_S))}{self._output_tail()}"

    def _output_tail(self) -> str:
        size = os.fstat(self._stderr_fd).st_size
        tail = os.pread(self._stderr_fd, _STDERR_TAIL_BYTES, max(0, size - _STDERR_TAIL_BYTES))
        return output_tail(tail.decode("utf-8", "replace"))


def _kill(process: subprocess.Popen[bytes], owner_pid: int) -> None:
    if os.getpid() == owner_pid:  # a fork of the owner only gives its descriptors back
        process.kill()
        process.wait(_KILL_TIMEOUT_S)
