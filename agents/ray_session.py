# SPDX-License-Identifier: GPL-2.0-only
"""A connection to Ray (extra `ray`), without a dashboard and without usage reports."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bbrgym.errors import ConfigError, MissingExtraError, one_line


@contextmanager
def ray_session(address: str | None, who: str, num_cpus: int | None = None) -> Iterator[Any]:
    """Yield the connected module `ray`; shut Ray down at the end unless the caller had connected.

    The address is ``auto`` or ``HOST:PORT`` of a cluster; None starts one on this machine.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: there is no cluster at the address.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault(
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
    )  # or else Ray prints a warning about its own change
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingExtraError(who, "ray", error) from error
    if ray.is_initialized():
        yield ray
        return
    own: dict[str, Any] = {"num_cpus": num_cpus, "include_dashboard": False} if address is None else {}
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address or "local", logging_level=logging.ERROR, log_to_driver=False, **own)
    except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        reason = one_line(error)
        raise ConfigError(f"address: cannot connect to a Ray cluster at {address!r}: {reason}") from error
    if threading.current_thread() is threading.main_thread() and before is not None:
        signal.signal(signal.SIGTERM, before)  # Ray's handler aborts the process, and nothing is closed
    try:
        yield ray
    finally:
        ray.shutdown()
