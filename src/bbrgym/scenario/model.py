# SPDX-License-Identifier: GPL-2.0-only
"""The scenario: a bottleneck link, the flows that share it, and a duration.

People write a scenario (YAML, a mapping), so it has defaults, counts and sizes in BDP. A world reads its resolved
form, in which each of these is a plain value. Units are in the names; a rate is of IP
packets (payload + 40 bytes) on the link and of payload in an application.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr, model_validator

import bbrgym._cc as _cc
from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.checks import ScenarioCheck
from bbrgym.scenario.stack import SenderStack
from bbrgym.scenario.traces import read_trace
from bbrgym.schema import FieldProblem, Float, List, Model, Whole, shown
from bbrgym.tunables import TUNABLES, VARIANTS

__all__ = ["FieldProblem", "Scenario", "check_tunables"]

HEADER_BYTES = 40  # IPv4 and TCP without options, beside the payload of each packet

MAX_WARMUP_DEFAULT_S = 30.0


class Bound(NamedTuple):
    """Bounds of a scenario's value, both allowed (world/bounds.def)."""

    low: float
    high: float
    unit: str


#: The bounds of a scenario by name, the same in every world.
BOUNDS: Mapping[str, Bound] = MappingProxyType({name: Bound(*row) for name, row in _cc.scenario_bounds().items()})


def _within(name: str) -> Any:
    """Return the field constraint of one row of :data:`BOUNDS`."""
    low, high = (int(end) if end.is_integer() else end for end in BOUNDS[name][:2])
    return Field(ge=low, le=high)


Rate = Annotated[Float, _within("rate_mbps")]
Probability = Annotated[Float, _within("probability")]
Seconds = Annotated[Float, _within("time_s")]
BurstSeconds = Annotated[Float, _within("burst_s")]
Delay = Annotated[Float, _within("delay_ms")]
RoundTrip = Annotated[Float, _within("rtt_ms")]
Bytes = Annotated[Whole, _within("bytes")]
QueuePackets = Annotated[Whole, _within("queue_packets")]
AckHold = Annotated[Float, _within("ack_hold_ms")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]


def _is_before(earlier_s: float, later_s: float) -> bool:
    """Return whether a time is before another to the nanosecond, which is what worlds count."""
    return _cc.nanoseconds(earlier_s) < _cc.nanoseconds(later_s)


# ---- the link -----------------------------------------------------------------------------------------


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
    max_probability: Annotated[Float, _within("red_probability")]
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

    target_ms: Annotated[Float, _within("codel_ms")] = 5.0
    interval_ms: Annotated[Float, _within("codel_ms")] = 100.0

    @model_validator(mode="after")
    def _check(self) -> CoDel:
        if self.target_ms >= self.interval_ms:
            raise FieldProblem("target_ms", f"is {self.target_ms}, expected less than interval_ms = {self.interval_ms}")
        return self


