# SPDX-License-Identifier: GPL-2.0-only
"""The threads of Polars, started before a command begins the work.

Polars starts them at its first query, which may be the one that writes what was computed for hours: without room for
them it panics, or aborts the process.
"""

from __future__ import annotations

import errno
import io
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LIMITS = {"RLIMIT_AS": "ulimit -v", "RLIMIT_DATA": "ulimit -d"}
_COLUMNS = {"RLIMIT_AS": 0, "RLIMIT_DATA": 5}  # of /proc/self/statm
_PATIENCE_S = 120.0
_TRIAL = """
import resource, sys
import polars
from bbrgym.cli.polars_threads import query, used_bytes
for name, left in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (min(soft, used_bytes(name) + left), hard))
query()
"""


def start_polars() -> None:
    """Start the threads of Polars. Raises OSError: the machine, or a limit of this process, has no room for them."""
    limits = {name: resource.getrlimit(getattr(resource, name))[0] for name in _LIMITS}
    tight = {name: limit for name, limit in limits.items() if limit != resource.RLIM_INFINITY}
    if tight and not _has_room(tight):
        ways = " and ".join(f"{_LIMITS[name]} sets {limit >> 10} KiB" for name, limit in tight.items())
        raise OSError(
            errno.ENOMEM, f"out of memory for the threads of Polars: {ways}; POLARS_MAX_THREADS=1 needs least"
        )
    import polars as pl  # of which not every command has need

    try:
        with _no_stderr():  # a panic writes there
            query()
    except pl.exceptions.PanicException as error:
        reason = str(error).splitlines()[0]
        raise OSError(
            errno.EAGAIN,
            f"Polars cannot start its threads: {reason}; ulimit -u sets how many, POLARS_MAX_THREADS=1 needs least",
        ) from error


def query() -> None:
    """Use what Polars starts threads for: a query, and a file that is written."""
    import polars as pl

    pl.DataFrame({"a": [1]}).group_by("a").len().write_parquet(io.BytesIO())


def used_bytes(limit: str) -> int:
    """Return how much of a limit on memory this process uses."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[_COLUMNS[limit]]) * resource.getpagesize()


def _has_room(tight: dict[str, int]) -> bool:
    """Try to start the threads in a process with as much room as this one: without room, Polars may abort."""
    left = [text for name, limit in tight.items() for text in (name, str(max(0, limit - used_bytes(name))))]
    command = [sys.executable, "-c", _TRIAL, *left]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    quiet = subprocess.DEVNULL
    done = subprocess.run(
        command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, timeout=_PATIENCE_S, check=False
    )
    return done.returncode == 0


@contextmanager
def _no_stderr() -> Iterator[None]:
    kept = os.dup(2)
    try:
        with suppress(OSError):
            sys.stderr.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
