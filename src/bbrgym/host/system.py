# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's settings of congestion controls, in this network namespace."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

_IPV4 = Path("/proc/sys/net/ipv4")
_OWN_NAMESPACE, _NAMED = Path("/proc/self/ns/net"), Path("/run/netns")
_NS_GET_NSTYPE, _CLONE_NEWNET = 0xB703, 0x40000000
_SOCK_DIAG, _BY_FAMILY, _REQUEST_DUMP, _DONE_OR_ERROR = 4, 20, 0x301, (2, 3)  # netlink's numbers in Linux's ABI
_INET_DIAG_CONG, _TCP_LISTEN = 4, 10
_TIMEOUT_S = 10.0

Result = TypeVar("Result")


def available_controls() -> list[str]:
    """Return the names that a socket may choose from."""
    return (_IPV4 / "tcp_available_congestion_control").read_text().split()


def default_control() -> str:
    """Return the name that new sockets take."""
    return (_IPV4 / "tcp_congestion_control").read_text().strip()


def set_default_control(*names: str) -> str:
    """Let new sockets take the first of some controls that this network namespace may have, and return its name."""
    for name in names[:-1]:
        with suppress(FileNotFoundError, PermissionError):
            return set_default_control(name)
    (_IPV4 / "tcp_congestion_control").write_text(names[-1])
    return names[-1]


def within(namespace: str, act: Callable[[], Result]) -> Result:
    """Return what a function returns in a network namespace, given by a file: in a thread that ends there."""

    def enter() -> Result:
        with Path(namespace).open() as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "cannot enter the network namespace", namespace)
        return act()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(enter).result()


def network_namespaces() -> Iterator[tuple[str, str]]:
    """Yield a name and an open file of each network namespace that has a name or a process, this one first."""
    own, seen = _OWN_NAMESPACE.stat(), set()
    files = [
        ("of this process", _OWN_NAMESPACE),
        *((one.name, one) for one in (_NAMED.iterdir() if _NAMED.is_dir() else ())),
        *((f"of process {one.parts[2]}", one) for one in Path("/proc").glob("[0-9]*/ns/net")),
    ]
    for name, file in files:
        try:
            at = file.stat()
            if at.st_dev != own.st_dev or not stat.S_ISREG(at.st_mode) or at.st_ino in seen:
                continue  # also whatever else stands in the folder
            place = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # the process ended
            continue
        seen.add(at.st_ino)
        try:
            if fcntl.ioctl(place, _NS_GET_NSTYPE) == _CLONE_NEWNET:
                yield f"the network namespace {name}", f"/proc/self/fd/{place}"
        finally:
            os.close(place)


def listening(name: str) -> list[str]:
    """Return the addresses at which sockets of this network namespace listen and give a control to connections."""
    attribute = struct.pack("=HH", 4 + len(name) + 1, _INET_DIAG_CONG) + name.encode() + b"\0"
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        asked = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 1 << _INET_DIAG_CONG - 1, 1 << _TCP_LISTEN)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.settimeout(_TIMEOUT_S)
            kernel.send(struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + asked)
            kind = 0
            while kind not in _DONE_OR_ERROR:
                data = kernel.recv(1 << 20)
                while data and kind not in _DONE_OR_ERROR:
                    length, kind = struct.unpack_from("=IH", data)
                    message, data = data[16:length], data[(length + 3) // 4 * 4 :]
                    if attribute in message:
                        (port,), at = struct.unpack_from("!H", message, 4), message[8:24]
                        host = socket.inet_ntop(family, at[:4] if family == socket.AF_INET else at)
                        found.append(f"{host}:{port}" if family == socket.AF_INET else f"[{host}]:{port}")
    return found
