# SPDX-License-Identifier: GPL-2.0-only
"""Signals that end a command."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_AGAIN_S = 0.01  # a destructor has ended by then, or the signal comes again

came: list[int] = []
"""Numbers of the signals that interrupted this process."""


def interrupt(number: int, _: object) -> NoReturn:
    """Raise KeyboardInterrupt and note the signal: an import may turn the exception into another error."""
    came.append(number)
    if number == signal.SIGTERM:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the system's own: ends native code too
    raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at Ctrl-C and at the first SIGTERM inside the block, so that all resources are closed.

    A second SIGTERM ends the process at once, also while they are closed; a shell then reports 143. Python discards
    what is raised in a destructor or in a callback of the garbage collector: an interrupt that is discarded is raised
    again soon after. No effect outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_discarded(unraisable: UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            hook(unraisable)
        elif threading.current_thread() is threading.main_thread():
            alarms.append(signal.signal(signal.SIGALRM, interrupt))
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)  # not at once: this is still within the destructor

    alarms: list[Any] = []  # the handlers before
    hook, sys.unraisablehook = sys.unraisablehook, on_discarded
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if alarms:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, alarms[0])
        signal.signal(signal.SIGTERM, before)
        sys.unraisablehook = hook
