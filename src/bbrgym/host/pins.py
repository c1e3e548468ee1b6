# SPDX-License-Identifier: GPL-2.0-only
"""The folder of the BPF file system that holds the loaded controls: a folder each, named like the control.

A control appears in it whole or not at all: it is pinned in a folder of another name, which is then renamed. The next
command removes what a killed one left.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from bbrgym.host.errors import HostError

_BPF_FS = Path("/sys/fs/bpf")
FOLDER = _BPF_FS / "bbrgym"

_UNFINISHED = "unfinished_"  # begins the names of folders that are being filled or emptied
_PATIENCE_S = 60.0  # until another command has changed what is loaded


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
    """Check that this process may load programs into the kernel.

    Raises:
        HostError: it is not root.
    """
    if os.geteuid() != 0:
        raise HostError("the kernel takes programs from root only: run the command with sudo")


@contextmanager
def alone() -> Iterator[None]:
    """Let no other command change what is loaded during a block; remove what killed commands left.

    Raises:
        HostError: this is not root, there is no BPF file system, or another command takes too long.
    """
    require_root()
    if not os.path.ismount(_BPF_FS):
        raise HostError(f"no BPF file system at {_BPF_FS}: mount -t bpf bpf {_BPF_FS}")
    lock = _locked_folder()
    try:
        for one in FOLDER.glob(f"{_UNFINISHED}*"):
            remove(one)
        yield
    finally:
        os.close(lock)
        if FOLDER.is_dir() and not any(FOLDER.iterdir()):
            FOLDER.rmdir()


def _locked_folder() -> int:
    """Return a descriptor of the folder with its lock; whoever had the lock may have removed the folder."""
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        with suppress(FileNotFoundError):
            FOLDER.mkdir(mode=0o700, exist_ok=True)
            lock = open_folder(FOLDER)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock), FOLDER.stat()):
                    return lock
            except BlockingIOError:
                time.sleep(_PATIENCE_S / 1000)
            os.close(lock)
    raise HostError(f"another command has been changing what is loaded for {_PATIENCE_S:g} s: end it, and try again")


def open_folder(path: Path) -> int:
    """Return a descriptor of a folder, to lock it."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@contextmanager
def in_use(names: Iterable[str]) -> Iterator[None]:
    """Let no command unload those of some controls that are loaded during a block."""
    with ExitStack() as stack:
        for name in set(names) & set(loaded_names()):
            with alone(), suppress(FileNotFoundError):
                folder = open_folder(folder_of(name))
                stack.callback(os.close, folder)
                fcntl.flock(folder, fcntl.LOCK_SH)
        yield


def check_not_in_use(name: str) -> None:
    """Check that no process is in a block of `in_use` of a control; within `alone`.

    Raises:
        HostError: one is.
    """
    folder = open_folder(folder_of(name))
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HostError(f"{name} is given to connections by bbrgym kernel compare: end the comparison first") from None
    finally:
        os.close(folder)


@contextmanager
def pinned_whole(name: str) -> Iterator[Path]:
    """Yield a folder to pin a control in; it takes the control's name after the block, or goes if the block raises."""
    unfinished = FOLDER / f"{_UNFINISHED}{name}"
    unfinished.mkdir(mode=0o700)
    try:
        yield unfinished
        unfinished.rename(folder_of(name))
    except BaseException:
        remove(unfinished)
        raise


def remove(folder: Path) -> None:
    """Remove the folder of a control: the kernel forgets it, and its sockets keep it until they close."""
    if not folder.name.startswith(_UNFINISHED):
        folder = folder.rename(folder.with_name(f"{_UNFINISHED}{folder.name}"))
    for pin in folder.iterdir():
        pin.unlink()
    folder.rmdir()
