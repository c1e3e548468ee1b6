# SPDX-License-Identifier: GPL-2.0-only
"""The process in which a world's simulation runs, one scenario after the other.

Started as a script by `worker_engine.WorkerEngine`, with one argument: a JSON object of the parent's pid, its
`sys.path`, the engine's class and options, the index of its world and the numbers of the inherited descriptors. It
waits for a request, carries it out, says done, and ends when its parent does.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import sys
import threading
import types
from pathlib import Path

_STDERR_LIMIT_BYTES = 1 << 20
_OWNER_SLEEPS_S = 3600.0  # and again, while it lives


def _die_with(parent_pid: int) -> None:
    """Ends this process, whatever it is doing, as soon as the parent has ended.

    PR_SET_PDEATHSIG would fire at the end of the thread that started us, and the end of a pipe would not be
    seen while a fork of the parent holds it too.
    """
    parent_fd = os.pidfd_open(parent_pid)
    if os.getppid() != parent_pid:  # it ended before we looked
        os._exit(0)

    def wait() -> None:
        poll = select.poll()
        poll.register(parent_fd, select.POLLIN)
        poll.poll()  # the one wait without a timeout: it lasts as long as the parent
        os._exit(0)

    threading.Thread(target=wait, daemon=True, name="watch-parent").start()


def _skip_package_init() -> None:
    """Makes submodules importable without the package's `__init__`, which loads all that a user needs."""
    worlds = Path(__file__).resolve().parent
    for name, folder in (("bbrgym", worlds.parent), ("bbrgym.worlds", worlds)):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


def _cut_stderr() -> None:
    """The owner shows the last lines only; a talkative engine must not fill the memory."""
    if os.fstat(2).st_size > _STDERR_LIMIT_BYTES:
        os.ftruncate(2, 0)


def main() -> None:
    """Runs until killed."""
    start = json.loads(sys.argv[1])
    _die_with(start["parent_pid"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the owner decides what Ctrl-C ends
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path[:] = start["path"]
    _skip_package_init()
    from bbrgym.worlds.layout import Mailbox, SharedArrays
    from bbrgym.worlds.server import Server
    from bbrgym.worlds.wakeup import Wakeup

    module, _, name = start["engine"].rpartition(".")
    engine = getattr(importlib.import_module(module), name)
    mailbox, shared = Mailbox(start["mailbox_fd"]), SharedArrays(start["arrays_fd"])
    server = Server(engine, start["options"], mailbox, shared, start["index"])
    request_fd = start["request_fd"]
    request = Wakeup(request_fd)
    while True:
        if not request.wait(_OWNER_SLEEPS_S):
            continue
        os.eventfd_read(request_fd)
        server.serve()
        os.eventfd_write(start["done_fd"], 1)
        _cut_stderr()


if __name__ == "__main__":
    main()
