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
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import polars as pl
import yaml

from bbrgym.atomic_files import PARTIALS, make_folder, write_atomically, write_text
from bbrgym.errors import ConfigError, one_line
from bbrgym.provenance import provenance

CONFIG = "config.yaml"
PROVENANCE = "provenance.json"
_LOCK = ".lock"
_SOMEONE = "another command"
_POLL_S = 0.2  # between two looks at whether the owner has ended
_SHORTAGES = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # not the folder's fault
_RESULTS = ("checkpoints", "jobs")
"""Folders whose files are finished work: with one of these a folder is never taken back."""


Content = TypeVar("Content")


class RunFolder:
    """A command's run folder on disk.

    Args:
        path: of the folder.

    Attributes:
        command: that writes such folders.
        option: that names the folder, for errors.
    """

    command: ClassVar[str]
    option: ClassVar[str] = "output_dir"

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

        Raises:
            ConfigError, OSError: see `open`.
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
            self._refuse_used(resume)
            self._is_made = not self.path.exists()
            make_folder(self.path)
            self._own()
            self._refuse_used(resume)  # again: another process may have come first
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

    def close(self) -> None:
        """Let other processes own the folder."""
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def owner(self) -> str | None:
        """Return the process that owns the folder now; None if there is none."""
        path = self.path / _LOCK
        if not path.exists():
            return None
        with path.open(encoding="utf-8", errors="replace") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read(200).strip() or _SOMEONE
        return None

    def wait_until_free(self, timeout_s: float) -> None:
        """Wait until no process owns the folder.

        Raises:
            ConfigError: one still does after a time in seconds.
        """
        until_s = time.monotonic() + timeout_s
        while (owner := self.owner()) is not None:
            if time.monotonic() > until_s:
                raise self._in_use(owner)
            time.sleep(_POLL_S)

    def _in_use(self, owner: str) -> ConfigError:
        return ConfigError(f"{self.option}: {str(self.path)!r} is in use by {owner}")

    def _refuse_used(self, resume: bool) -> None:
        if not resume and self._holds_files():
            raise ConfigError(
                f"{self.option}: {str(self.path)!r} is not empty, expected a new one, or resume=true to go on"
            )

    def _holds_files(self) -> bool:
        return self.path.exists() and any(path.name != _LOCK for path in self.path.iterdir())

    def _own(self) -> None:
        path = self.path / _LOCK
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._lock, 200).decode(errors="replace").strip() or _SOMEONE
            os.close(self._lock)
            self._lock = None
            raise self._in_use(owner) from None
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"bbrgym {self.command}, process {os.getpid()} on {platform.node()}\n".encode())

    def _remove_partials(self) -> None:
        """Remove what a killed process was writing; folders within that have a lock of their own are their owner's."""
        for folder, names, _ in os.walk(self.path):
            names[:] = [name for name in names if not Path(folder, name, _LOCK).exists()]
            for partial in Path(folder).glob(PARTIALS):
                partial.unlink(missing_ok=True)

    def _take_back(self) -> None:
        if not self._is_new or any(path.is_file() for name in _RESULTS for path in (self.path / name).rglob("*")):
            return
        for path in self.path.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self._is_made:
            self.path.rmdir()

    # ---- files ---------------------------------------------------------------------------------------------------

    def has_config(self) -> bool:
        """Return whether a command has begun here."""
        return (self.path / CONFIG).exists()

    def read_config(self) -> dict[str, Any]:
        """Return the request that the folder was made for.

        Raises:
            ConfigError: there is none, or it cannot be read.
        """
        try:
            config = yaml.safe_load((self.path / CONFIG).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise ConfigError(f"{self._no_folder()}: {one_line(error)}") from error
        if not isinstance(config, dict):
            raise ConfigError(f"{self._no_folder()}: its {CONFIG} is empty or no mapping")
        return config

    def read_request(self, parse: Callable[[dict[str, Any]], Content]) -> Content:
        """Return the request that the folder was made for, checked by ``parse``.

        Raises:
            ConfigError: there is none, or it cannot be read, or ``parse`` refuses it.
        """
        config = self.read_config()
        try:
            return parse(config)
        except ConfigError as error:
            raise ConfigError(f"{self._no_folder()}: {CONFIG}: {error}") from error

    def _no_folder(self) -> str:
        return f"{self.option}: {str(self.path)!r} is no run folder of bbrgym {self.command}"

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the request, and where the results come from."""
        self.write_text(CONFIG, yaml.safe_dump(dict(config), sort_keys=False))
        self._add_provenance()

    def read_provenance(self) -> list[dict[str, Any]]:
        """Return where the results come from: an entry for each version, machine or set of packages that wrote here.

        Raises:
            ConfigError: it cannot be read.
        """
        return self._read(PROVENANCE, _entries) if (self.path / PROVENANCE).exists() else []

    def _add_provenance(self) -> None:
        """Add an entry, unless the last one differs in its command alone: a repeated command changes nothing."""
        entries, now = self.read_provenance(), provenance()
        if not entries or {**entries[-1], "command": None} != {**now, "command": None}:
            self.write_text(PROVENANCE, json.dumps([*entries, now], indent=1) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a text in UTF-8."""
        write_text(self.path / name, text)

    def write_table(self, name: str, table: pl.DataFrame) -> None:
        """Write Parquet; equal tables give equal bytes."""
        parquet = io.BytesIO()  # given a path, Polars makes a full disk a ComputeError
        table.rechunk().write_parquet(parquet, compression="zstd")
        write_atomically(self.path / name, lambda partial: partial.write_bytes(parquet.getbuffer()))

    def read_table(self, name: str) -> pl.DataFrame:
        """Read Parquet.

        Raises:
            ConfigError: it cannot be read.
        """
        return self._read(name, pl.read_parquet)

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a mapping as JSON."""
        self.write_text(name, json.dumps(dict(value), indent=2) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a mapping from JSON; empty if there is no such file.

        Raises:
            ConfigError: it cannot be read.
        """
        return self._read(name, _mapping) if (self.path / name).exists() else {}

    def _read(self, name: str, read: Callable[[Path], Content]) -> Content:
        path = self.path / name
        try:
            return read(path)
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            raise ConfigError(f"cannot read {str(path)!r}, it is damaged or missing: {one_line(error)}") from error


def _entries(path: Path) -> list[dict[str, Any]]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("it holds no list of mappings")
    return value


def _mapping(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise ValueError(  # noqa: TRY004 - the file is wrong, not the type of an argument
            f"it holds {type(value).__name__}, expected a mapping"
        )
    return value
