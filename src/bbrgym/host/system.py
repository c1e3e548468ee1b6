# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's settings of congestion controls, in this network namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_IPV4 = Path("/proc/sys/net/ipv4")


def available_controls() -> list[str]:
    """Return the names that a socket may choose from."""
    return (_IPV4 / "tcp_available_congestion_control").read_text().split()


def default_control() -> str:
    """Return the name that new sockets take."""
    return (_IPV4 / "tcp_congestion_control").read_text().strip()


def set_default_control(name: str) -> None:
    """Change what new sockets take."""
    (_IPV4 / "tcp_congestion_control").write_text(name)


def network_namespaces() -> Iterator[str]:
    """Yield a file of each network namespace that has a name or a process, once each."""
    seen: set[tuple[int, int]] = set()
    named = Path("/run/netns")
    files = [
        Path("/proc/self/ns/net"),
        *Path("/proc").glob("[0-9]*/ns/net"),
        *(named.iterdir() if named.is_dir() else ()),
    ]
    for file in files:
        try:
            at = file.stat()
        except OSError:  # the process ended
            continue
        if (at.st_dev, at.st_ino) not in seen:
            seen.add((at.st_dev, at.st_ino))
            yield str(file)
