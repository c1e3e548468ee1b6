# SPDX-License-Identifier: GPL-2.0-only
"""Run a command and end the whole process tree; the argument is a JSON object, see `child.Child`.

The command has this process's standard input. It runs until it ends, its owner ends for any reason, or SIGTERM arrives.
Then all its descendants are killed, also those that left its session or lost their parents: this process is a
subreaper, which inherits them. At last it writes to its standard output: the command's exit code (minus the number of
the signal that killed it), a newline, and the end of the command's output.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from typing import BinaryIO

from bbrgym.processes import open_parent

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_TAIL_BYTES = 16384
_CHUNK_BYTES = 65536  # capacity of a pipe
_CANNOT_START = 127  # as in shells


def main(arguments: list[str]) -> None:
    """Run until the command has ended."""
    start = json.loads(arguments[0])
    owner_fd = open_parent(start["owner_pid"])
    if owner_fd is None:
        return
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    asked_fd, wakeup_fd = os.pipe()
    os.set_blocking(wakeup_fd, False)
    signal.set_wakeup_fd(wakeup_fd)
    signal.signal(signal.SIGTERM, lambda *_: None)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    output_fd, command_fd = os.pipe()
    try:
        command = subprocess.Popen(
            start["words"],
            stdout=command_fd,
            stderr=command_fd,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),  # no other thread is here
        )
    except OSError as error:
        os.write(1, f"{_CANNOT_START}\n{start['words'][0]}: {error.strerror}".encode())
        return
    os.close(command_fd)
    with open(start["log_fd"], "ab") as log:  # noqa: PTH123
        try:
            tail = _watch({owner_fd, asked_fd, os.pidfd_open(command.pid)}, output_fd, log)
        finally:
            command.kill()
            command.wait()
            sys.path[:] = start["path"]
            _kill_descendants()
        while piece := _copy(output_fd, log):
            tail = (tail + piece)[-_TAIL_BYTES:]
    os.write(1, b"%d\n%s" % (command.returncode, tail))


def _watch(ends: set[int], output_fd: int, log: BinaryIO) -> bytes:
    """Copy the output until one of other descriptors is readable; return the end of the output."""
    poll, tail = select.poll(), b""
    for fd in (*ends, output_fd):
        poll.register(fd, select.POLLIN)
    while not ends & {fd for fd, _ in poll.poll()}:  # without a timeout: it lasts as long as the owner
        piece = _copy(output_fd, log)
        tail = (tail + piece)[-_TAIL_BYTES:]
        if not piece:
            poll.unregister(output_fd)  # no writer is left
    return tail


def _copy(output_fd: int, log: BinaryIO) -> bytes:
    piece = os.read(output_fd, _CHUNK_BYTES)
    log.write(piece)
    log.flush()
    return piece


def _kill_descendants() -> None:
    import psutil  # takes long to load

    while children := psutil.Process().children():  # orphans become this process's children at once
        for child in children:
            child.kill()
        psutil.wait_procs(children)
