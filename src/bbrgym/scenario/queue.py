# SPDX-License-Identifier: GPL-2.0-only
"""The queue of a scenario's link, and the policer in front of the queue."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import model_validator

from bbrgym.scenario.bounds import Bytes, QueuePackets, Rate, RoundTrip, within
from bbrgym.schema import FieldProblem, Float, Model, Whole


class Red(Model):
    """Random early detection: drops at random between two queue lengths.

    Attributes:
        min_bytes: mean queue from which packets are dropped early.
        max_bytes: mean queue at which every packet is dropped.
        max_probability: probability p of an early drop just below ``max_bytes``; it falls to 0 at ``min_bytes``.
        gaps: packets from one early drop to the next. ``ns3``: uniform between 1/p and 2/p (ns-3's ``Wait``), two
            drops in 3/p packets. ``linux``: uniform between none and 1/p (sch_red), two drops in 1/p packets.
    """

    min_bytes: Bytes
    max_bytes: Bytes
    max_probability: Annotated[Float, within("red_probability")]
    gaps: Literal["ns3", "linux"] = "ns3"

    @model_validator(mode="after")
    def _check(self) -> Red:
        if self.max_bytes <= self.min_bytes:
            raise FieldProblem("max_bytes", f"is {self.max_bytes}, expected more than min_bytes = {self.min_bytes}")
        return self


class CoDel(Model):
    """Controlled delay (RFC 8289).

    Attributes:
        target_ms: waiting time that is accepted.
        interval_ms: how long it may be exceeded before packets are dropped.
    """

    target_ms: Annotated[Float, within("codel_ms")] = 5.0
    interval_ms: Annotated[Float, within("codel_ms")] = 100.0

    @model_validator(mode="after")
    def _check(self) -> CoDel:
        if self.target_ms >= self.interval_ms:
            raise FieldProblem("target_ms", f"is {self.target_ms}, expected less than interval_ms = {self.interval_ms}")
        return self


class Pie(Model):
    """Proportional integral controller enhanced (RFC 8033), as Linux's sch_pie.

    Attributes:
        target_ms: waiting time that it holds.
    """

    target_ms: Annotated[Float, within("codel_ms")] = 15.0


class Cake(Model):
    """Linux's sch_cake with the link's rate as ``bandwidth``, ``besteffort``, ``flows``, no ACK filter, no overhead.

    Attributes:
        rtt_ms: tc's ``rtt``: COBALT's interval; its target is a twentieth, or 1.5 packets' time at the rate if longer.
    """

    rtt_ms: RoundTrip = 100.0


#: The kinds of queues that a field is for, and they in words.
_KINDS_WITH = {
    "red": (("red",), "kind red"),
    "codel": (("codel", "fq_codel"), "kinds codel and fq_codel"),
    "quantum_bytes": (("fq_codel",), "kind fq_codel"),
    "ecn": (("red", "codel", "fq_codel", "pie", "cake"), "kinds red, codel, fq_codel, pie and cake"),
    "pie": (("pie",), "kind pie"),
    "cake": (("cake",), "kind cake"),
}


class Queue(Model):
    """The bottleneck's queue; exactly one of the three sizes is given.

    Two queues in a row, as ns-3's discipline above its device's, are one of both sizes: 30 packets above 100 are
    ``size_packets: 130``.

    With ECN, packets of flows with ``stack: {ecn: true}`` are marked instead of dropped, and counted in
    ``ecn_marked_pkts``. At most one threshold is given, with any kind.

    Attributes:
        kind: discipline, as in Linux: ``fq_codel`` (RFC 8290), CoDel in each flow's queue; ``pie`` (RFC 8033);
            ``cake``, whose ``bandwidth`` is the link's rate, isolating flows.
        size_bytes: capacity in IP bytes.
        size_packets: capacity in packets.
        size_bdp: capacity in bandwidth-delay products: link rate (the mean of a trace) times ``bdp_rtt_ms``.
        bdp_rtt_ms: RTT of that product. Default: the largest of the flows.
        red: thresholds, for kind ``red`` only.
        codel: times, for kinds ``codel`` and ``fq_codel`` only.
        pie: ``target_ms`` that it holds, for kind ``pie`` only. Default: 15.
        cake: ``rtt_ms``, tc's ``rtt``, for kind ``cake`` only. Default: 100.
        quantum_bytes: credit of a flow in each round of ``fq_codel``. Default: one full packet.
        ecn: mark where CoDel drops, or RED or PIE early; above ``max_bytes`` RED drops, above a probability of
            0.1 PIE. Default: true for ``fq_codel`` and ``cake``, else false.
        ecn_threshold_bytes: mark a packet on arrival if the queue already holds so many bytes (DCTCP's K).
        ecn_threshold_packets: the same in packets.
        ecn_threshold_ms: mark a packet on departure if it waited longer (``ce_threshold`` of Linux's CoDel).
    """

    kind: Literal["droptail", "red", "codel", "fq_codel", "pie", "cake"] = "droptail"
    size_bytes: Bytes | None = None
    size_packets: QueuePackets | None = None
    size_bdp: Annotated[Float, within("queue_bdp")] | None = None
    bdp_rtt_ms: RoundTrip | None = None
    red: Red | None = None
    codel: CoDel | None = None
    pie: Pie | None = None
    cake: Cake | None = None
    quantum_bytes: Annotated[Whole, within("quantum_bytes")] | None = None
    ecn: bool | None = None
    ecn_threshold_bytes: Bytes | None = None
    ecn_threshold_packets: QueuePackets | None = None
    ecn_threshold_ms: Annotated[Float, within("codel_ms")] | None = None

    @model_validator(mode="after")
    def _check(self) -> Queue:
        sizes = [size for size in ("size_bytes", "size_packets", "size_bdp") if getattr(self, size) is not None]
        if len(sizes) != 1:
            given = " and ".join(f"{size} = {getattr(self, size)}" for size in sizes) or "no size"
            raise FieldProblem("", f"has {given}, expected exactly one of size_bytes, size_packets and size_bdp")
        if self.bdp_rtt_ms is not None and self.size_bdp is None:
            raise FieldProblem("bdp_rtt_ms", f"is {self.bdp_rtt_ms}, expected only beside size_bdp")
        for name, (kinds, words) in _KINDS_WITH.items():
            value = getattr(self, name)
            if value not in (None, False) and self.kind not in kinds:
                is_what = "given" if isinstance(value, Model) else str(value).lower()
                raise FieldProblem(name, f"is {is_what}, expected only with {words}; kind is {self.kind}")
        if self.red is None and self.kind == "red":
            raise FieldProblem("red", "is missing, expected min_bytes, max_bytes and max_probability for kind red")
        thresholds = ("ecn_threshold_bytes", "ecn_threshold_packets", "ecn_threshold_ms")
        several = [f"{name} = {getattr(self, name)}" for name in thresholds if getattr(self, name) is not None]
        if len(several) > 1:
            raise FieldProblem("", f"has {' and '.join(several)}, expected at most one of {', '.join(thresholds)}")
        return self


class Policer(Model):
    """A token bucket in front of the queue: what exceeds rate and burst is dropped, nothing waits.

    Attributes:
        rate_mbps: sustained rate, in Mbit/s of IP bytes.
        burst_bytes: IP bytes that may pass at once, at least a full packet; the bucket begins full.
    """

    rate_mbps: Rate
    burst_bytes: Bytes