class Queue(Model):
    """The bottleneck's queue; exactly one of the three sizes is given.

    Two queues in a row, such as ns-3's queue discipline above a device's own queue, are one with the sum of their
    sizes: drop-tail of 30 packets above a device of 100 is ``size_packets: 130``.

    With ECN a packet that is ECN-capable (``stack: {ecn: true}`` of its flow) is marked instead of dropped, and counted
    in ``ecn_marked_pkts``. At most one threshold is given; it works with every kind.

    Attributes:
        kind: discipline. ``fq_codel``: a queue for each flow, deficit round robin, CoDel in each (RFC 8290, as Linux).
        size_bytes: capacity in IP bytes.
        size_packets: capacity in packets.
        size_bdp: capacity in bandwidth-delay products: link rate (the mean of a trace) times ``bdp_rtt_ms``.
        bdp_rtt_ms: RTT of that product. Default: the largest of the flows.
        red: thresholds, for kind ``red`` only.
        codel: times, for kinds ``codel`` and ``fq_codel`` only.
        quantum_bytes: credit of a flow in each round of ``fq_codel``. Default: one full packet.
        ecn: mark where CoDel drops, or RED drops early; above ``max_bytes`` RED still drops (Linux's ``harddrop``).
            Default: true for ``fq_codel``, as in Linux, else false.
        ecn_threshold_bytes: mark a packet on arrival if the queue already holds so many bytes (DCTCP's K).
        ecn_threshold_packets: the same in packets.
        ecn_threshold_ms: mark a packet on departure if it waited longer (``ce_threshold`` of Linux's CoDel).
    """

    kind: Literal["droptail", "red", "codel", "fq_codel"] = "droptail"
    size_bytes: Bytes | None = None
    size_packets: QueuePackets | None = None
    size_bdp: Annotated[Float, _within("queue_bdp")] | None = None
    bdp_rtt_ms: RoundTrip | None = None
    red: Red | None = None
    codel: CoDel | None = None
    quantum_bytes: Annotated[Whole, _within("quantum_bytes")] | None = None
    ecn: bool | None = None
    ecn_threshold_bytes: Bytes | None = None
    ecn_threshold_packets: QueuePackets | None = None
    ecn_threshold_ms: Annotated[Float, _within("codel_ms")] | None = None

    @model_validator(mode="after")
    def _check(self) -> Queue:
        sizes = [size for size in ("size_bytes", "size_packets", "size_bdp") if getattr(self, size) is not None]
        if len(sizes) != 1:
            given = " and ".join(f"{size} = {getattr(self, size)}" for size in sizes) or "no size"
            raise FieldProblem("", f"has {given}, expected exactly one of size_bytes, size_packets and size_bdp")
        if self.bdp_rtt_ms is not None and self.size_bdp is None:
            raise FieldProblem("bdp_rtt_ms", f"is {self.bdp_rtt_ms}, expected only beside size_bdp")
        if self.red is not None and self.kind != "red":
            raise FieldProblem("red", f"is given, expected only with kind red, which is {self.kind}")
        if self.red is None and self.kind == "red":
            raise FieldProblem("red", "is missing, expected min_bytes, max_bytes and max_probability for kind red")
        if self.codel is not None and self.kind not in ("codel", "fq_codel"):
            raise FieldProblem("codel", f"is given, expected only with kinds codel and fq_codel, which is {self.kind}")
        if self.quantum_bytes is not None and self.kind != "fq_codel":
            raise FieldProblem(
                "quantum_bytes", f"is {self.quantum_bytes}, expected only with kind fq_codel, which is {self.kind}"
            )
        if self.ecn and self.kind == "droptail":
            raise FieldProblem("ecn", "is true, expected only with kinds red, codel and fq_codel, which is droptail")
        thresholds = ("ecn_threshold_bytes", "ecn_threshold_packets", "ecn_threshold_ms")
        several = [f"{name} = {getattr(self, name)}" for name in thresholds if getattr(self, name) is not None]
        if len(several) > 1:
            raise FieldProblem("", f"has {' and '.join(several)}, expected at most one of {', '.join(thresholds)}")
        return self


class Policer(Model):
    """A token bucket in front of the queue: what exceeds rate and burst is dropped, nothing waits.

    Attributes:
        rate_mbps: sustained rate, in Mbit/s of IP bytes.
        burst_bytes: IP bytes that may pass at once; the bucket begins full.
    """

    rate_mbps: Rate
    burst_bytes: Bytes


class Jitter(Model):
    """A share of the packets is late behind the bottleneck, chosen at random packet by packet.

    Attributes:
        share: probability of each packet's being late.
        delay_ms: additional delay of a late packet.
        reorder: whether the packets behind a late one overtake it. Default: they wait, so that the order is kept.
    """

    share: Probability
    delay_ms: Delay
    reorder: bool = False


class AcksAtOnce(Model):
    """ACKs leave the receiver at once."""

    kind: Literal["at_once"] = "at_once"


class AckSlots(Model):
    """ACKs of all flows wait together and leave at the multiples of a time, as in a schedule of transmissions.

    Attributes:
        every_ms: time between two slots.
    """

    kind: Literal["slots"]
    every_ms: AckHold


class AckBursts(Model):
    """ACKs of all flows wait together and leave once there are so many, as in aggregated frames.

    Attributes:
        packets: number of ACKs that leave together.
        timeout_ms: longest wait of the first one.
    """

    kind: Literal["bursts"]
    packets: Annotated[Whole, _within("ack_burst")]
    timeout_ms: AckHold


Acks = Annotated[AcksAtOnce | AckSlots | AckBursts, Field(discriminator="kind")]


