# SPDX-License-Identifier: GPL-2.0-only
"""Read files that strangers wrote: regular files only, bounded in size and depth, and never quoted in an error.

Every reader of a file that a user or a run folder names opens it here (tests/package/test_file_readers.py). A file of a
run folder is opened without following symbolic links, below the folder: whoever made the folder could point one at any
file of whoever reads it. What reads raises a FileError if it cannot.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import yaml

from bbrgym.errors import ConfigError

MAX_YAML_BYTES = 4 * 2**20
MAX_YAML_DEPTH = 32
MAX_YAML_VALUES = 1_000_000  # after aliases are replaced by what they stand for
MAX_JSON_BYTES = 64 * 2**20
MAX_TEXT_BYTES = 64 * 2**20
MAX_TABLE_BYTES = 64 * 2**30

_MAX_INT = 2**64  # in YAML
_PART_BYTES = 2**20

_Loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class FileError(ConfigError):
    """A file cannot be read.

    Attributes:
        reason: why, in words that quote nothing of it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read {str(path)!r}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[FileError], tuple[Path, str]]:
        return FileError, (self.path, self.reason)


# ---- opening ------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, max_bytes: int, *, below: Path | None = None) -> Iterator[BufferedReader]:
    """Open a regular file for reading, without waiting for a writer.

    Args:
        path: of the file.
        max_bytes: most bytes that it may have.
        below: the run folder that it belongs to; no symbolic link below that is followed. Default: any file.

    Raises:
        FileError: the file cannot be read, is not a regular file, or is too large.
    """
    try:
        if below is not None:
            check_no_links(path, below)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (os.O_NOFOLLOW if below is not None else 0)
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise FileError(path, _reason(error)) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
        os.close(descriptor)
        if stat.S_ISREG(status.st_mode):
            raise _too_large(path, max_bytes)
        raise FileError(path, "is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            yield file
        except OSError as error:
            if error.filename is not None:  # another file's
                raise
            raise FileError(path, _reason(error)) from error


def check_no_links(path: Path, below: Path) -> None:
    """Check that a path leads to nothing outside of a run folder: neither it nor a folder on the way is a link.

    Raises:
        OSError: one is a symbolic link.
    """
    at = below
    for part in path.relative_to(below).parts:
        at = at / part
        if at.is_symlink():
            raise OSError(errno.ELOOP, "is a symbolic link, expected what belongs to the run folder", str(at))


def read_bytes(path: Path, max_bytes: int, *, below: Path | None = None) -> bytes:
    """Return the content of a regular file; see `opened`."""
    with opened(path, max_bytes, below=below) as file:
        parts, left = [], max_bytes  # a file of /proc has more than its status says
        while left >= 0 and (part := file.read(_PART_BYTES)):
            parts.append(part)
            left -= len(part)
    if left < 0:
        raise _too_large(path, max_bytes)
    return b"".join(parts)


def read_text(path: Path, max_bytes: int, encoding: str = "utf-8", *, below: Path | None = None) -> str:
    """Return the text of a regular file; see `opened`."""
    content = read_bytes(path, max_bytes, below=below)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise FileError(path, f"byte {error.start} is not {encoding.upper()}") from error


def read_end(path: Path, max_bytes: int, *, below: Path | None = None) -> str:
    """Return the end of a regular file such as a log, however large it is, at most so many bytes; see `opened`."""
    with opened(path, sys.maxsize, below=below) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - max_bytes))
        return file.read(max_bytes).decode(errors="replace")


def add_to_digest(digest: Any, path: Path, *, below: Path | None = None) -> None:
    """Add the content of a regular file to a digest of `hashlib`; see `opened`."""
    with opened(path, MAX_TABLE_BYTES, below=below) as file:
        while part := file.read(_PART_BYTES):
            digest.update(part)


def read_json(path: Path, *, below: Path | None = None) -> Any:
    """Return the values of a JSON file; see `opened`."""
    text = read_text(path, MAX_JSON_BYTES, below=below)
    try:
        return parse_json(text)
    except ValueError as error:
        raise FileError(path, str(error)) from error


