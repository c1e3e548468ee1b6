# SPDX-License-Identifier: GPL-2.0-only
"""Looks at worker processes."""

import select

from owners import children


def workers(owner_pid=None):
    """The living workers of a process, this one unless given; see `owners.children`."""
    return children(lambda child: "bbrgym.worlds.worker" in child.cmdline(), owner_pid)


def is_computing(process):
    """Return a condition: a process has computed for 20 ms more (two of the kernel's ticks) since this call."""
    enough_s = process.cpu_times().user + 0.02
    return lambda: process.cpu_times().user >= enough_s


def ends_within(pid_fd, timeout_s):
    """Whether the process behind a pidfd ends in time."""
    poll = select.poll()
    poll.register(pid_fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
