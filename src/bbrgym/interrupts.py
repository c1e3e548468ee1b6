# SPDX-License-Identifier: GPL-2.0-only
"""Signals that end a command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Treat the first SIGTERM as Ctrl-C inside the block, so that all resources are closed.

    A second one ends the process at once, also while they are closed; a shell then reports 143. No effect outside the
    main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the system's own: ends native code too
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
