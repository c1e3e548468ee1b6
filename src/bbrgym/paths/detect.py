# SPDX-License-Identifier: GPL-2.0-only
"""Reads a log of any known format, which its content tells."""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from bbrgym.paths import capture, iperf3, kernel_watch, ndt7, qlog, ss
from bbrgym.paths.json_values import json_values
from bbrgym.paths.samples import Connection, LogProblem, PathLog, Sample
from bbrgym.untrusted_files import MAX_JSON_BYTES, MAX_TABLE_BYTES, FileError, opened

_JSON: dict[str, tuple[Callable[[Any], bool], Callable[[Iterable[Any]], PathLog]]] = {
    f"{iperf3.FORMAT} --json": (iperf3.is_iperf3, iperf3.read_iperf3),
    ndt7.FORMAT: (ndt7.is_ndt7, ndt7.read_ndt7),
    qlog.FORMAT: (qlog.is_qlog, qlog.read_qlog),
}
FORMATS = (*_JSON, ss.FORMAT, kernel_watch.FORMAT, capture.FORMAT)
"""Formats that are read, for people."""

_BEGIN_BYTES = 2**16
_PART_BYTES = 2**16
_MOST_UNPACKED_BYTES = 2**30
_PACKED: dict[bytes, tuple[str, Callable[[BufferedReader], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"\xfd7zXZ\0": ("xz", lzma.LZMAFile),
}
_NOT_UNPACKED = {b"PK\3\4": "a ZIP archive", b"BZh": "packed by bzip2", b"\x28\xb5\x2f\xfd": "packed by zstd"}
_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_TAR, _TAR_AT = b"ustar", 257
_LIMITED = 0.4  # of the time
_LEAST_SHARE = 0.01  # of the largest connection's data the same way, below which it is not a transfer
_LEAST_SHARE_OF_ALL = 0.001  # either way


def read_log(path: Path) -> PathLog:
    """Read a log.

    Raises:
        FileError: the file cannot be read, is of no known format, or holds no connection that delivered data.
    """
    with opened(path, MAX_TABLE_BYTES) as file:
        try:
            log = _read(file)
        except LogProblem as problem:
            raise FileError(path, str(problem)) from problem
    if not log.connections:
        raise FileError(path, f"is a log of {log.format} without a connection that delivered data")
    return PathLog(log.format, _transfers(log.connections))


def _transfers(connections: tuple[Connection, ...]) -> tuple[Connection, ...]:
    """Return the connections but for those that carry next to nothing, such as iperf3's control connection."""
    most: dict[object, float] = {}
    for one in connections:
        for way in (None, (one.peer, one.vantage)):
            most[way] = max(most.get(way, 0.0), one.delivered_bytes)
        times_s, limited = one.table()[:, [0, Sample._fields.index("app_limited")]].T
        share = max(float(np.mean(limited > 0)), one.held_s / (times_s[-1] - times_s[0]))
        one.is_limited = share > _LIMITED
    return tuple(
        one
        for one in connections
        if one.delivered_bytes >= _LEAST_SHARE * most[one.peer, one.vantage]
        and one.delivered_bytes >= _LEAST_SHARE_OF_ALL * most[None]
    )


def _read(file: BufferedReader) -> PathLog:
    begin, is_packed = _begin(file), False
    for mark, (name, make) in _PACKED.items():
        if begin.startswith(mark):
            file = _parts_file(_unpacked(make(file), name))
            begin, is_packed = _begin(file), True
            break
    for mark, encoding in _ENCODINGS.items():
        if begin.startswith(mark):
            file = _parts_file(_recoded(file, encoding))
            begin = _begin(file)
            break
    if capture.is_capture(begin):
        return capture.read_capture(file)
    if kernel_watch.is_parquet(begin):
        if is_packed:
            raise LogProblem("is packed Parquet, expected it unpacked")
        return kernel_watch.read_kernel_watch(file)
    if qlog.is_sequence(begin):
        return qlog.read_sequence(file)
    if begin.lstrip().startswith((b"{", b"[")):
        return _read_json(file)
    text = begin.decode("ascii", "replace")
    if ss.is_ss(text):
        return ss.read_ss(file, text)
    for mark, what in _NOT_UNPACKED.items():
        if begin.startswith(mark):
            raise LogProblem(f"is {what}, expected a log, or one packed by gzip or xz")
    if begin[_TAR_AT:].startswith(_TAR):
        raise LogProblem("is an archive of tar, expected one log")
    raise LogProblem(f"is of no known format, expected {', '.join(FORMATS)}")


def _read_json(file: BufferedReader) -> PathLog:
    content = file.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise LogProblem(f"is JSON of more than {MAX_JSON_BYTES} bytes, the most allowed")
    values = json_values(content.decode("utf-8", "replace"))
    for first in itertools.islice(values, 1):
        for is_known, read in _JSON.values():
            if is_known(first):
                return read(itertools.chain([first], values))
        raise LogProblem(f"is not JSON of a known format, expected {', '.join(_JSON)}")
    raise LogProblem("is JSON that breaks off or is damaged")


# ---- packed and encoded files ------------------------------------------------------------------------------


def _begin(file: BufferedReader) -> bytes:
    if not file.seekable():
        return file.peek()[:_BEGIN_BYTES]
    begin = file.read(_BEGIN_BYTES)
    file.seek(0)
    return begin


def _unpacked(file: Any, name: str) -> Iterator[bytes]:
    """Yield what a file packs, to where it breaks off."""
    left = _MOST_UNPACKED_BYTES
    try:
        while part := file.read1(_PART_BYTES):
            left -= len(part)
            if left < 0:
                raise LogProblem(f"unpacks to more than {_MOST_UNPACKED_BYTES} bytes, the most allowed")
            yield part
    except EOFError:
        return
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error):
        raise LogProblem(f"is packed by {name}, and damaged") from None


def _recoded(file: BufferedReader, encoding: str) -> Iterator[bytes]:
    """Yield a text in UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    while part := file.read(_PART_BYTES):
        yield decoder.decode(part).encode("utf-8", "replace")


def _parts_file(parts: Iterator[bytes]) -> BufferedReader:
    return BufferedReader(_Parts(parts), _PART_BYTES)


class _Parts(io.RawIOBase):
    """A file whose content comes in parts."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        filled = 0
        while filled < len(buffer) and (self._left or (part := next(self._parts, b""))):
            self._left = self._left or part
            taken = min(len(self._left), len(buffer) - filled)
            buffer[filled : filled + taken] = self._left[:taken]
            self._left = self._left[taken:]
            filled += taken
        return filled
