# SPDX-License-Identifier: GPL-2.0-only
"""Processes that end with the process that started them.

Run as a script, ``python -I processes.py MODULE ARGUMENTS...``, it calls ``main(ARGUMENTS)`` of a module of this
package without the packages' ``__init__``, which load all that a user needs. It imports nothing that takes long to
load.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import types

_LAST_LINES = 20


def light_command(module: str, *arguments: str, site: bool = True) -> list[str]:
    """Return the command that runs ``main(arguments)`` of a module of this package in a process of its own.

    Environment variables of Python's do not reach it: they are meant for the caller.

    Args:
        module: full name of the module.
        arguments: of its function ``main``, which takes a list of them.
        site: whether installed packages can be imported.
    """
    return [sys.executable, "-I", *([] if site else ["-S"]), os.path.abspath(__file__), module, *arguments]  # noqa: PTH100


def describe_exit(code: int) -> str:
    """Describe the end of a process, from the exit code: minus the signal's number if killed."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-code}"


def output_tail(output: str) -> str:
    """Return the last lines of a process's output, as the end of a sentence."""
    lines = output.strip().splitlines()[-_LAST_LINES:]
    return "; it last wrote:\n" + "\n".join(lines) if lines else ""


def open_parent(parent_pid: int) -> int | None:
    """Return a descriptor that is readable once the parent has ended; None if already ended.

    PR_SET_PDEATHSIG would fire at the end of the thread that started this process, and the end of a pipe would not be
    seen while a fork of the parent holds it too.
    """
    try:
        parent_fd = os.pidfd_open(parent_pid)
    except ProcessLookupError:
        return None
    if os.getppid() == parent_pid:
        return parent_fd
    os.close(parent_fd)
    return None


def end_with_parent(parent_pid: int, *, grace_s: float = 0.0) -> None:
    """End this process, in any state, as soon as the parent has ended.

    Args:
        parent_pid: the parent when this process was started.
        grace_s: time in seconds between SIGTERM and the end by force. Default: no SIGTERM, the end at once.
    """
    import threading

    parent_fd = open_parent(parent_pid)
    if parent_fd is None:
        os._exit(1)

    def wait() -> None:
        poll = select.poll()
        poll.register(parent_fd, select.POLLIN)
        poll.poll()  # a wait without a timeout: it lasts as long as the parent
        if grace_s > 0.0:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(grace_s)
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="watch-parent").start()


def _run(module: str, arguments: list[str]) -> None:
    """Call a module's ``main`` with empty packages in place of the module's parents."""
    package, folder = "", os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    for part in module.split(".")[:-1]:
        package, folder = f"{package}.{part}".lstrip("."), f"{folder}/{part}"
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [folder]
    sys.modules["bbrgym.processes"] = sys.modules[__name__]
    __import__(module)
    sys.modules[module].main(arguments)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2:])
