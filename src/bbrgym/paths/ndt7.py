# SPDX-License-Identifier: GPL-2.0-only
"""Results of M-Lab's NDT7, as its server archives them: TCPInfo and BBRInfo again and again, of a download or upload.

Of an upload the server is the receiver. Of a result with both, each is a connection. `ndt7-client -format=json`, whose
lines are measurements, is read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bbrgym.paths.json_values import line_mappings, mapping, mappings, number
from bbrgym.paths.samples import NAN, Connection, Connections, LogProblem, PathLog, Sample, plausible_mss_bytes

FORMAT = "NDT7"
_TESTS = ("Download", "Upload")


def is_ndt7(values: Any) -> bool:
    """Return whether the values of a JSON file, or of its first line, are NDT7's."""
    if not isinstance(values, dict):
        return False
    return any(test in _raw(values) for test in _TESTS) or ("Key" in values and "Value" in values)


def measurements_of_lines(text: str) -> dict[str, Any]:
    """Return what the client wrote line by line in the form of the archive.

    Raises:
        LogProblem: a line is not JSON.
    """
    found: dict[str, list[Any]] = {test: [] for test in _TESTS}
    for line in line_mappings(text):
        value = mapping(line.get("Value"))
        test = str(value.get("Test", "")).capitalize()
        if test in found and "TCPInfo" in value:
            found[test].append(value)
    return {test: {"ServerMeasurements": values} for test, values in found.items() if values}


def read_ndt7(values: Mapping[str, Any]) -> PathLog:
    """Return the download and the upload of a result.

    Raises:
        LogProblem: it has no measurements of the server's.
    """
    connections = Connections()
    for test in _TESTS:
        for measurement in mappings(mapping(_raw(values).get(test)).get("ServerMeasurements")):
            _add(connections[test], measurement, is_download=test == "Download")
    if not connections.all():
        raise LogProblem("is a result of NDT7 without measurements of its server's")
    return PathLog(FORMAT, connections.all())


def _add(connection: Connection, measurement: Mapping[str, Any], *, is_download: bool) -> None:
    info = {name: number(value) for name, value in mapping(measurement.get("TCPInfo")).items()}
    connection.vantage = "sender" if is_download else "receiver"
    connection.cc = "bbr" if is_download and mapping(measurement.get("BBRInfo")) else ""
    connection.mss_bytes = plausible_mss_bytes(info.get("SndMSS" if is_download else "RcvMSS", NAN))
    time_s = info.get("ElapsedTime", NAN) / 1e6
    if not is_download:
        connection.add(Sample(time_s, info.get("BytesReceived", NAN), min_rtt_s=(info.get("MinRTT", NAN) or NAN) / 1e6))
        return
    connection.add(
        Sample(
            time_s=time_s,
            delivered_bytes=info.get("BytesAcked", NAN) + info.get("Sacked", 0.0) * info.get("SndMSS", 0.0),
            rtt_s=(info.get("RTT", NAN) or NAN) / 1e6,
            min_rtt_s=(info.get("MinRTT", NAN) or NAN) / 1e6,
            retransmitted_pkts=info.get("TotalRetrans", info.get("BytesRetrans", NAN) / connection.mss_bytes),
            app_limited=float(info.get("AppLimited", NAN) > 0),
            cwnd_pkts=info.get("SndCwnd", NAN),
        )
    )


def _raw(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result itself, which M-Lab's tables keep below ``raw``."""
    return mapping(values.get("raw")) or values
