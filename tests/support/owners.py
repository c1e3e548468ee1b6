# SPDX-License-Identifier: GPL-2.0-only
"""Other processes of Python that own something, and what this process holds."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def another_owner(code: str, *lines: str) -> Iterator[Any]:
    """Run code in another Python, up to where it prints ``ready``; kill it in the end.

    Args:
        code: reads `lines` from its standard input, prints ``ready``, and waits for a further line (`go_on`).
        lines: for its standard input.
    """
    owner: Any = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    with owner:
        try:
            for line in lines:
                tell(owner, line)
            assert owner.stdout.readline() == b"ready\n"
            yield owner
        finally:
            owner.kill()


def tell(owner: Any, line: str = "") -> None:
    """Write a line to an owner's standard input."""
    owner.stdin.write(f"{line}\n".encode())
    owner.stdin.flush()


def open_fds() -> int:
    """Return the number of this process's descriptors."""
    return len(list(Path("/proc/self/fd").iterdir()))


def open_files() -> set[tuple[str, str]]:
    """Return this process's descriptors with what each is: another one may take its number later."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the folder's own
            found.add((descriptor.name, str(descriptor.readlink())))
    return found


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
