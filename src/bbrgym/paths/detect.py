# SPDX-License-Identifier: GPL-2.0-only
"""Reads a log of any known format, recognised by content."""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterable
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from bbrgym.paths import capture, iperf3, kernel_watch, ndt7, qlog, ss
from bbrgym.paths.json_values import json_values
from bbrgym.paths.samples import Connection, LogProblem, PathLog, Sample
from bbrgym.untrusted_files import MAX_JSON_BYTES, MAX_TABLE_BYTES, MAX_TEXT_BYTES, FileError, opened

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
_PACKED: dict[bytes, Callable[[BufferedReader], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
_ENCODINGS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NOT_UNPACKED = {(b"PK\3\4", 0): "ZIP", (b"ustar", 257): "tar", (b"BZh", 0): "bzip2", (b"\x28\xb5\x2f\xfd", 0): "zstd"}
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


def _read(packed: BufferedReader) -> PathLog:
    file = _recoded(_unpacked(packed))
    begin = _begin(file)
    if capture.is_capture(begin):
        return capture.read_capture(file)
    if kernel_watch.is_parquet(begin):
        if file is not packed:
            raise LogProblem("is packed Parquet, expected it unpacked")
        return kernel_watch.read_kernel_watch(file)
    if qlog.is_sequence(begin):
        return qlog.read_sequence(file)
    text = begin.decode("ascii", "replace")
    if ss.is_ss(text):
        return ss.read_ss(file, text)
    if text.lstrip().startswith(("{", "[")):
        return _read_json(file)
    for (mark, at), name in _NOT_UNPACKED.items():
        if begin.startswith(mark, at):
            raise LogProblem(f"is an archive of {name}, expected one log, as it is or packed by gzip or xz")
    raise LogProblem(f"is of no known format, expected {', '.join(FORMATS)}")


def _begin(file: BufferedReader) -> bytes:
    begin = file.read(_BEGIN_BYTES)
    file.seek(0)
    return begin


def _unpacked(file: BufferedReader) -> BufferedReader:
    """Return the unpacked content of a whole, not too large file; an unpacked file unchanged."""
    begin = _begin(file)
    for make in (make for mark, make in _PACKED.items() if begin.startswith(mark)):
        content, left = make(file), _MOST_UNPACKED_BYTES
        try:
            while left >= 0 and (part := content.read(_PART_BYTES)):
                left -= len(part)
            content.seek(0)
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error):
            raise LogProblem("is packed, and damaged or cut short") from None
        if left < 0:
            raise LogProblem(f"unpacks to more than {_MOST_UNPACKED_BYTES} bytes, the most allowed")
        return BufferedReader(content)
    return file


def _recoded(file: BufferedReader) -> BufferedReader:
    """Return a text with a byte order mark as UTF-8 without one, any other file unchanged."""
    begin = _begin(file)
    for encoding in (name for mark, name in _ENCODINGS.items() if begin.startswith(mark)):
        content = file.read(MAX_TEXT_BYTES + 1)
        if len(content) > MAX_TEXT_BYTES:
            raise LogProblem(f"is text of more than {MAX_TEXT_BYTES} bytes in {encoding.upper()}, the most allowed")
        return BufferedReader(
            io.BytesIO(content.decode(encoding, "replace").lstrip("\ufeff").encode("utf-8", "replace"))
        )
    return file


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
