# SPDX-License-Identifier: GPL-2.0-only
"""Rows of a world's log of packets, and the logged run."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from bbrgym.scenario.model import Scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import ACK_FIELDS, PACKET_EVENTS, PACKET_FLAGS

UNPACED_Bps = 2**64 - 1
"""The pacing rate of a sender that is not paced; also of a bound that is not there."""

LOSS_STATES = ("open", "disorder", "cwr", "recovery", "loss")
"""Linux's states of loss recovery, by their code."""


_CODES = {event.name: code for code, event in enumerate(PACKET_EVENTS)}
SENT = _CODES["sent"]
MARKED = _CODES["marked"]
QUEUE_DROPPED = _CODES["queue_dropped"]
POLICED = _CODES["policed"]
RANDOM_LOST = _CODES["random_lost"]
ARRIVED = _CODES["arrived"]
ACK_SENT = _CODES["ack_sent"]
ACK_ARRIVED = _CODES["ack_arrived"]
MARKED_LOST = _CODES["marked_lost"]
TIMEOUT = _CODES["timeout"]

NETWORK_EVENTS = (MARKED, QUEUE_DROPPED, POLICED, RANDOM_LOST)
"""Events by which the network marks a packet or loses it."""

FLAG_BITS = {flag.name: 1 << bit for bit, flag in enumerate(PACKET_FLAGS)}
SYN = FLAG_BITS["syn"]
RETRANSMISSION = FLAG_BITS["retransmission"]


class PacketRow(NamedTuple):
    """An event of a packet; offsets count a flow's payload from its first byte on."""

    time_ns: int  # simulated time
    offset_bytes: int  # of the first byte that it carries
    acked_bytes: int  # of an ACK: everything below has arrived
    window_bytes: int  # of an ACK: room that it announces beyond that
    flow: int  # index
    payload_bytes: int  # that it carries
    queue_bytes: int  # in the queue afterwards; of the queue's events
    flags: int  # bits of `PACKET_FLAGS`
    event: int  # code of `PACKET_EVENTS`
    block_count: int  # number of SACK blocks
    blocks: list[list[int]]  # begin and end of each, and zeros behind them; the first may report a duplicate


def _decision_columns() -> Any:
    return namedtuple("_DecisionColumns", ["flow", "after", *(field.name for field in ACK_FIELDS)])


class DecisionRow(_decision_columns()):  # type: ignore[misc] # its columns are those of a compiled table
    """An ACK's sample and the controller's state after it; -1: not measured.

    Attributes:
        flow: index.
        after: number of the packets' rows, of those taken with it, that precede it.
        others: `bbrgym.worlds.ACK_FIELDS`.
    """

    __slots__ = ()


@dataclass(frozen=True)
class TracedFlow:
    """A flow of a traced run."""

    name: str
    cc: str  # its congestion control
    algorithm: str  # of the congestion control, such as ``bbr``


@dataclass(frozen=True)
class TracedRun:
    """A run whose packets are written."""

    scenario: Scenario
    world: str  # name of its world
    seed: int
    flows: tuple[TracedFlow, ...]  # by index
    mss_bytes: int  # payload of a full segment

    @classmethod
    def of(cls, scenario: Scenario, world: str, seed: int) -> TracedRun:
        """Return the description of a scenario's run."""
        resolved = scenario.resolved()
        flows = tuple(TracedFlow(flow.name, flow.cc, VARIANTS[flow.cc].algorithm) for flow in resolved.flows)
        return cls(scenario, world, seed, flows, resolved.mss_bytes)

    @property
    def title(self) -> str:
        """The run in one line."""
        return f"{self.scenario.name}, {self.world}, seed {self.seed}"


class Rows(NamedTuple):
    """The rows that a world logged in a part of a run, as `bbrgym.worlds.World.take_packets` returns them."""

    packets: Any
    decisions: Any

    def in_order(self) -> Iterator[PacketRow | DecisionRow]:
        """Yield the rows in the order of the log."""
        packets = list(zip(*(self.packets[name].tolist() for name in PacketRow._fields), strict=True))
        begin = 0
        for values in self.decisions[list(DecisionRow._fields)].tolist():
            decision = DecisionRow._make(values)
            yield from map(PacketRow._make, packets[begin : decision.after])
            begin = decision.after
            yield decision
        yield from map(PacketRow._make, packets[begin:])
