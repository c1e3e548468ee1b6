# SPDX-License-Identifier: GPL-2.0-only
"""Run a command and end it with all its descendants; arguments: OWNER_PID LOG_FD WORD...

Started by `child.Child`, in a session of its own. Its standard output is one end of a socket; the owner holds the
other. The command runs until it ends, the owner shuts its end, or the owner has ended for any reason. Then all its
descendants are killed, including those that left its session or lost their parents: this process is a subreaper,
which inherits them. At last it writes one packet: the command's exit code (minus the number of the signal that killed
it), a newline, and the last bytes of the output. It avoids modules that take long to load (pathlib, subprocess,
json).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

from bbrgym.processes import open_parent

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_OWNER_FD = 1
_NO_LOG = -1
_TAIL_BYTES = 16384  # fits the socket's buffer, so that the report never waits for the owner
_CHUNK_BYTES = 65536  # capacity of a pipe
_REAP_EVERY_MS = 1000.0  # orphans of the command, which become this process's children
_RESCAN_S = 0.05  # for processes that were started while others were killed
_CANNOT_START = 127  # as in shells


class Output:
    """Output of the command: its end is kept, and all of it is written to a log file if there is one."""

    def __init__(self, log_fd: int) -> None:
        self.fd, self.command_fd = os.pipe()
        os.set_blocking(self.fd, False)
        self.tail = b""
        self._log_fd = log_fd

    def take(self) -> bool:
        """Read a piece; return False if there was none."""
        try:
            piece = os.read(self.fd, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        self.tail = (self.tail + piece)[-_TAIL_BYTES:]
        if self._log_fd != _NO_LOG:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(self._log_fd, rest) :]
        return bool(piece)

    def take_rest(self) -> None:
        """Read the output written before the command ended, without waiting for other writers."""
        while self.take():
            pass


def main(arguments: list[str]) -> None:
    """Run until the command has ended."""
    owner_pid, log_fd, *words = arguments
    owner_pid_fd = open_parent(int(owner_pid))
    if owner_pid_fd is None:
        return
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _set_signals()
    output = Output(int(log_fd))
    pid = _start(words, output)
    try:
        codes = _watch(pid, output, owner_pid_fd)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        killed = _kill_all()
    output.take_rest()
    os.write(_OWNER_FD, b"%d\n%s" % ((killed | codes)[pid], output.tail))


def _set_signals() -> None:
    """Reset inherited signal settings, and leave Ctrl-C and a lost terminal to the owner."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("the guardian was asked to end"))


def _start(words: list[str], output: Output) -> int:
    pid = os.fork()
    if pid:
        os.close(output.command_fd)
        return pid
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # if this guardian is killed
        os.dup2(output.command_fd, 1)
        os.dup2(output.command_fd, 2)
        _restore_signals()
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_START)


def _restore_signals() -> None:
    """Let the command ignore no signal, not even those that this process ignores (SIGINT in a shell's background)."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)


def _watch(pid: int, output: Output, owner_pid_fd: int) -> dict[int, int]:
    """Wait until the command has ended or must be ended; return the exit codes of the last processes that ended."""
    poll = select.poll()
    for fd in (_OWNER_FD, owner_pid_fd, output.fd, os.pidfd_open(pid)):
        poll.register(fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll(_REAP_EVERY_MS)}  # again and again, as long as the owner lives
        if output.fd in ready and not output.take():
            poll.unregister(output.fd)  # no writer is left
        codes = _reap()
        if pid in codes or ready & {_OWNER_FD, owner_pid_fd}:
            return codes


def _kill_all() -> dict[int, int]:
    """Kill every descendant, and return their exit codes. Orphans become this process's children at once."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    codes: dict[int, int] = {}
    while _has_children():
        for child in _children():
            os.kill(child, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, _RESCAN_S)
        codes |= _reap()
    return codes


def _reap() -> dict[int, int]:
    """Return the exit codes of the children that have ended."""
    codes: dict[int, int] = {}
    while _has_children():
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        codes[pid] = os.waitstatus_to_exitcode(status)
    return codes


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    me = str(os.getpid())
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and _parent(name) == me]  # noqa: PTH208


def _parent(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123
            text = stat.read().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return ""
    return text.rpartition(")")[2].split()[1]  # a name may contain ")"


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
