# SPDX-License-Identifier: GPL-2.0-only
"""A command in a child process; its whole process tree ends with it, with its owner, or when asked to.

::

    owner                guardian (guardian.py)                   the command
      shut: end it    ->   subreaper of all below      -------->    ./ns3 -> simulation ...
      <-- report, end --   watches the owner's pidfd   <- output -

The owner may be killed at any time: the guardian, in a session of its own, notices it and ends the tree. If the
guardian is killed, the command dies with it, but processes that the command has started may stay.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bbrgym.errors import ConfigError
from bbrgym.processes import how_it_ended, last_words, light_command
from bbrgym.runs.atomic_files import open_to_append

_KILL_TIMEOUT_S = 10.0
_NO_LOG = -1


@dataclass(frozen=True)
class Ending:
    """The end of a command.

    Attributes:
        code: exit code; minus the number of the signal that killed it; None if the guardian itself was killed.
        output: the end of its output.
    """

    code: int | None
    output: str

    def __str__(self) -> str:
        how = "was lost with the process that watches it" if self.code is None else how_it_ended(self.code)
        return how + self.last_words

    @property
    def last_words(self) -> str:
        """The last lines of its output, as the end of a sentence."""
        return last_words(self.output)


class Child:
    """A running command. It has ended when its first process has; its descendants are ended then.

    Args:
        words: the command.
        cwd: directory in which it runs. Default: the current one.
        log: file to which its output is appended. Default: none.

    Raises:
        ConfigError: the log cannot be written.
    """

    def __init__(self, words: Sequence[str], cwd: Path | None = None, log: Path | None = None) -> None:
        self._ending: Ending | None = None
        opened: AbstractContextManager[BinaryIO | None] = nullcontext()
        try:
            if log is not None:
                opened = open_to_append(log, is_own=False)
        except OSError as error:
            raise ConfigError(f"log: {str(log)!r} cannot be written: {error.strerror}") from None
        self._request, request_end = socket.socketpair()
        with request_end, opened as file:
            log_fd = _NO_LOG if file is None else file.fileno()
            self._guardian = subprocess.Popen(
                light_command("bbrgym.ns3gym.guardian", str(os.getpid()), str(log_fd), *words, site=False),
                stdin=request_end.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                pass_fds=() if file is None else (log_fd,),
                start_new_session=True,
            )
        self._report = select.poll()
        if self._guardian.stdout is not None:
            self._report.register(self._guardian.stdout)
        #: Kills the tree and frees its resources; also called at garbage collection and at exit.
        self.close = weakref.finalize(self, _close, self._guardian, self._request, os.getpid())

    def wait(self, timeout_s: float) -> Ending | None:
        """Wait for the command's end; return None after the timeout."""
        if self._ending is None and self.close.alive:
            if not self._report.poll(timeout_s * 1000.0):
                return None
            report, _ = self._guardian.communicate(timeout=_KILL_TIMEOUT_S)  # it ends as soon as that is read
            self._ending = _ending_of(report.decode("utf-8", "replace"))
            self.close()
        return self._ending or Ending(None, "")  # closed before its end was known

    def end(self, grace_s: float = 0.0) -> Ending:
        """Wait ``grace_s`` seconds for the command to end, then kill its tree."""
        ending = self.wait(grace_s)
        if ending is None:
            _ask_to_end(self._request)
            ending = self.wait(_KILL_TIMEOUT_S)
        self.close()
        return ending or Ending(None, "")


def _ending_of(report: str) -> Ending:
    first, _, output = report.partition("\n")
    try:
        return Ending(int(first), output)
    except ValueError:  # the guardian failed; its report is the reason, if it has one
        return Ending(None, report)


def _ask_to_end(request: socket.socket) -> None:
    with suppress(OSError):  # the guardian has ended
        request.shutdown(socket.SHUT_WR)  # a close would not be seen while a fork of the owner holds the socket too


def _close(guardian: subprocess.Popen[bytes], request: socket.socket, owner_pid: int) -> None:
    if os.getpid() == owner_pid and guardian.poll() is None:  # a fork of the owner ends nothing
        _ask_to_end(request)
        try:
            guardian.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # something below it cannot be killed
            guardian.kill()
            guardian.wait(_KILL_TIMEOUT_S)
    request.close()
    if guardian.stdout is not None:
        guardian.stdout.close()
