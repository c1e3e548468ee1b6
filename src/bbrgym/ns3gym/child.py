# SPDX-License-Identifier: GPL-2.0-only
"""A command in a child process, whose whole process tree ends with the command, with the owner, or on request.

::

    owner                guardian (guardian.py)                   the command
      SIGTERM         ->   subreaper of all below      -------->    ./ns3 -> simulation ...
      <- output, end --    watches the owner's pidfd   <- output -

The owner may be killed at any time: the guardian, in a session of its own, notices it and ends the tree. If the
guardian is killed, the command dies with it, but processes that the command has started may stay.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.processes import describe_exit, light_command, output_tail
from bbrgym.runs.atomic_files import open_to_append

try:
    import psutil  # noqa: F401 - the guardian needs it
except ModuleNotFoundError as error:
    raise MissingExtraError("a program in a process of its own", "ns3gym", error) from error

_KILL_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class ExitStatus:
    """The end of a command."""

    code: int  # exit code; minus the number of the signal that killed it
    output: str  # the end of its output

    def __str__(self) -> str:
        return describe_exit(self.code) + output_tail(self.output)


class Child:
    """A running command, over when the first process ends; all descendants are ended then.

    Args:
        words: the command.
        cwd: directory in which it runs. Default: the current one.
        log: file to which its output is appended. Default: none.
        stdin: descriptor of its standard input. Default: none.

    Attributes:
        pid: of a process that ends with the command.

    Raises:
        ConfigError: the log cannot be written.
    """

    def __init__(
        self, words: Sequence[str], cwd: Path | None = None, log: Path | None = None, stdin: int = subprocess.DEVNULL
    ) -> None:
        try:
            file = open_to_append(Path(os.devnull) if log is None else log, is_own=False)
        except OSError as error:
            raise ConfigError(f"log: {str(log)!r} cannot be written: {error.strerror}") from None
        with file:
            start = {"owner_pid": os.getpid(), "path": [*map(str, sys.path)], "words": list(words)}
            self._guardian = subprocess.Popen(
                light_command("bbrgym.ns3gym.guardian", json.dumps(start | {"log_fd": file.fileno()}), site=False),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                pass_fds=(file.fileno(),),
                start_new_session=True,
            )
        self.pid = self._guardian.pid
        self._status: ExitStatus | None = None
        self._output = select.poll()
        if self._guardian.stdout is not None:
            self._output.register(self._guardian.stdout, select.POLLIN)
        #: Kills the tree and frees its resources; also called at garbage collection and at exit.
        self.close = weakref.finalize(self, _close, self._guardian, os.getpid())

    def wait(self, timeout_s: float) -> ExitStatus | None:
        """Wait for the command's end; return None after the timeout."""
        if self._status is None and self.close.alive:
            if not self._output.poll(timeout_s * 1000.0):
                return None
            report, _ = self._guardian.communicate(timeout=_KILL_TIMEOUT_S)  # it ends as soon as that is read
            code, _, output = report.decode("utf-8", "replace").partition("\n")
            try:
                self._status = ExitStatus(int(code), output)
            except ValueError:  # of the guardian itself
                self._status = ExitStatus(self._guardian.returncode, f"{code}\n{output}")
            self.close()
        return self._status or ExitStatus(self._guardian.returncode, "")  # closed before its end was known

    def kill(self) -> None:
        """Kill the tree, without waiting for the end."""
        self._guardian.terminate()

    def end(self, grace_s: float = 0.0) -> ExitStatus:
        """Wait ``grace_s`` seconds for the command to end, then kill the process tree."""
        status = self.wait(grace_s)
        if status is None:
            self.kill()
            status = self.wait(_KILL_TIMEOUT_S)
        self.close()
        return status or ExitStatus(self._guardian.returncode, "")


def _close(guardian: subprocess.Popen[bytes], owner_pid: int) -> None:
    if os.getpid() == owner_pid and guardian.poll() is None:  # a fork of the owner ends nothing
        guardian.terminate()
        try:
            guardian.wait(_KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # something below it cannot be killed
            guardian.kill()
            guardian.wait(_KILL_TIMEOUT_S)
    if guardian.stdout is not None:
        guardian.stdout.close()
