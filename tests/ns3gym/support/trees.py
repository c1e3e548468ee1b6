# SPDX-License-Identifier: GPL-2.0-only
"""Trees of processes that can be found again."""

import psutil
from owners import children


def marked(mark):
    """Return the living processes with a mark among their arguments, but for guardians."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if any(mark in word for word in words) and not is_guardian(words):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
            continue
    return found


def is_guardian(words):
    return "bbrgym.ns3gym.guardian" in words


def guardians(owner_pid=None):
    """Return the living guardians that a process started, this one unless given; see `owners.children`."""
    return children(lambda child: is_guardian(child.cmdline()), owner_pid)