def parse_json(text: str | bytes) -> Any:
    """Return the values of a JSON text, in which a key stands once in a mapping: readers differ in which one counts.

    Logs of measurements are read otherwise: iperf3 repeats keys.

    Raises:
        ValueError: the text is none; the message quotes nothing of it.
    """
    try:
        return json.loads(text, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise ValueError("no JSON") from error
    except KeyError as error:
        raise ValueError("a key stands twice") from error


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise KeyError
    return values


def _too_large(path: Path, max_bytes: int) -> FileError:
    return FileError(path, f"has more than {max_bytes} bytes, the most allowed")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a symbolic link, expected a file of its own"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# ---- YAML ---------------------------------------------------------------------------------------------


class _OwnLoader(_Loader):  # type: ignore[misc, valid-type]
    """Reads what ``yaml.safe_dump`` writes: plain values, no tags, each key once."""

    are_texts_checked = False

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        known = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in known:
                    raise _Problem(key, f"the key {key.value[:24]!r} stands twice")
                known.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        if node.tag not in _TAGS:
            raise _Problem(node, "no YAML of plain values")
        if isinstance(node, yaml.ScalarNode):
            self._check_no_duplicate_keys(node)
        try:
            value = super().construct_object(node, deep=deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
            raise _Problem(node, "a value that its tag does not fit") from None
        if isinstance(value, int) and abs(value) > _MAX_INT:
            raise _Problem(node, f"a number beyond {_MAX_INT}, the largest allowed")
        return value

    def _check_no_duplicate_keys(self, node: Any) -> None:
        """Refuse a value that versions of YAML read differently; ``yaml.safe_dump`` puts quotes around some of them."""
        is_plain = node.style in (None, "") and self.resolve(yaml.ScalarNode, node.value, (True, False)) == _STR
        if node.tag == _STR and not (is_plain and self.are_texts_checked):
            return
        for pattern, meanings, expected in _AMBIGUOUS:
            if pattern.fullmatch(node.value):
                raise _Problem(node, f"{node.value[:24]} is {meanings}; expected {expected}")


class _FileLoader(_OwnLoader):
    """Reads what people write: a key is a text, 1e6 a number, a date a text."""

    are_texts_checked = True

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        for key, _ in node.value:
            if key.tag not in (_STR, _MERGE):
                raise _Problem(key, "no YAML of plain values: a key is not a text, expected quotes around it")
        return super().construct_mapping(node, deep=deep)


_STR, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_TAGS = (_STR, *(f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null", "map", "seq")))
_OwnLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_FileLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+|[-+]?\d[\d_]*\.[\d_]*|[-+]?\.\d[\d_]*"),
    list("-+0123456789."),
)

_AMBIGUOUS = tuple(
    (re.compile(pattern, re.IGNORECASE), meanings, f"{expected}, or quotes around a text")
    for pattern, meanings, expected in (
        (r"[-+]?0[\d_]+", "octal in YAML 1.1 and decimal in 1.2", "a decimal number without leading zeros"),
        (r"[-+]?0o[0-7]+", "a text in YAML 1.1 and octal in 1.2", "a decimal number"),
        (r"[-+]?0b[01_]+", "binary in YAML 1.1 and a text in 1.2", "a decimal number"),
        (r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?", "to the base 60 in YAML 1.1 and a text in 1.2", "a decimal number"),
        (r"yes|no|on|off", "true or false in YAML 1.1 and a text in 1.2", "true or false"),
    )
)
"""Values that the versions of YAML read differently."""


class _Problem(yaml.constructor.ConstructorError):
    """A problem with a node, in words that quote nothing."""

    def __init__(self, node: Any, problem: str) -> None:
        super().__init__(None, None, problem, node.start_mark)


def read_yaml(path: Path, *, below: Path | None = None) -> Any:
    """Return the plain values of a YAML or JSON file.

    Args:
        path: of the file.
        below: the run folder that it belongs to, whose commands wrote it; see `opened`. Default: a file of the user's.

    Raises:
        FileError: the file cannot be read, is not YAML, nests too deeply, has too many values, holds a value that
            versions of YAML read differently or an interpolation (``${...}``), or contains itself.
    """
    text = read_text(path, MAX_YAML_BYTES, below=below)
    values = _parsed(text, path, _FileLoader if below is None else _OwnLoader)
    if below is None:
        _check_no_interpolations(values, path, "")
    return values


def check_yaml(path: Path) -> None:
    """Check a YAML file of a mapping that another library is about to read; it may hold interpolations.

    Raises:
        FileError: see `read_yaml`; or it holds something else.
    """
    if not isinstance(_parsed(read_text(path, MAX_YAML_BYTES), path, _FileLoader), dict | None):
        raise FileError(path, "holds no mapping")


def _parsed(text: str, path: Path, make_loader: type[_OwnLoader]) -> Any:
    try:
        _check_size(text, path)
        loader = make_loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        problem = error.problem if isinstance(error, _Problem) else "no YAML"
        raise FileError(path, f"{where}{problem}") from None
    except yaml.YAMLError:
        raise FileError(path, "no YAML") from None
    except ConfigError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError):
        raise FileError(path, "a value or key is not plain") from None


def _check_size(text: str, path: Path) -> None:
    """Check how deep a text nests, and how many values it has with its aliases replaced."""
    counts: dict[Any, int] = {}  # of the values below an anchor; 0 within it
    within: list[list[Any]] = [[None, 0]]  # anchor and number of values of each open collection
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            within.append([event.anchor, 1])
            counts[event.anchor] = 0
            if len(within) - 1 > MAX_YAML_DEPTH:
                raise FileError(path, f"nests deeper than {MAX_YAML_DEPTH} levels")
        elif isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            anchor, count = within.pop() if isinstance(event, yaml.CollectionEndEvent) else (event.anchor, 1)
            if isinstance(event, yaml.AliasEvent) and (count := counts.get(anchor, 1)) == 0:
                raise FileError(path, "it contains itself")
            counts[anchor] = count
            within[-1][1] += count
            if within[-1][1] > MAX_YAML_VALUES:
                raise FileError(path, f"has more than {MAX_YAML_VALUES} values, the most allowed")


def _check_no_interpolations(value: Any, path: Path, field: str) -> None:
    """Refuse ``${...}``: it would copy the environment of whoever reads the file into records."""
    if isinstance(value, str) and "${" in value:
        raise FileError(path, f"{field or 'a value'} holds '${{', expected no interpolation")
    if isinstance(value, dict):
        for key, one in value.items():
            _check_no_interpolations(str(key), path, field)
            _check_no_interpolations(one, path, f"{field}.{key}" if field else str(key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            _check_no_interpolations(one, path, f"{field}[{index}]")
