# SPDX-License-Identifier: GPL-2.0-only
"""Samples of the connections over one path, added up and cut into windows of time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.paths.samples import DEFAULT_MSS_BYTES, NAN, Connection, PathLog, Sample
from bbrgym.scenario.model import HEADER_BYTES

_LEAST_OVERLAP = 0.5  # of a connection's time, in which it shared the path with the largest


@dataclass(frozen=True)
class PathSeries:
    """Samples of all connections over a path, at the times of the largest, [samples] each."""

    largest: Connection  # connection that delivered most
    connections: int  # mean number of those that carried data at the same time
    mss_bytes: int
    time_s: NDArray[np.float64]
    delivered_bytes: NDArray[np.float64]
    retransmitted_pkts: NDArray[np.float64]
    rtt_s: NDArray[np.float64]
    limited: NDArray[np.bool_]
    cwnd_pkts: NDArray[np.float64]
    min_rtt_s: float
    step_bytes: float  # in which delivery is counted, 0: in packets
    received_rate: float  # IP bytes per second, of the receiver's total; NaN: the log does not tell

    @property
    def floor_s(self) -> float:
        """The smallest RTT of any kind; NaN without one."""
        return nan_min(np.array([self.min_rtt_s, nan_min(self.rtt_s)]))

    @property
    def packet_bytes(self) -> int:
        """IP bytes of a full packet."""
        return self.mss_bytes + HEADER_BYTES

    @property
    def duration_s(self) -> float:
        """Time that was watched."""
        return float(self.time_s[-1] - self.time_s[0])


@dataclass(frozen=True)
class Windows:
    """Windows of time, [windows] each."""

    begin_s: NDArray[np.float64]
    length_s: NDArray[np.float64]
    rate: NDArray[np.float64]  # IP bytes per second
    sent_pkts: NDArray[np.float64]
    lost_pkts: NDArray[np.float64]
    longest_rtt_s: NDArray[np.float64]
    shortest_rtt_s: NDArray[np.float64]
    limited: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begin_s)


def series_of(log: PathLog) -> PathSeries:
    """Return the samples of the connection that delivered most and of those that shared the path at the same time."""
    largest = max(log.connections, key=lambda one: one.delivered_bytes)
    columns = dict(zip(Sample._fields, largest.table().T, strict=True))
    time_s, delivered, retransmitted = (
        columns[name].copy() for name in ("time_s", "delivered_bytes", "retransmitted_pkts")
    )
    min_rtts_s, shared_s, received_bytes, step_bytes = [], 0.0, 0.0, 0.0
    for connection in _sharing(largest, log.connections):
        table = dict(zip(Sample._fields, connection.table().T, strict=True))
        if connection is not largest:
            for total, name in ((delivered, "delivered_bytes"), (retransmitted, "retransmitted_pkts")):
                total += np.interp(time_s, table["time_s"], table[name])
        min_rtts_s.append(nan_min(np.append(table["min_rtt_s"], NAN)))
        shared_s += _overlap_s(largest, connection)
        received_bytes += connection.received_bytes
        step_bytes += connection.step_bytes if connection.step_bytes > 0 else 0.0
    mss_bytes = DEFAULT_MSS_BYTES if math.isnan(largest.mss_bytes) else round(largest.mss_bytes)
    received_s = largest.received_s if largest.received_s > 0 else NAN
    return PathSeries(
        largest=largest,
        connections=max(round(shared_s / max(time_s[-1] - time_s[0], 1e-9)), 1),
        mss_bytes=mss_bytes,
        time_s=time_s,
        delivered_bytes=delivered,
        retransmitted_pkts=retransmitted,
        rtt_s=columns["rtt_s"],
        limited=columns["app_limited"] > 0,
        cwnd_pkts=columns["cwnd_pkts"],
        min_rtt_s=nan_min(np.array(min_rtts_s)),
        step_bytes=step_bytes,
        received_rate=received_bytes / received_s * (mss_bytes + HEADER_BYTES) / mss_bytes,
    )


def _sharing(largest: Connection, connections: Sequence[Connection]) -> list[Connection]:
    """Return the largest connection and concurrent ones to the same peer."""
    return [
        one
        for one in connections
        if (one.peer, one.vantage) == (largest.peer, largest.vantage)
        and _overlap_s(largest, one) >= _LEAST_OVERLAP * min(_span_s(one), _span_s(largest))
    ]


def _overlap_s(first: Connection, second: Connection) -> float:
    (begin, end), (other_begin, other_end) = (one.table()[[0, -1], 0] for one in (first, second))
    return max(float(min(end, other_end) - max(begin, other_begin)), 0.0)


def _span_s(connection: Connection) -> float:
    return _overlap_s(connection, connection)


def windows_of(series: PathSeries, least_rtts: float, least_s: float, least_pkts: float) -> Windows:
    """Cut the time at samples, into windows that are as long as the largest of three minima."""
    mean_Bps = (series.delivered_bytes[-1] - series.delivered_bytes[0]) / series.duration_s
    rtts_s = 0.0 if math.isnan(series.floor_s) else least_rtts * series.floor_s
    least_s = min(max(rtts_s, least_s, least_pkts * series.mss_bytes / mean_Bps), series.duration_s)
    edges = [0]
    for index, time_s in enumerate(series.time_s):
        if time_s - series.time_s[edges[-1]] >= least_s * (1 - 1e-9):
            edges.append(index)
    at = np.array(edges)
    length_s = np.diff(series.time_s[at])
    delivered = np.diff(series.delivered_bytes[at])
    lost = np.diff(series.retransmitted_pkts[at])
    parts = [slice(begin, end + 1) for begin, end in itertools.pairwise(edges)]
    return Windows(
        begin_s=series.time_s[at[:-1]],
        length_s=length_s,
        rate=delivered / length_s * series.packet_bytes / series.mss_bytes,
        sent_pkts=delivered / series.mss_bytes + np.nan_to_num(lost),
        lost_pkts=lost,
        longest_rtt_s=np.array([nan_max(series.rtt_s[part]) for part in parts]),
        shortest_rtt_s=np.array([nan_min(series.rtt_s[part]) for part in parts]),
        limited=np.array([bool(series.limited[part].mean() > 0.5) for part in parts]),
    )


def nan_min(values: NDArray[Any]) -> float:
    """Return the smallest known value; NaN without one."""
    known = values[~np.isnan(values)]
    return float(known.min()) if len(known) else NAN


def nan_max(values: NDArray[Any]) -> float:
    """Return the largest known value; NaN without one."""
    return -nan_min(-values)
