# SPDX-License-Identifier: GPL-2.0-only
"""The process in which an engine runs, one scenario after the other.

`worker_engine.WorkerEngine` starts it with one argument: a JSON object of the parent's pid, its `sys.path`, the
engine's class and options, the plugins that it loads, the index of its world and the numbers of the inherited
descriptors. It waits for a request, carries it out, says done, and ends when its parent does.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys

from bbrgym.processes import end_with_parent

_STDERR_LIMIT_BYTES = 1 << 20
_OWNER_SLEEPS_S = 3600.0  # and again, while it lives


def _cut_stderr() -> None:
    """Empty a long standard error, which lies in memory; the owner shows only the last lines."""
    if os.fstat(2).st_size > _STDERR_LIMIT_BYTES:
        os.ftruncate(2, 0)


def main(arguments: list[str]) -> None:
    """Run until killed."""
    start = json.loads(arguments[0])
    end_with_parent(start["parent_pid"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path[:] = start["path"]
    from bbrgym.worlds.engine import engine_class
    from bbrgym.worlds.layout import Mailbox, SharedArrays
    from bbrgym.worlds.server import Server
    from bbrgym.worlds.wakeup import Wakeup

    module = importlib.import_module(start["engine"].rpartition(".")[0])
    for name, built in start["plugins"].items() if hasattr(module, "load_plugin") else ():
        if built.endswith(".so"):
            module.load_plugin(name, built)
        elif hasattr(module, "load_class"):
            from bbrgym.controller import Controller, class_of

            sys.modules["bbrgym"].Controller = Controller  # type: ignore[attr-defined] # of the package, light here
            module.load_class(name, class_of(built))
    mailbox, shared = Mailbox(start["mailbox_fd"]), SharedArrays(start["arrays_fd"])
    server = Server(engine_class(start["engine"]), start["options"], mailbox, shared, start["index"])
    request_fd = start["request_fd"]
    request = Wakeup(request_fd)
    while True:
        if not request.wait(_OWNER_SLEEPS_S):
            continue
        os.eventfd_read(request_fd)
        server.serve()
        os.eventfd_write(start["done_fd"], 1)
        _cut_stderr()
