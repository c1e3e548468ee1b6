# SPDX-License-Identifier: GPL-2.0-only
"""Reads a log of any known format, which its content tells."""

from __future__ import annotations

import json
from io import BufferedReader
from pathlib import Path
from typing import Any

from bbrgym.paths import capture, iperf3, kernel_watch, ndt7, qlog, ss
from bbrgym.paths.json_values import line_mappings
from bbrgym.paths.samples import LogProblem, PathLog
from bbrgym.untrusted_files import MAX_JSON_BYTES, MAX_TABLE_BYTES, FileError, opened

FORMATS = (f"{iperf3.FORMAT} --json", ss.FORMAT, ndt7.FORMAT, qlog.FORMAT, kernel_watch.FORMAT, capture.FORMAT)
"""Formats that are read, for people."""

_BEGIN_BYTES = 2**14


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
    return log


def _read(file: BufferedReader) -> PathLog:
    begin = file.read(_BEGIN_BYTES)
    file.seek(0)
    if capture.is_capture(begin):
        return capture.read_capture(file)
    if kernel_watch.is_parquet(begin):
        return kernel_watch.read_kernel_watch(file)
    if qlog.is_sequence(begin):
        return qlog.read_sequence(file)
    if begin.lstrip().startswith(b"{"):
        return _read_json(file)
    if ss.is_ss(begin.decode("ascii", "replace")):
        return ss.read_ss(file)
    raise LogProblem(f"is of no known format, expected {', '.join(FORMATS)}")


def _read_json(file: BufferedReader) -> PathLog:
    content = file.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise LogProblem(f"is JSON of more than {MAX_JSON_BYTES} bytes, the most allowed")
    text = content.decode("utf-8", "replace")
    whole = _parsed(text)
    first = _parsed(text.partition("\n")[0]) if whole is None else whole
    if iperf3.is_iperf3(first):
        return iperf3.read_iperf3(iperf3.whole_of_stream(text) if whole is None else whole)
    if ndt7.is_ndt7(first):
        return ndt7.read_ndt7(ndt7.measurements_of_lines(text) if whole is None else whole)
    if qlog.is_qlog(first):
        return qlog.read_events(line_mappings(text)) if whole is None else qlog.read_whole(whole)
    raise LogProblem(f"is not JSON of a known format, expected {', '.join(FORMATS[:-2])}")


def _parsed(text: str) -> Any:
    """Return the values of JSON; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
