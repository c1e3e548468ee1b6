# SPDX-License-Identifier: GPL-2.0-only
"""A run folder: the folder of one command's files, which one process writes at a time.

    .lock              held while a command writes the folder; says which
    config.yaml        the request, every default written out
    provenance.json    version, commit, machine, packages and command: a list with an entry for each that wrote here

What else it holds is said where each command's folder is declared. Every file is written beside its place, flushed to
the disk and then renamed: a kill or a power cut leaves whole files or none.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeVar

import polars as pl
import yaml

from bbrgym.errors import ConfigError
from bbrgym.runs.atomic_files import PARTIALS, make_folder, write_atomically
from bbrgym.runs.provenance import provenance
from bbrgym.untrusted_files import (
    MAX_TABLE_BYTES,
    MAX_TEXT_BYTES,
    FileError,
    check_no_links,
    opened,
    read_json,
    read_text,
    read_yaml,
)

CONFIG = "config.yaml"
PROVENANCE = "provenance.json"
LOCK = ".lock"
_LOCK_BYTES = 4096
_MARK = b"bbrgym "  # at the beginning of a lock in use, or of one that a killed process left
_SOMEONE = "another command"
_POLL_S = 0.2  # between two looks at whether the owner has ended
_SHORTAGES = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # not the folder's fault
_RESULTS = ("checkpoints", "connections", "jobs")
"""Folders whose files are finished work: with one of these a folder is never taken back."""


Content = TypeVar("Content")


class RunFolder:
    """A command's run folder on disk.

    What reads a file raises a ConfigError if it cannot be read, is damaged or has other content than asked for; what
    writes one raises an OSError if it cannot be written.
    """

    command: ClassVar[str]  # that writes such folders
    option: ClassVar[str] = "output_dir"  # that names the folder, for errors

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._is_made = False  # by `open`
        self._is_new = False  # nothing was in it at `open`

    # ---- one owner -----------------------------------------------------------------------------------------------

    @contextmanager
    def opened(self, *, resume: bool) -> Iterator[None]:
        """Own the folder for the length of a block.

        If the block ends in an error before it has finished anything, the folder is left as it was found, so that a
        corrected request can go there.
        """
        self.open(resume=resume)
        try:
            yield
        except Exception:
            self._take_back()
            raise
        finally:
            self.close()

    def open(self, *, resume: bool) -> None:
        """Make the folder, or go on with it; no other process can own it until `close`.

        Args:
            resume: whether it may hold something.

        Raises:
            ConfigError: it holds something and ``resume`` is false, another process owns it, or it cannot be made.
            OSError: the disk is full, or there are too many open files.
        """
        try:
            self._check_unused(resume)
            self._is_made = not self.path.exists()
            make_folder(self.path)
            self.check_no_links()
            self._own()
            self._check_unused(resume)  # again: another process may have come first
            self._is_new = not self._holds_files()
            self._remove_partials()
        except OSError as error:
            self.close()
            if error.errno in _SHORTAGES:
                raise
            raise ConfigError(f"{self.option}: cannot use {str(self.path)!r}: {error}") from error
        except ConfigError:
            self.close()
            raise

    def check_no_links(self) -> None:
        """Check that no folder in this one is a symbolic link: what is written there would be written elsewhere.

        Raises:
            ConfigError: one is.
        """
        for path in self.path.iterdir():
            if path.is_symlink() and path.is_dir():
                raise ConfigError(f"{self.option}: {str(path)!r} is a symbolic link, expected a folder of its own")

    def close(self) -> None:
        """Let other processes own the folder."""
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def owner(self) -> str | None:
        """Return the process that owns the folder now; None if there is none."""
        path = self.path / LOCK
        if not os.path.lexists(path):
            return None
        with opened(path, _LOCK_BYTES, below=self.path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _owner_in(lock.read())
        return None

    def wait_until_free(self, timeout_s: float) -> None:
        """Wait until no process owns the folder. Raises ConfigError: one still does after a time in seconds."""
        until_s = time.monotonic() + timeout_s
        while (owner := self.owner()) is not None:
            if time.monotonic() > until_s:
                raise self._in_use(owner)
            time.sleep(_POLL_S)

    def _in_use(self, owner: str) -> ConfigError:
        return ConfigError(f"{self.option}: {str(self.path)!r} is in use by {owner}")

    def _check_unused(self, resume: bool) -> None:
        if not resume and self._holds_files():
            raise ConfigError(
                f"{self.option}: {str(self.path)!r} is not empty, expected a new one, or resume=true to go on"
            )

    def _holds_files(self) -> bool:
        return self.path.exists() and any(path.name != LOCK for path in self.path.iterdir())

    def _own(self) -> None:
        path = self.path / LOCK
        check_no_links(path, self.path)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        lock = os.open(path, flags, 0o666)
        try:
            self._lock_file(path, lock)
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock

    def _lock_file(self, path: Path, lock: int) -> None:
        content = os.read(lock, _LOCK_BYTES) if stat.S_ISREG(os.fstat(lock).st_mode) else b"no file"
        if content.strip() and not content.startswith(_MARK):  # another's file, which would be truncated
            raise ConfigError(f"{self.option}: {str(path)!r} is not a lock of bbrgym; expected none, or an empty file")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._in_use(_owner_in(content)) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"bbrgym {self.command}, process {os.getpid()} on {platform.node()}\n".encode(), 0)

    def _remove_partials(self) -> None:
        """Remove what a killed process was writing; folders within that have a lock of their own are their owner's."""
        for folder, names, _ in os.walk(self.path):
            names[:] = [name for name in names if not Path(folder, name, LOCK).exists()]
            for partial in Path(folder).glob(PARTIALS):
                partial.unlink(missing_ok=True)

    def _take_back(self) -> None:
        if not self._is_new or any(path.is_file() for name in _RESULTS for path in (self.path / name).rglob("*")):
            return
        for path in self.path.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if self._is_made:
            self.path.rmdir()

    # ---- files ---------------------------------------------------------------------------------------------------

    def has_config(self) -> bool:
        """Return whether a command has begun here."""
        return (self.path / CONFIG).exists()

    def read_config(self) -> dict[str, Any]:
        """Return the request that the folder was made for."""
        try:
            config = read_yaml(self.path / CONFIG, below=self.path)
        except ConfigError as error:
            raise ConfigError(f"{self._no_folder()}: {error}") from error
        if not isinstance(config, dict):
            raise ConfigError(f"{self._no_folder()}: its {CONFIG} is empty or no mapping")
        return config

    def read_request(self, parse: Callable[[dict[str, Any]], Content]) -> Content:
        """Return the request that the folder was made for, checked by ``parse``."""
        config = self.read_config()
        try:
            return parse(config)
        except ConfigError as error:
            raise ConfigError(f"{self._no_folder()}: {CONFIG}: {error}") from error

    def _no_folder(self) -> str:
        option = "" if self.option == RunFolder.option else f"{self.option}: "  # `resume` and `agent` name folders, too
        return f"{option}{str(self.path)!r} is not a run folder of bbrgym {self.command}"

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the request, and where the results come from."""
        self.write_text(CONFIG, yaml.safe_dump(dict(config), sort_keys=False))
        self._add_provenance()

    def read_provenance(self) -> list[dict[str, Any]]:
        """Return where the results come from: an entry for each version, machine or set of packages that wrote here."""
        if not self.holds(PROVENANCE):
            return []
        with self._damage_told(PROVENANCE):
            entries = read_json(self.path / PROVENANCE, below=self.path)
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise self._damaged(PROVENANCE, "it holds no list of mappings")
        return entries

    def _add_provenance(self) -> None:
        """Add an entry, unless the last one differs in its command alone: a repeated command changes nothing."""
        entries, now = self.read_provenance(), provenance()
        if not entries or {**entries[-1], "command": None} != {**now, "command": None}:
            self.write_text(PROVENANCE, json.dumps([*entries, now], indent=1) + "\n")

    def holds(self, name: str) -> bool:
        """Return whether there is a file of this name, whatever it is."""
        return os.path.lexists(self.path / name)

    def check_regular_file(self, name: str) -> None:
        """Check that what another library is about to open is a regular file, or is missing.

        Raises:
            ConfigError: it is something else.
        """
        if self.holds(name):
            with self._damage_told(name), opened(self.path / name, sys.maxsize, below=self.path):
                pass

    def write_file(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file as `write_atomically` does; no folder on the way to it may be a symbolic link."""
        check_no_links((self.path / name).parent, self.path)
        write_atomically(self.path / name, write)

    def write_text(self, name: str, text: str) -> None:
        """Write a text in UTF-8."""
        self.write_file(name, lambda partial: partial.write_text(text, encoding="utf-8"))

    def copy_file(self, name: str, source: RunFolder) -> None:
        """Copy a file of another run folder, if it has it."""

        def copy(partial: Path) -> None:
            with partial.open("wb") as file:
                shutil.copyfileobj(content, file)

        if source.holds(name):
            with source._damage_told(name), opened(source.path / name, MAX_TABLE_BYTES, below=source.path) as content:
                self.write_file(name, copy)

    def read_text(self, name: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
        """Read a text in UTF-8."""
        with self._damage_told(name):
            return read_text(self.path / name, max_bytes, below=self.path)

    def write_table(self, name: str, table: pl.DataFrame) -> None:
        """Write Parquet; equal tables give equal bytes."""
        parquet = io.BytesIO()  # given a path, Polars makes a full disk a ComputeError
        table.rechunk().write_parquet(parquet, compression="zstd")
        self.write_file(name, lambda partial: partial.write_bytes(parquet.getbuffer()))

    def read_table(self, name: str, columns: Collection[str] = ()) -> pl.DataFrame:
        """Read Parquet, which must have some columns."""
        return self._read_table(name, columns, pl.read_parquet)

    def read_csv(self, name: str) -> pl.DataFrame:
        """Read CSV."""
        return self._read_table(name, (), lambda file: pl.read_csv(file.read(), infer_schema_length=None))

    def _read_table(
        self, name: str, columns: Collection[str], read: Callable[[BinaryIO], pl.DataFrame]
    ) -> pl.DataFrame:
        with self._damage_told(name), opened(self.path / name, MAX_TABLE_BYTES, below=self.path) as file:
            try:
                table = read(file)
            except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                raise self._damaged(
                    name, f"no {Path(name).suffix or 'table'}"
                ) from error  # its text may quote the file
        missing = [column for column in columns if column not in table.columns]
        if missing:
            raise self._damaged(name, f"it has no column {', '.join(missing)}")
        return table

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a mapping as JSON."""
        self.write_text(name, json.dumps(dict(value), indent=2) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a mapping from JSON; empty if there is no such file."""
        if not self.holds(name):
            return {}
        with self._damage_told(name):
            value = read_json(self.path / name, below=self.path)
        if not isinstance(value, dict):
            raise self._damaged(name, f"it holds {type(value).__name__}, expected a mapping")
        return value

    def _damaged(self, name: str, problem: str) -> ConfigError:
        return ConfigError(f"cannot read {str(self.path / name)!r}, it is damaged or missing: {problem}")

    @contextmanager
    def _damage_told(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileError as error:
            raise self._damaged(name, error.reason) from error


def _owner_in(lock: bytes) -> str:
    return lock[:200].decode(errors="replace").strip() or _SOMEONE
