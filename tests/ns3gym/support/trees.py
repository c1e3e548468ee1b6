# SPDX-License-Identifier: GPL-2.0-only
"""Trees of processes that can be found again."""

import sys
import uuid

import psutil
from owners import children

#: A Python that starts another one, in a session of its own and lost by its parent, and waits as that does.
BRANCH = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]])
time.sleep(600)
"""


class Tree:
    """A command of three processes: a shell, a Python below it, a Python that is an orphan of that one."""

    def __init__(self):
        self.mark = f"tree-{uuid.uuid4()}"
        self.words = ["sh", "-c", f"{sys.executable} -c '{BRANCH}' {self.mark}; true"]

    def living(self):
        return marked(self.mark)

    def has_grown(self):
        return len(self.living()) == 3

    def is_gone(self):
        return not self.living()


def marked(mark):
    """The living processes, but for guardians, which have a mark among their arguments."""
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
    """The living guardians that a process started, this one unless given; see `owners.children`."""
    return children(lambda child: is_guardian(child.cmdline()), owner_pid)