class NoLoss(Model):
    """No random loss."""

    kind: Literal["none"] = "none"


class Bernoulli(Model):
    """Independent random loss behind the bottleneck.

    Attributes:
        rate: probability of each packet's loss.
    """

    kind: Literal["bernoulli"]
    rate: Probability


class GilbertElliott(Model):
    """Loss in bursts: a chain of two states (Gilbert 1960, Elliott 1963) that may change at each tick of a clock.

    Attributes:
        good_to_bad: probability of a change to the bad state at a tick in the good state.
        bad_to_good: probability of a change to the good state at a tick in the bad state.
        loss_good: probability of a packet's loss in the good state.
        loss_bad: probability of a packet's loss in the bad state.
        clock: ``packet``: a tick after each packet, so that a flow that waits for a timeout stays in the bad state.
            ``time``: a tick each time that a full packet takes at the link's mean rate, whether or not one passes.
    """

    kind: Literal["gilbert_elliott"]
    good_to_bad: Probability
    bad_to_good: Probability
    loss_good: Probability = 0.0
    loss_bad: Probability = 1.0
    clock: Literal["packet", "time"] = "packet"


Loss = Annotated[NoLoss | Bernoulli | GilbertElliott, Field(discriminator="kind")]


class Trace(Model):
    """A varying rate: a list of times at which the link carries a number of bytes.

    Attributes:
        times_ms: ascending, repeats allowed.
        period_ms: time after which the trace repeats.
        opportunity_bytes: IP bytes carried at each time.
    """

    times_ms: List[Annotated[Float, Field(ge=0)]]
    period_ms: Annotated[Float, _within("trace_period_ms")]
    opportunity_bytes: Bytes = 1500

    @model_validator(mode="after")
    def _check(self) -> Trace:
        if not self.times_ms:
            raise FieldProblem("times_ms", "is empty, expected at least one time")
        earlier = 0.0
        for index, time_ms in enumerate(self.times_ms):
            if not earlier <= time_ms <= self.period_ms:
                raise FieldProblem(
                    f"times_ms[{index}]",
                    f"is {time_ms}, expected a time from {earlier}, the one before, to period_ms = {self.period_ms}",
                )
            earlier = time_ms
        return self

    @property
    def mean_rate_mbps(self) -> float:
        """Mean of the rate, in Mbit/s of IP bytes."""
        return _cc.trace_rate_mbps(len(self.times_ms), self.opportunity_bytes, self.period_ms)


class Change(Model):
    """A change of the link during the scenario.

    Attributes:
        at_s: time of the change, in ascending order.
        rate_mbps: new rate, of a link without a trace.
        delay_ms: new one-way delay.
        loss_rate: new rate of Bernoulli loss, also if the link had none before.
    """

    at_s: Seconds
    rate_mbps: Rate | None = None
    delay_ms: Delay | None = None
    loss_rate: Probability | None = None

    @model_validator(mode="after")
    def _check(self) -> Change:
        if self.rate_mbps is None and self.delay_ms is None and self.loss_rate is None:
            raise FieldProblem("", "changes nothing, expected rate_mbps, delay_ms or loss_rate")
        return self


HopDistance = Annotated[Float, _within("hop_distance_m")]
HopQueue = Annotated[Whole, _within("queue_packets")]


class WifiHop(Model):
    """An 802.11 access point and one station at 5 GHz, both at rest: ns-3's wifi module.

    Attributes:
        standard: ``n``, ``ac`` or ``ax``.
        width_mhz: width of the channel, of ``n`` at most 40.
        streams: spatial streams.
        mcs: modulation and coding scheme of each stream, at most 7 (``n``), 9 (``ac``; 8 on 20 MHz) or 11 (``ax``).
            Default: Minstrel-HT chooses one for each frame.
        distance_m: from the access point to the station.
        queue_packets: capacity of the access point's queue, and of the station's.
    """

    kind: Literal["wifi"]
    standard: Literal["n", "ac", "ax"] = "ac"
    width_mhz: Literal[20, 40, 80] = 20
    streams: Literal[1, 2] = 1
    mcs: Annotated[Whole, Field(ge=0)] | None = None
    distance_m: HopDistance = 5.0
    queue_packets: HopQueue = 500

    @model_validator(mode="after")
    def _check(self) -> WifiHop:
        if self.standard == "n" and self.width_mhz == 80:
            raise FieldProblem("width_mhz", "is 80, expected 20 or 40 for standard n")
        highest = {"n": 7, "ac": 8 if self.width_mhz == 20 else 9, "ax": 11}[self.standard]
        if self.mcs is not None and self.mcs > highest:
            raise FieldProblem(
                "mcs", f"is {self.mcs}, expected at most {highest} for standard {self.standard} on {self.width_mhz} MHz"
            )
        return self


