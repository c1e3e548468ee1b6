# SPDX-License-Identifier: GPL-2.0-only
"""Looks at worker processes, with a deadline on every look."""

import os
import select
import time
from pathlib import Path

import psutil


def workers(owner_pid=None):
    """The living workers of a process, this one unless given."""
    return [child for child in psutil.Process(owner_pid).children() if _is_worker(child)]


def _is_worker(process):
    try:
        return any(word.endswith("worlds/worker.py") for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def wait_until(condition, timeout_s=20.0):
    """Looks until a condition holds; fails after a while."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        os.sched_yield()


def has_computed(process, for_s):
    """Whether a process has computed for so long since it began."""
    return process.cpu_times().user > for_s


def ends_within(pid_fd, timeout_s):
    """Whether the process behind a pidfd ends in time."""
    poll = select.poll()
    poll.register(pid_fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def open_fds():
    """Number of this process's descriptors."""
    return len(list(Path("/proc/self/fd").iterdir()))
