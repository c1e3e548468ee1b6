# SPDX-License-Identifier: GPL-2.0-only
"""Waits for events, each with a deadline that no machine misses."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE_S = 120.0
_SHARE = 9.0  # of the time that a look takes: waiting leaves nine tenths of a core to what it waits for


def wait_until(condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> None:
    """Look until a condition holds; raise an AssertionError after `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        began_s = time.thread_time()
        if condition():
            return
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s"
        time.sleep(max(0.001, _SHARE * (time.thread_time() - began_s)))


@contextlib.contextmanager
def meanwhile(deed: Callable[[], Any]) -> Iterator[None]:
    """Do `deed` in another thread; at the end wait for it and raise what it raised."""
    errors: list[BaseException] = []

    def do() -> None:
        try:
            deed()
        except BaseException as error:  # noqa: BLE001 - raised below, in the test that it belongs to
            errors.append(error)

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(2 * PATIENCE_S)
    assert not thread.is_alive(), f"not done within {2 * PATIENCE_S} s"
    for error in errors:
        raise error