class LteHop(Model):
    """An LTE base station and one phone, both at rest: ns-3's lte module.

    Attributes:
        bandwidth_mhz: bandwidth of each direction.
        layers: spatial layers downwards.
        distance_m: from the base station to the phone.
        queue_packets: capacity of the base station's queue, and of the phone's, in packets of 1500 bytes.
    """

    kind: Literal["lte"]
    bandwidth_mhz: Literal[5, 10, 15, 20] = 20
    layers: Literal[1, 2] = 1
    distance_m: HopDistance = 100.0
    queue_packets: HopQueue = 500


LastHop = Annotated[WifiHop | LteHop, Field(discriminator="kind")]


class Link(Model):
    """The bottleneck.

    Attributes:
        rate_mbps: capacity in Mbit/s of IP bytes; in its place a trace may be given.
        trace_path: file in Mahimahi's format, or ``bbrgym:NAME`` for a shipped one.
        trace: the trace itself.
        delay_ms: one-way propagation delay of the link, a part of every flow's ``rtt_ms``.
        policer: in front of the queue. Default: none.
        queue: in front of the link.
        loss: random loss behind the link.
        jitter: late packets behind the link. Default: none.
        acks: when ACKs leave the receivers.
        changes: of the link at given times.
        last_hop: radio between the link and the receivers, both ways, in the ns-3 world alone. It adds to every RTT,
            has a queue of its own and is not measured: the rows of the link stay the wired link's. Default: none.
    """

    rate_mbps: Rate | None = None
    trace_path: Annotated[str, Field(min_length=1)] | None = None
    trace: Trace | None = None
    delay_ms: Delay = 1.0
    policer: Policer | None = None
    queue: Queue
    loss: Loss = NoLoss()
    jitter: Jitter | None = None
    acks: Acks = AcksAtOnce()
    changes: List[Change] = ()
    last_hop: LastHop | None = None

    @model_validator(mode="after")
    def _check(self) -> Link:
        rates = [rate for rate in ("rate_mbps", "trace_path", "trace") if getattr(self, rate) is not None]
        if len(rates) != 1:
            given = " and ".join(rates) or "none"
            raise FieldProblem("", f"has {given}, expected exactly one of rate_mbps, trace_path and trace")
        if len(self.changes) > BOUNDS["changes"].high:
            most = BOUNDS["changes"].high
            raise FieldProblem("changes", f"has {len(self.changes)} entries, expected at most {most:.0f}")
        for index, change in enumerate(self.changes):
            path = f"changes[{index}]"
            if index and change.at_s < self.changes[index - 1].at_s:
                raise FieldProblem(f"{path}.at_s", f"is {change.at_s}, expected times in ascending order")
            if change.rate_mbps is not None and self.rate_mbps is None:
                raise FieldProblem(
                    f"{path}.rate_mbps", f"is {change.rate_mbps}, expected none: the link follows a trace"
                )
            if change.loss_rate is not None and isinstance(self.loss, GilbertElliott):
                raise FieldProblem(
                    f"{path}.loss_rate", f"is {change.loss_rate}, expected none: the loss is gilbert_elliott"
                )
        return self

    @property
    def mean_rate_mbps(self) -> float:
        """Rate of a resolved link before any change, of a trace its mean, in Mbit/s of IP bytes."""
        return self.trace.mean_rate_mbps if self.trace is not None else self.rate_mbps or 0.0


# ---- the flows ----------------------------------------------------------------------------------------


class Bulk(Model):
    """Always has data to send, or until a transfer is complete.

    Attributes:
        size_bytes: payload of the transfer, sent in full packets. Default: without an end.
    """

    kind: Literal["bulk"] = "bulk"
    size_bytes: Bytes | None = None


