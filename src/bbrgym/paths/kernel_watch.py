# SPDX-License-Identifier: GPL-2.0-only
"""Logs of ``bbrgym kernel watch``: Parquet, a row per connection and look at the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import polars as pl

from bbrgym.paths.json_values import number
from bbrgym.paths.samples import Connections, LogProblem, PathLog, plausible_mss_bytes

FORMAT = "bbrgym kernel watch"

_ROWS = 2**14  # at a time
_TEXTS = ("control", "peer")
_NUMBERS = (
    *("time_s", "connection", "delivered_bytes", "srtt_ms", "min_rtt_ms", "retransmitted_pkts", "cwnd_pkts"),
    "mss_bytes",
)
_COLUMNS = (*_TEXTS, *_NUMBERS, "app_limited")


def is_parquet(begin: bytes) -> bool:
    """Return whether a file begins as Parquet does."""
    return begin.startswith(b"PAR1")


def read_kernel_watch(file: BufferedReader) -> PathLog:
    """Return the connections of the log. Raises LogProblem: it is damaged, or is another table."""
    connections = Connections()
    try:
        for row in _rows(file):
            _add(connections, row)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise LogProblem("is no Parquet, or damaged") from error  # its text may quote the file
    return PathLog(FORMAT, connections.all())


def _rows(file: BufferedReader) -> Iterator[dict[str, Any]]:
    log = pl.scan_parquet(f"/proc/self/fd/{file.fileno()}", glob=False)  # a path: of a file, Polars reads all at once
    schema = log.collect_schema()
    if not all(_is_as_expected(name, schema.get(name)) for name in _COLUMNS):
        raise LogProblem(f"is Parquet of another form than {FORMAT} writes")
    log = log.select(_COLUMNS)
    count = log.select(pl.len()).collect().item()
    for begin in range(0, count, _ROWS):
        yield from log.slice(begin, _ROWS).collect().iter_rows(named=True)


def _is_as_expected(name: str, kind: pl.DataType | None) -> bool:
    if kind is None or name == "app_limited":
        return kind == pl.Boolean
    return kind == pl.String if name in _TEXTS else kind.is_numeric()


def _add(connections: Connections, row: dict[str, Any]) -> None:
    connection = connections[(row["connection"], row["peer"])]
    connection.mss_bytes = plausible_mss_bytes(number(row["mss_bytes"]))
    connection.cc = row["control"] or ""
    connection.peer = (row["peer"] or "").rpartition(":")[0]
    connection.add(
        time_s=number(row["time_s"]),
        delivered_bytes=number(row["delivered_bytes"]),
        rtt_s=number(row["srtt_ms"]) / 1e3,
        min_rtt_s=number(row["min_rtt_ms"]) / 1e3,  # of BBR, which forgets it after a while
        retransmitted_pkts=number(row["retransmitted_pkts"]),
        app_limited=float(row["app_limited"] is True),
        cwnd_pkts=number(row["cwnd_pkts"]),
    )
