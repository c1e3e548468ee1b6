# SPDX-License-Identifier: GPL-2.0-only
"""Files that are whole or absent, also after a kill or a power cut."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bbrgym.errors import ConfigError

PARTIALS = ".*.partial"
"""Pattern of the names of files that are being written."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Replace ``path`` as `replacement` does, by the file that ``write`` writes at the path it is called with."""
    with replacement(path) as partial:
        write(partial)


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """Yield where to write a file, which at the context's end replaces ``path`` in one step.

    The file is on the disk before it gets its name, and the name before the context ends. Missing folders are made.
    What stands at the partial file's path already is removed first: it may be a symbolic link to any file.

    Raises:
        ConfigError: see `check_output`.
        OSError: the file cannot be written; ``path`` is as it was.
    """
    check_output(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        make_folder(path.parent)
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        yield partial
        _flush_to_disk(partial)
        check_output(path)
        partial.replace(path)
        _flush_to_disk(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with suppress(OSError):  # of a file system that is read-only, where it was never made
            partial.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Check that a file may be written at a path: nothing stands there, or a regular file to replace.

    Raises:
        ConfigError: a folder, a device, a FIFO, a socket or a symbolic link stands there.
    """
    mode = path.lstat().st_mode if os.path.lexists(path) else stat.S_IFREG
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "a device or a FIFO"
        raise ConfigError(f"{str(path)!r} is {kind}, expected a regular file or a new name")


def write_text(path: Path, text: str) -> None:
    """Write a text as `write_atomically` does, in UTF-8."""
    write_atomically(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def open_to_append(path: Path, *, is_own: bool = True) -> BinaryIO:
    """Open a file such as a log to write at its end, without waiting for a reader; it is made if it is missing.

    Raises:
        OSError: the file cannot be opened, or is a symbolic link and ``is_own``, a run folder's.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags | (os.O_NOFOLLOW if is_own else 0), 0o666)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "ab")


def make_folder(path: Path) -> None:
    """Make a folder and the missing ones above it. Raises OSError: one cannot be made."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    _flush_to_disk(path.parent)


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot flush a folder; their servers keep names by themselves.
        if not (error.errno == errno.EINVAL and path.is_dir()):
            raise
    finally:
        os.close(descriptor)