class Cbr(Model):
    """Writes at a constant rate.

    Attributes:
        rate_mbps: payload.
    """

    kind: Literal["cbr"]
    rate_mbps: Rate


class OnOff(Model):
    """Alternates between writing at a constant rate and silence.

    Attributes:
        rate_mbps: payload while on.
        on_s: duration of writing.
        off_s: duration of silence.
        random: draw exponential durations with these means.
    """

    kind: Literal["onoff"]
    rate_mbps: Rate
    on_s: BurstSeconds
    off_s: BurstSeconds
    random: bool = False


class ShortFlow(Model):
    """A transfer of random size that begins at a random time; with a flow's ``count``, as many connections.

    Each has its own handshake and slow start. Times are uniform, so that ``count`` of them arrive like a Poisson
    process that has so many. Size and time are drawn from the run's stream ``flow.NAME.app``.

    Attributes:
        size_bytes: payload, one of these at random, sent in full packets.
        weights: of the sizes. Default: equal ones.
        exponential: multiply the size by an exponential number with mean 1.
        within_s: time after ``start_s`` in which the flow starts. Default: until ``stop_s``.
    """

    kind: Literal["flows"]
    size_bytes: Annotated[List[Bytes], Field(min_length=1)]
    weights: List[Annotated[Float, _within("weight")]] = ()
    exponential: bool = False
    within_s: BurstSeconds | None = None

    @model_validator(mode="after")
    def _check(self) -> ShortFlow:
        if self.weights and len(self.weights) != len(self.size_bytes):
            sizes = len(self.size_bytes)
            raise FieldProblem(
                "weights", f"has {len(self.weights)} entries, expected one for each of {sizes} size_bytes"
            )
        return self


App = Annotated[Bulk | Cbr | OnOff | ShortFlow, Field(discriminator="kind")]


class Flow(Model):
    """One TCP connection, or ``count`` equal ones, named ``name-0``, ``name-1``, ...

    Attributes:
        name: unique in the scenario.
        count: number of connections.
        cc: congestion control; the evaluated variant replaces that of a learner.
        role: ``learner``: under test; ``fixed``: keeps its ``cc``; ``background``: the same, and never scored.
        host: name of the host that sends it; controllers may share what the flows of a host measure (``view: host`` of
            an environment). The network does not depend on it. Default: a host of its own, for each of the ``count``.
        rtt_ms: round-trip propagation delay, the link's included.
        start_s: time of its start.
        stop_s: time of its end. Default: the end of the scenario.
        app: application that writes the data.
        stack: of its sender: a preset's name, or a mapping of facts that differ from the scenario's stack or, if it
            names a ``preset``, from that. Default: the scenario's.
        tunables: values in natural units. Default: the variant's preset.
    """

    name: Name
    count: Annotated[Whole, _within("flows")] = 1
    cc: str = "bbr"
    role: Literal["learner", "fixed", "background"] = "learner"
    host: Name | None = None
    rtt_ms: RoundTrip
    start_s: Seconds = 0.0
    stop_s: Seconds | None = None
    app: App = Bulk()
    stack: SenderStack = SenderStack()
    tunables: dict[str, Float] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Flow:
        if self.cc not in VARIANTS:
            raise FieldProblem("cc", f"is {shown(self.cc)}; {nearest(self.cc, VARIANTS)}")
        if self.stop_s is not None and not _is_before(self.start_s, self.stop_s):
            raise FieldProblem("stop_s", f"is {self.stop_s}, expected more than start_s = {self.start_s}")
        check_tunables(self.cc, self.tunables)
        return self


def check_tunables(cc: str, tunables: Mapping[str, float]) -> None:
    """Check that ``cc`` has these tunables and that their values are in range.

    Raises:
        FieldProblem: for the first tunable that is wrong.
    """
    for name, value in tunables.items():
        path = f"tunables.{name}"
        if name not in VARIANTS[cc].preset:
            has = nearest(name, VARIANTS[cc].preset) if VARIANTS[cc].preset else "it has none"
            raise FieldProblem(path, f"is no tunable of {cc}; {has}")
        tunable = TUNABLES[name]
        if not tunable.low <= value <= tunable.high:
            raise FieldProblem(path, f"is {value:g}, expected {tunable.low:g} to {tunable.high:g} ({tunable.unit})")
        if tunable.unit in ("count", "mode", "switch") and not float(value).is_integer():
            raise FieldProblem(path, f"is {value:g}, expected a whole number ({tunable.unit})")


