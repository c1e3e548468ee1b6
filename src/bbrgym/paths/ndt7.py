# SPDX-License-Identifier: GPL-2.0-only
"""Results of M-Lab's NDT7 in the server's archive: TCPInfo and BBRInfo over time, of a download or upload.

Of an upload the server is the receiver. Of a result with both, each is a connection. Rows that BigQuery exports are
read, with numbers in quotes too, and `ndt7-client -format=json`, whose lines are measurements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bbrgym.paths.json_values import iso_s, mapping, mappings, number
from bbrgym.paths.samples import NAN, Connection, Connections, LogProblem, PathLog, plausible_mss_bytes

FORMAT = "NDT7"
_TESTS = ("Download", "Upload")


def is_ndt7(values: Any) -> bool:
    """Return whether the first of the values of a file is NDT7's."""
    if not isinstance(values, dict):
        return False
    return any(test in _raw(values) for test in _TESTS) or ("Key" in values and "Value" in values)


def read_ndt7(values: Iterable[Any]) -> PathLog:
    """Return the downloads and the uploads of results. Raises LogProblem: there are no measurements of the server's."""
    connections = Connections()
    for index, result in enumerate(_results(values)):
        begun_s = iso_s(next((mapping(result[test]).get("StartTime") for test in _TESTS if result.get(test)), None))
        offset_s = connections.in_turn_s(begun_s)
        for test in _TESTS:
            for measurement in mappings(mapping(result.get(test)).get("ServerMeasurements")):
                connection = connections[index, test]
                connection.peer = str(result.get("ClientIP"))
                _add(connection, measurement, offset_s, is_download=test == "Download")
    if not connections.all():
        raise LogProblem("is a result of NDT7 without measurements of its server's")
    return PathLog(FORMAT, connections.all())


def _results(values: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield results in the form of the archive; the client's lines are one."""
    lines: dict[str, list[Any]] = {test: [] for test in _TESTS}
    for line in map(mapping, values):
        if "Key" not in line:
            yield _raw(line)
            continue
        value = mapping(line.get("Value"))
        test = str(value.get("Test", "")).capitalize()
        if test in lines and "TCPInfo" in value:
            lines[test].append(value)
    if any(lines.values()):
        yield {test: {"ServerMeasurements": found} for test, found in lines.items()}


def _add(connection: Connection, measurement: Mapping[str, Any], offset_s: float, *, is_download: bool) -> None:
    values = mapping(measurement.get("TCPInfo"))
    info = {name: number(value) for name, value in values.items() if not math.isnan(number(value))}
    connection.vantage = "sender" if is_download else "receiver"
    connection.cc = "bbr" if is_download and mapping(measurement.get("BBRInfo")) else ""
    connection.mss_bytes = plausible_mss_bytes(info.get("SndMSS" if is_download else "RcvMSS", NAN))
    time_s = offset_s + info.get("ElapsedTime", NAN) / 1e6
    if not is_download:
        connection.add(time_s, info.get("BytesReceived", NAN), min_rtt_s=(info.get("MinRTT", NAN) or NAN) / 1e6)
        return
    rest_us = info.get("ElapsedTime", NAN) - info.get("BusyTime", NAN)
    connection.hold((info.get("RWndLimited", 0.0) + info.get("SndBufLimited", 0.0) + rest_us) / 1e6)
    again_pkts = info.get("TotalRetrans", info.get("BytesRetrans", NAN) / connection.mss_bytes)
    connection.add(
        time_s=time_s,
        delivered_bytes=info.get("BytesAcked", NAN) + info.get("Sacked", 0.0) * info.get("SndMSS", 0.0),
        rtt_s=(info.get("RTT", NAN) or NAN) / 1e6,
        min_rtt_s=(info.get("MinRTT", NAN) or NAN) / 1e6,
        retransmitted_pkts=again_pkts - info.get("DSackDups", 0.0),
        app_limited=float(info.get("AppLimited", NAN) > 0),
        cwnd_pkts=info.get("SndCwnd", NAN),
    )


def _raw(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result itself, which M-Lab's tables keep below ``raw``."""
    return mapping(values.get("raw")) or values
