# SPDX-License-Identifier: GPL-2.0-only
"""A command in a child process; its whole process tree ends with it, with its owner, or when asked to.

::

    owner                       guardian (guardian.py)              the command
      socket  <-- one packet --   subreaper of all below   -------->  ./ns3 -> simulation ...
              -- shut: end it ->  watches the owner too    <-output-
      watches the guardian's pidfd

The owner may be killed at any time: the guardian, in a session of its own, notices it and ends the tree. If the
guardian is killed, the command dies with it, but processes that the command has started may stay.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bbrgym.errors import ConfigError
from bbrgym.processes import light_command
from bbrgym.runs.atomic_files import open_to_append

_KILL_TIMEOUT_S = 10.0
_NO_LOG = "-1"
_REPORT_BYTES = 65536
_LAST_LINES = 20


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
        return self._how() + self.last_words

    @property
    def last_words(self) -> str:
        """The last lines of its output, as the end of a sentence."""
        lines = self.output.strip().splitlines()[-_LAST_LINES:]
        return "; it last wrote:\n" + "\n".join(lines) if lines else ""

    def _how(self) -> str:
        if self.code is None:
            return "was lost with the process that watches it"
        if self.code >= 0:
            return f"exited with code {self.code}"
        try:
            return f"was killed by {signal.Signals(-self.code).name}"
        except ValueError:  # a real-time signal has no name
            return f"was killed by signal {-self.code}"


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
        with ExitStack() as held:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            held.callback(self._socket.close)
            with theirs:
                self._guardian = _spawn(words, theirs.fileno(), cwd, log)
            held.callback(_end, self._guardian, self._socket, os.getpid())
            self.ended_fd = os.pidfd_open(self._guardian.pid)
            held.callback(os.close, self.ended_fd)
            self._ended = select.poll()
            self._ended.register(self.ended_fd, select.POLLIN)
            #: Kills the tree and frees its resources; also called at garbage collection and at exit.
            self.close = weakref.finalize(self, held.pop_all().close)

    def wait(self, timeout_s: float) -> Ending | None:
        """Wait for the command's end; return None after the timeout. `ended_fd` is readable from the end on."""
        if self._ending is None:
            if not self.close.alive:  # closed before its end was known
                self._ending = Ending(None, "")
            elif self._ended.poll(timeout_s * 1000.0):
                self._ending = self._read_report()
                self.close()
        return self._ending

    def end(self, grace_s: float = 0.0) -> Ending:
        """Wait ``grace_s`` seconds for the command to end, then kill its tree."""
        ending = self.wait(grace_s)
        if ending is None:
            self._socket.shutdown(socket.SHUT_WR)
            ending = self.wait(_KILL_TIMEOUT_S)
        self.close()
        return ending or Ending(None, "")

    def _read_report(self) -> Ending:
        report = self._read().decode("utf-8", "replace")
        first, _, output = report.partition("\n")
        try:
            return Ending(int(first), output)
        except ValueError:  # the guardian failed; its report is the reason, if it has one
            return Ending(None, report)

    def _read(self) -> bytes:
        """Return everything that the guardian wrote before it ended."""
        read = b""
        while True:
            try:
                packet = self._socket.recv(_REPORT_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:  # a fork of the owner holds the other end too
                return read
            if not packet:
                return read
            read += packet


def _spawn(words: Sequence[str], socket_fd: int, cwd: Path | None, log: Path | None) -> subprocess.Popen[bytes]:
    with ExitStack() as held:
        log_fd = _NO_LOG
        pass_fds: tuple[int, ...] = ()
        if log is not None:
            try:
                file = held.enter_context(open_to_append(log, is_own=False))
            except OSError as error:
                raise ConfigError(f"log: {str(log)!r} cannot be written: {error.strerror}") from None
            log_fd, pass_fds = str(file.fileno()), (file.fileno(),)
        return subprocess.Popen(
            light_command("bbrgym.ns3gym.guardian", str(os.getpid()), log_fd, *words, site=False),
            stdin=subprocess.DEVNULL,
            stdout=socket_fd,
            stderr=socket_fd,
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,
        )


def _end(guardian: subprocess.Popen[bytes], to_guardian: socket.socket, owner_pid: int) -> None:
    if os.getpid() != owner_pid:  # a fork of the owner only closes its descriptors
        return
    if guardian.poll() is None:
        to_guardian.shutdown(socket.SHUT_WR)
        try:
            guardian.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # something below it cannot be killed
            guardian.kill()
            guardian.wait(_KILL_TIMEOUT_S)