# ---- the scenario --------------------------------------------------------------------------------------


class Scenario(Model):
    """A bottleneck link and the flows that share it for a time; what a world runs.

    Attributes:
        name: shown in records.
        duration_s: simulated time.
        warmup_s: time from which summaries measure. Default: a quarter of the duration, at most 30 s.
        mss_bytes: payload of a full packet.
        stack: of every sender: a preset's name or a mapping. ``ns3`` is without what ns-3's own sockets lack, so
            that worlds can be compared like for like.
        link: bottleneck.
        flows: that share the link.
        checks: bounds on what a run measures, which an evaluation reports as passed or failed.

    Example:
        >>> import bbrgym
        >>> scenario = bbrgym.load_scenario("steady")
        >>> scenario.duration_s, [flow.rtt_ms for flow in scenario.flows]
        (30.0, [40.0])
        >>> longer = bbrgym.load_scenario({**scenario.model_dump(exclude_none=True), "duration_s": 60})
    """

    name: Name = "unnamed"
    duration_s: Annotated[Float, _within("duration_s")]
    warmup_s: Seconds | None = None
    mss_bytes: Annotated[Whole, _within("mss_bytes")] = 1448
    stack: SenderStack = SenderStack()
    link: Link
    flows: List[Flow]
    checks: List[ScenarioCheck] = ()

    _resolved: Scenario | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check(self) -> Scenario:
        if self.warmup_s is not None and not _is_before(self.warmup_s, self.duration_s):
            raise FieldProblem("warmup_s", f"is {self.warmup_s}, expected less than duration_s = {self.duration_s}")
        total = sum(flow.count for flow in self.flows)
        least, most, _ = BOUNDS["flows"]
        if not least <= total <= most:
            raise FieldProblem("flows", f"has {total} flows, expected {least:.0f} to {most:.0f}")
        for index, flow in enumerate(self.flows):
            if not _is_before(flow.start_s, self.duration_s):
                raise FieldProblem(
                    f"flows[{index}].start_s", f"is {flow.start_s}, expected less than duration_s = {self.duration_s}"
                )
            if flow.rtt_ms < 2 * self.link.delay_ms:
                raise FieldProblem(
                    f"flows[{index}].rtt_ms",
                    f"is {flow.rtt_ms}, expected at least twice link.delay_ms = {self.link.delay_ms}",
                )
        self._resolved = _resolve(self)
        names = [flow.name for flow in self._resolved.flows]
        for index, check in enumerate(self.checks):
            if not any(map(check.covers, names)):
                entries = [flow.name for flow in self.flows]
                raise FieldProblem(f"checks[{index}].flow", f"is {check.flow!r}; {nearest(str(check.flow), entries)}")
        return self

    def resolved(self) -> Scenario:
        """Return the scenario with plain values only, as worlds read it."""
        return self if self._resolved is None else self._resolved

    def resolved_json(self) -> str:
        """Return the resolved form as JSON; the same scenario gives the same text."""
        plain = self.resolved().model_dump(mode="json")
        del plain["link"]["trace_path"], plain["link"]["queue"]["size_bdp"], plain["link"]["queue"]["bdp_rtt_ms"]
        del plain["stack"], plain["checks"]
        for flow in plain["flows"]:
            del flow["count"], flow["host"]
        return json.dumps(plain, allow_nan=False)


def _resolve(scenario: Scenario) -> Scenario:
    link = scenario.link.model_copy(update={"trace": _trace(scenario.link), "trace_path": None})
    rate_mbps = link.mean_rate_mbps
    rtt_ms = max(flow.rtt_ms for flow in scenario.flows)
    fastest_mbps = max([rate_mbps, *(change.rate_mbps or 0.0 for change in scenario.link.changes)])
    if _bdp_bytes(fastest_mbps, rtt_ms) > BOUNDS["bytes"].high:
        raise FieldProblem(
            "link",
            f"{fastest_mbps:g} Mbit/s times an RTT of {rtt_ms:g} ms is {_bdp_bytes(fastest_mbps, rtt_ms):.3g} bytes "
            f"in flight, expected at most {BOUNDS['bytes'].high:.0f}",
        )
    link = link.model_copy(update={"queue": _resolve_queue(scenario, rate_mbps, rtt_ms)})
    warmup_s = scenario.warmup_s
    if warmup_s is None:
        warmup_s = min(scenario.duration_s / 4, MAX_WARMUP_DEFAULT_S)
    return scenario.model_copy(update={"warmup_s": warmup_s, "link": link, "flows": _expand(scenario)})


