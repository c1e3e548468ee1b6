# SPDX-License-Identifier: GPL-2.0-only
"""Samples of connections, the one form that every reader of a log yields.

Memory is bounded however long the log is: a connection that has too many samples keeps every second one and from then
on takes half as many, and of too many connections those that carried least are forgotten. Counters are cumulative, so
that samples which are left out take nothing from those that stay.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_SAMPLES = 2**15  # of a connection: an hour of ten a second
MAX_CONNECTIONS = 256
DEFAULT_MSS_BYTES = 1448  # of a log that does not tell
_LARGEST_MSS_BYTES = 65_000

NAN = math.nan


class Sample(NamedTuple):
    """A connection at a time; NaN: the log does not tell."""

    time_s: float
    delivered_bytes: float  # payload, since the connection's start
    rtt_s: float = NAN  # latest or smoothed
    min_rtt_s: float = NAN  # smallest since the start
    retransmitted_pkts: float = NAN  # since the start; falls when one turns out not to have been needed
    app_limited: float = NAN  # 1 while the application held the sender back, else 0
    cwnd_pkts: float = NAN


_RETRANSMITTED = Sample._fields.index("retransmitted_pkts")


@dataclass
class Connection:
    """Samples of a connection, to which a reader adds."""

    name: str  # for people; it is not from the log's text
    mss_bytes: float = NAN  # payload of a full packet; NaN: the log does not tell
    cc: str = ""  # name of its congestion control; empty: the log does not tell
    step_bytes: float = 0.0  # delivery is counted in steps of so many bytes; NaN or 0: in packets
    vantage: str = "sender"  # where it was watched: "sender" or "receiver" of its data, or "tap" between them
    has_handshake: bool = True  # whether the minimum RTT may be of the handshake, whose packets are short
    min_rtt_is_bound: bool = False  # whether the minimum RTT is only an upper bound of the base RTT
    ahead_s: float = 0.0  # part of the RTT in front of a tap, which is added to the RTTs of the samples
    received_bytes: float = NAN  # payload that arrived, by the receiver; NaN: the log does not tell
    received_s: float = NAN  # time in which it arrived
    counts_socket: bool = False  # whether delivery counts what the sender's socket took, not what arrived
    is_limited: bool = False  # whether something else than the network limited the sender much of the time
    options_cut: bool = False  # whether the log lacks TCP options, and so SACK blocks
    notes: list[str] = field(default_factory=list)  # clauses for people on what was seen in the log; none quotes it
    peer: str = ""  # tells paths apart; connections with the same one share a path
    # time that the log's clock is ahead of the connection's own, which rests without data; -inf: no sample
    idle_s: float = -math.inf
    late_s: float = 0.001  # error that the samples' times may have; of a host
    held_s: float = 0.0  # time in which something else than the network limited the sender
    skipped: int = 0  # number of samples whose time or counter fell, and that were not taken
    _rows: array[float] = field(default_factory=lambda: array("d"))
    _stride: int = 1
    _offered: int = 0
    _last: Sample | None = None
    _held_from_s: float = NAN

    def add(self, time_s: float, delivered_bytes: float, **others: float) -> None:
        """Take a sample later than those before it, by the fields of `Sample`."""
        sample, last = Sample(time_s, delivered_bytes, **others), self._last
        if not math.isfinite(sample.time_s) or not math.isfinite(sample.delivered_bytes):
            return
        rtt_s, min_rtt_s = (value if value > 0 else NAN for value in (sample.rtt_s, sample.min_rtt_s))
        sample = sample._replace(rtt_s=rtt_s, min_rtt_s=min_rtt_s)
        if last is not None and (sample.time_s <= last.time_s or sample.delivered_bytes < last.delivered_bytes):
            self.skipped += 1
            return
        self._last = sample
        if self._offered % self._stride == 0:
            self._rows.extend(sample)
            if len(self._rows) >= MAX_SAMPLES * len(sample):
                kept = np.frombuffer(self._rows, np.float64).reshape(-1, len(sample))[::2]
                self._rows = array("d", kept.tobytes())
                self._stride *= 2
        self._offered += 1

    @property
    def at_sender(self) -> bool:
        """True unless the connection was watched at the receiver of the data."""
        return self.vantage != "receiver"

    def hold(self, counter_s: float) -> None:
        """Take a counter of the time in which something else than the network limited the sender."""
        if math.isnan(self._held_from_s) and math.isfinite(counter_s):
            self._held_from_s = counter_s
        self.held_s = max(self.held_s, counter_s - self._held_from_s)

    @property
    def last(self) -> Sample | None:
        """The latest sample."""
        return self._last

    @property
    def delivered_bytes(self) -> float:
        """Payload delivered while the connection was watched."""
        return 0.0 if self._last is None or not self._rows else self._last.delivered_bytes - self._rows[1]

    def table(self) -> NDArray[np.float64]:
        """Return the samples, [samples, fields of `Sample`]; retransmissions without those that were not needed."""
        table = np.frombuffer(self._rows, np.float64).reshape(-1, len(Sample._fields)).copy()
        counts = table[:, _RETRANSMITTED]
        needed = np.fmin.accumulate(counts[::-1])[::-1]
        table[:, _RETRANSMITTED] = np.where(np.isnan(counts), NAN, np.maximum(needed, 0.0))
        return table

    def change(self, **columns: float) -> None:
        """Add a number to fields of all samples; NaN: the log does not tell them."""
        table = np.frombuffer(self._rows, np.float64).reshape(-1, len(Sample._fields)).copy()
        for name, by in columns.items():
            table[:, Sample._fields.index(name)] += by
        self._rows = array("d", table.tobytes())


@dataclass(frozen=True)
class PathLog:
    """A log that was read."""

    format: str  # of the log
    connections: tuple[Connection, ...]  # its connections


class LogProblem(ValueError):
    """A log cannot be used; the message says why and quotes nothing of the log."""


class Connections:
    """Connections of a log by key."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, Connection] = {}
        self._named = 0
        self._first_s = NAN  # when the first log began

    def __getitem__(self, key: Hashable) -> Connection:
        known = self._by_key.get(key)
        if known is not None:
            return known
        if len(self._by_key) >= MAX_CONNECTIONS:
            del self._by_key[min(self._by_key, key=lambda one: self._by_key[one].delivered_bytes)]
        self._named += 1
        made = self._by_key[key] = Connection(f"connection {self._named}")
        return made

    def in_turn_s(self, begun_s: float) -> float:
        """Return the offset of the next log's times in a file, by that log's beginning; NaN: after the others."""
        ends_s = [one.last.time_s for one in self._by_key.values() if one.last is not None]
        self._first_s = self._first_s if ends_s else begun_s
        since_s = begun_s - self._first_s
        return max(ends_s, default=0.0) if math.isnan(since_s) else since_s

    def end(self, key: Hashable) -> None:
        """End a connection: later samples with the same key belong to another one."""
        known = self._by_key.pop(key, None)
        if known is not None:
            self._by_key[key, known.name] = known

    def all(self) -> tuple[Connection, ...]:
        """Return those that delivered something."""
        return tuple(one for one in self._by_key.values() if one.delivered_bytes > 0)


def plausible_mss_bytes(value: float) -> float:
    """Return a log's payload of packets; NaN if implausible."""
    return value if 64 <= value <= _LARGEST_MSS_BYTES else NAN
