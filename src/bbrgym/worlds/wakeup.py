# SPDX-License-Identifier: GPL-2.0-only
"""Short waits between an owner and a worker."""

from __future__ import annotations

import os
import select
import time

_LOOKS = 100  # about 0.1 ms
_QUICK_S = 200e-6
_MAX_TIMEOUT_MS = 2**31 - 1


class Wakeup:
    """A wait for the first of several descriptors.

    If the last wait was short, it polls for a while before it sleeps: to be woken on an idle core takes longer than a
    short step of a simulation.
    """

    def __init__(self, *fds: int) -> None:
        self._poll = select.poll()
        for fd in fds:
            self._poll.register(fd, select.POLLIN)
        self._is_quick = False

    def wait(self, timeout_s: float) -> list[tuple[int, int]]:
        """Return the descriptors that are ready; none after the timeout."""
        begin_s = time.perf_counter()
        ready: list[tuple[int, int]] = []
        for _ in range(_LOOKS if self._is_quick else 0):
            ready = self._poll.poll(0)
            if ready:
                break
            os.sched_yield()  # the other side may want this core
        else:
            ready = self._poll.poll(min(timeout_s * 1000.0, _MAX_TIMEOUT_MS))
        self._is_quick = time.perf_counter() - begin_s < _QUICK_S
        return ready
