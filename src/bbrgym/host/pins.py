# SPDX-License-Identifier: GPL-2.0-only
"""The folder of the BPF file system that holds the loaded controls: a folder each, named like the control.

A control appears in it whole or not at all: it is pinned in a folder of another name, which is then renamed. The next
command removes what a killed one left.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bbrgym.host.errors import HostError

_BPF_FS = Path("/sys/fs/bpf")
FOLDER = _BPF_FS / "bbrgym"

_UNFINISHED = "unfinished_"  # begins the names of folders that are being filled or emptied


def folder_of(name: str) -> Path:
    """Return the folder of a loaded control."""
    return FOLDER / name


def loaded_names() -> list[str]:
    """Return the names of the loaded controls, sorted."""
    require_root()
    with suppress(FileNotFoundError):
        return sorted(one.name for one in FOLDER.iterdir() if not one.name.startswith(_UNFINISHED))
    return []


def require_root() -> None:
    """Check that this process may load programs into the kernel. Raises HostError: it is not root."""
    if os.geteuid() != 0:
        raise HostError("the kernel takes programs from root only: run the command with sudo")


@contextmanager
def alone() -> Iterator[None]:
    """Let no other command change what is loaded during a block; remove what killed commands left.

    Raises:
        HostError: this is not root, or there is no BPF file system.
    """
    require_root()
    if not os.path.ismount(_BPF_FS):
        raise HostError(f"no BPF file system at {_BPF_FS}: mount -t bpf bpf {_BPF_FS}")
    lock = open_folder(_BPF_FS)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        for one in FOLDER.glob(f"{_UNFINISHED}*"):
            remove(one)
        yield
    finally:
        if FOLDER.is_dir() and not any(FOLDER.iterdir()):
            FOLDER.rmdir()
        os.close(lock)


def open_folder(path: Path) -> int:
    """Return a descriptor of a folder, for locking."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def lock_control(name: str, how: int) -> int:
    """Return a descriptor that locks a control, within `alone`: shared to give it to sockets, exclusive to unload it.

    Raises:
        HostError: a process has the other one.
    """
    folder = open_folder(folder_of(name))
    try:
        fcntl.flock(folder, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise HostError(f"{name} is given to connections by bbrgym kernel compare: end the comparison first") from None
    return folder


@contextmanager
def pinned_whole(name: str) -> Iterator[Path]:
    """Yield a folder to pin a control in, renamed to the control after the block, or removed if the block raises."""
    unfinished = FOLDER / f"{_UNFINISHED}{name}"
    unfinished.mkdir(mode=0o700)
    try:
        yield unfinished
        unfinished.rename(folder_of(name))
    except BaseException:
        remove(unfinished)
        raise


def unregister(folder: Path) -> Path:
    """Let the kernel forget a control but keep the sockets; return the moved folder, to be removed."""
    folder = folder.rename(folder.with_name(f"{_UNFINISHED}{folder.name}"))
    (folder / "link").unlink(missing_ok=True)
    return folder


def remove(folder: Path) -> None:
    """Remove the folder of a control: the kernel forgets the control, open sockets keep it."""
    if not folder.name.startswith(_UNFINISHED):
        folder = unregister(folder)
    for pin in folder.iterdir():
        pin.unlink()
    folder.rmdir()
