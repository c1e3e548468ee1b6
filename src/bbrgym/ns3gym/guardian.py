# SPDX-License-Identifier: GPL-2.0-only
"""Run a command and end it with all its descendants; arguments: OWNER_PID LOG_FD WORD...

Started by `child.Child`, in a session of its own. The command runs until it ends, the owner shuts its end of this
process's standard input, the owner has ended for any reason, or SIGTERM arrives. Then all its descendants are killed,
including those that left its session or lost their parents: this process is a subreaper, which inherits them. At last
it writes to its standard output: the command's exit code (minus the number of the signal that killed it), a newline,
and the last bytes of the output. It avoids modules that take long to load (pathlib, subprocess, json).
"""

from __future__ import annotations

import ctypes
import os
import select
import signal

from bbrgym.processes import open_parent

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_REQUEST_FD = 0
_REPORT_FD = 1
_NO_LOG = -1
_TAIL_BYTES = 16384
_CHUNK_BYTES = 65536  # capacity of a pipe
_RESCAN_S = 0.05  # for processes that were started while others were killed
_CANNOT_START = 127  # as in shells
_NONE_ENDED = (0, 0)


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
    signals_fd = _take_signals()
    output = Output(int(log_fd))
    pid = _start(words, output)
    try:
        codes = _watch(pid, output, signals_fd, owner_pid_fd)
    finally:
        killed = _kill_all()
    output.take_rest()
    os.write(_REPORT_FD, b"%d\n%s" % ((killed | codes)[pid], output.tail))


def _take_signals() -> int:
    """Return a descriptor of the signals that arrive, and reset inherited settings.

    Ctrl-C and a lost terminal are left to the owner. They have handlers and are not ignored: the command would inherit
    that.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    arrivals_fd, wakeup_fd = os.pipe()
    os.set_blocking(wakeup_fd, False)
    signal.set_wakeup_fd(wakeup_fd)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return arrivals_fd


def _start(words: list[str], output: Output) -> int:
    pid = os.fork()
    if pid:
        os.close(output.command_fd)
        return pid
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # if this guardian is killed
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.command_fd, 1)
        os.dup2(output.command_fd, 2)
        os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_START)


def _watch(pid: int, output: Output, signals_fd: int, owner_pid_fd: int) -> dict[int, int]:
    """Wait until the command has ended or must be ended; return the exit codes of the last processes that ended."""
    poll = select.poll()
    for fd in (_REQUEST_FD, signals_fd, owner_pid_fd, output.fd):
        poll.register(fd, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}  # without a timeout: it lasts as long as the owner
        if output.fd in ready and not output.take():
            poll.unregister(output.fd)  # no writer is left
        signals = os.read(signals_fd, _CHUNK_BYTES) if signals_fd in ready else b""
        codes = _reap() if signal.SIGCHLD in signals else {}
        if pid in codes or signal.SIGTERM in signals or ready & {_REQUEST_FD, owner_pid_fd}:
            return codes


def _kill_all() -> dict[int, int]:
    """Kill every descendant, and return their exit codes. Orphans become this process's children at once."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    codes: dict[int, int] = {}
    while children := _children():
        for child in children:
            os.kill(child, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, _RESCAN_S)
        codes |= _reap()
    return codes


def _reap() -> dict[int, int]:
    """Return the exit codes of the children that have ended."""
    codes: dict[int, int] = {}
    try:
        while (ended := os.waitpid(-1, os.WNOHANG)) != _NONE_ENDED:
            codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
    except ChildProcessError:  # there are no children
        pass
    return codes


def _children() -> list[int]:
    """Return the children, those that have ended included until they are reaped."""
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