def _trace(link: Link) -> Trace | None:
    if link.trace_path is None:
        return link.trace
    try:
        read = read_trace(link.trace_path)
    except ConfigError as error:
        raise FieldProblem("link.trace_path", str(error)) from error
    return Trace.model_construct(
        times_ms=read.times_ms, period_ms=float(read.period_ms), opportunity_bytes=read.opportunity_bytes
    )


def _bdp_bytes(rate_mbps: float, rtt_ms: float) -> float:
    return rate_mbps * 125.0 * rtt_ms


def _resolve_queue(scenario: Scenario, rate_mbps: float, longest_rtt_ms: float) -> Queue:
    queue = scenario.link.queue
    packet_bytes = scenario.mss_bytes + HEADER_BYTES
    size_bytes = queue.size_bytes
    if queue.size_bdp is not None:
        rtt_ms = longest_rtt_ms if queue.bdp_rtt_ms is None else queue.bdp_rtt_ms
        size_bytes = round(queue.size_bdp * _bdp_bytes(rate_mbps, rtt_ms))
    capacity_bytes = size_bytes if size_bytes is not None else (queue.size_packets or 0) * packet_bytes
    if not packet_bytes <= capacity_bytes <= BOUNDS["bytes"].high:
        size = "size_packets" if size_bytes is None else "size_bytes" if queue.size_bdp is None else "size_bdp"
        raise FieldProblem(
            f"link.queue.{size}",
            f"is {getattr(queue, size)}, which holds {capacity_bytes} bytes, expected at least one packet of "
            f"{packet_bytes} bytes and at most {BOUNDS['bytes'].high:.0f}",
        )
    if queue.red is not None and queue.red.max_bytes > capacity_bytes:
        raise FieldProblem(
            "link.queue.red.max_bytes", f"is {queue.red.max_bytes}, expected at most the queue's {capacity_bytes} bytes"
        )
    resolved: dict[str, Any] = {"size_bytes": size_bytes, "size_bdp": None, "bdp_rtt_ms": None}
    if queue.kind in ("codel", "fq_codel"):
        resolved["codel"] = queue.codel or CoDel()
    if queue.kind == "fq_codel":
        resolved["quantum_bytes"] = queue.quantum_bytes or packet_bytes
    resolved["ecn"] = queue.kind == "fq_codel" if queue.ecn is None else queue.ecn
    return queue.model_copy(update=resolved)


def _expand(scenario: Scenario) -> tuple[Flow, ...]:
    flows: dict[str, Flow] = {}
    common = scenario.stack.over(None)
    for index, flow in enumerate(scenario.flows):
        names = [flow.name] if flow.count == 1 else [f"{flow.name}-{i}" for i in range(flow.count)]
        stop_s = scenario.duration_s if flow.stop_s is None else min(flow.stop_s, scenario.duration_s)
        app = _resolve_app(flow.app, stop_s - flow.start_s, f"flows[{index}].app")
        for name in names:
            if name in flows:
                raise FieldProblem(f"flows[{index}].name", f"gives {name!r} a second time, expected unique names")
            stack = flow.stack.over(common)
            resolved = {"name": name, "count": 1, "stop_s": stop_s, "app": app, "stack": stack}
            flows[name] = flow.model_copy(update=resolved)
    return tuple(flows.values())


def _resolve_app(app: App, runs_s: float, path: str) -> App:
    """Return the application of a flow that runs so long."""
    if not isinstance(app, ShortFlow):
        return app
    within_s = runs_s if app.within_s is None else app.within_s
    if _is_before(runs_s, within_s):
        raise FieldProblem(f"{path}.within_s", f"is {within_s}, expected at most {runs_s:g}, the time until stop_s")
    weights = app.weights or (1.0,) * len(app.size_bytes)
    return app.model_copy(update={"within_s": within_s, "weights": weights})
