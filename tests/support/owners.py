# SPDX-License-Identifier: GPL-2.0-only
"""Other processes of Python that own something, and what this process holds."""

import contextlib
import gc
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from waiting import wait_until

#: Children that this process had before the test that runs: others forgot them, and they may end at any time.
_earlier: set[psutil.Process] = set()

_CAPABILITIES = "+dac_override,+dac_read_search"
#: Before a command: another user than root, who has no limit of threads, with the right to read root's Python.
SOMEBODY = (
    ["setpriv", "--reuid=54321", f"--inh-caps={_CAPABILITIES}", f"--ambient-caps={_CAPABILITIES}"]
    if os.geteuid() == 0
    else []
)


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


@contextlib.contextmanager
def only_own_children() -> Iterator[None]:
    """Let `children` leave out those that this process has now."""
    _earlier.update(psutil.Process().children(recursive=True))
    try:
        yield
    finally:
        _earlier.clear()


def children(
    is_one: Callable[[psutil.Process], bool], owner_pid: int | None = None, *, recursive: bool = False
) -> list[psutil.Process]:
    """Return the living children of a process that are of a kind: of this one, without those of earlier tests."""
    found = []
    for child in psutil.Process(owner_pid).children(recursive=recursive):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if child not in _earlier and is_one(child):
                found.append(child)
    return found


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Check that this process holds no descriptor, thread or named memory that it did not hold before.

    It may hold less: what earlier tests forgot can go at any time. The kernel takes a thread off its list a while after
    it was joined. What a library opens once and keeps must be open before.
    """
    gc.collect()
    files, threads, memory = open_files(), thread_ids(), named_memory()
    yield
    assert open_files() - files == set()
    assert named_memory() - memory == set()
    wait_until(lambda: thread_ids() <= threads)


def thread_ids() -> set[str]:
    """Return the numbers of this process's threads."""
    return {task.name for task in Path("/proc/self/task").iterdir()}


def named_memory(pid: int | str = "self") -> set[str]:
    """Return what a process has mapped of /dev/shm: memory with a name may outlive it."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line}


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
