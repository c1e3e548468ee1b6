# SPDX-License-Identifier: GPL-2.0-only
"""The bottleneck link of a scenario: rate or trace, loss, delay, and changes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import AfterValidator, Field, PlainSerializer, model_validator

import bbrgym._cc as _cc
from bbrgym.scenario.bounds import BOUNDS, AckHold, Bytes, Delay, Probability, Rate, RateOrOutage, Seconds, within
from bbrgym.scenario.queue import Policer, Queue
from bbrgym.scenario.traces import AscendingTimes
from bbrgym.schema import Count, FieldProblem, Float, List, Model, NotNegative, Whole


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
    packets: Annotated[Whole, within("ack_burst")]
    timeout_ms: AckHold


Acks = Annotated[AcksAtOnce | AckSlots | AckBursts, Field(discriminator="kind")]


LossUnit: TypeAlias = Literal["packet", "skb"]


class NoLoss(Model):
    """No random loss."""

    kind: Literal["none"] = "none"


class Bernoulli(Model):
    """Independent random loss behind the bottleneck.

    Attributes:
        rate: probability of each packet's loss.
        unit: ``skb``: what TCP hands over together (TSO) is lost together, as by netem.
    """

    kind: Literal["bernoulli"]
    rate: Probability
    unit: LossUnit = "packet"


class GilbertElliott(Model):
    """Loss in bursts: a chain of two states (Gilbert 1960, Elliott 1963) that may change at each tick of a clock.

    Attributes:
        good_to_bad: probability of a change to the bad state at a tick in the good state.
        bad_to_good: probability of a change to the good state at a tick in the bad state.
        loss_good: probability of a packet's loss in the good state.
        loss_bad: probability of a packet's loss in the bad state.
        clock: ``packet``: a tick after each packet, so that a flow that waits for a timeout stays in the bad state.
            ``time``: a tick each time that a full packet takes at the link's mean rate, whether or not one passes.
        unit: as of Bernoulli loss.
    """

    kind: Literal["gilbert_elliott"]
    good_to_bad: Probability
    bad_to_good: Probability
    loss_good: Probability = 0.0
    loss_bad: Probability = 1.0
    clock: Literal["packet", "time"] = "packet"
    unit: LossUnit = "packet"


Loss = Annotated[NoLoss | Bernoulli | GilbertElliott, Field(discriminator="kind")]


class Trace(Model):
    """A varying rate: a list of times at which the link carries a number of bytes.

    Attributes:
        times_ms: ascending, repeats allowed.
        counts: opportunities at each of these times. Default: one.
        period_ms: time after which the trace repeats.
        opportunity_bytes: IP bytes carried by each opportunity.
    """

    times_ms: Annotated[List[NotNegative], AfterValidator(AscendingTimes.of), PlainSerializer(list)]
    counts: List[Count] = ()
    period_ms: Annotated[Float, within("trace_period_ms")]
    opportunity_bytes: Bytes = 1500

    @model_validator(mode="after")
    def _check(self) -> Trace:
        if not self.times_ms:
            raise FieldProblem("times_ms", "is empty, expected at least one time")
        if self.counts and len(self.counts) != len(self.times_ms):
            times = len(self.times_ms)
            raise FieldProblem("counts", f"has {len(self.counts)} entries, expected one for each of {times} times_ms")
        most = max(self.counts, default=1) * self.opportunity_bytes
        if most > BOUNDS["bytes"].high:
            raise FieldProblem("counts", f"carries {most} bytes at a time, expected at most {BOUNDS['bytes'].high:.0f}")
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
        opportunities = sum(self.counts) if self.counts else len(self.times_ms)
        return _cc.trace_rate_mbps(opportunities, self.opportunity_bytes, self.period_ms)

    def compact(self) -> dict[str, Any]:
        """Return the fields in plain values, repeated times once beside ``counts`` where that is shorter."""
        fields = {"period_ms": self.period_ms, "opportunity_bytes": self.opportunity_bytes}
        times_ms = np.asarray(self.times_ms, np.float64)
        if self.counts:
            return {"times_ms": times_ms.tolist(), "counts": list(self.counts), **fields}
        firsts = np.flatnonzero(np.diff(times_ms, prepend=-1.0))
        if 2 * len(firsts) > len(times_ms):
            return {"times_ms": times_ms.tolist(), **fields}
        counts = np.diff(firsts, append=len(times_ms))
        return {"times_ms": times_ms[firsts].tolist(), "counts": counts.tolist(), **fields}


class DelayTrace(Model):
    """A delay that repeats a list; one of its two forms is given.

    Attributes:
        path: file with a delay in ms a line, as LeoReplayer's.
        delays_ms: the list.
        step_ms: how long each lasts.
    """

    path: Annotated[str, Field(min_length=1)] | None = None
    delays_ms: List[Delay] = ()
    step_ms: Annotated[Float, within("delay_step_ms")] = 10.0

    @model_validator(mode="after")
    def _check(self) -> DelayTrace:
        if (self.path is None) == (not self.delays_ms):
            given = "both" if self.delays_ms else "neither"
            raise FieldProblem("", f"has {given} of path and delays_ms, expected one of them")
        if len(self.delays_ms) > BOUNDS["delay_steps"].high:
            most = BOUNDS["delay_steps"].high
            raise FieldProblem("delays_ms", f"has {len(self.delays_ms)} delays, expected at most {most:.0f}")
        return self

    @property
    def mean_ms(self) -> float:
        """Mean over all steps."""
        return sum(self.delays_ms) / len(self.delays_ms)

    def area_ms_s(self, at_s: float) -> float:
        """Return the integral of the delay until a time."""
        sums_ms = np.concatenate([[0.0], np.cumsum(self.delays_ms)])
        periods, at = divmod(at_s * 1e3 / self.step_ms, len(self.delays_ms))
        steps = float(periods * sums_ms[-1] + np.interp(at, np.arange(len(sums_ms)), sums_ms))
        return steps * self.step_ms / 1e3


class Change(Model):
    """A change of the link during the scenario.

    Attributes:
        at_s: time of the change, in ascending order.
        rate_mbps: new rate, of a link without a trace; 0: an outage until the next one. The rest of the packet in
            transmission takes the new rate.
        delay_ms: new one-way delay.
        loss_rate: new rate of Bernoulli loss, also if the link had none before.
    """

    at_s: Seconds
    rate_mbps: RateOrOutage | None = None
    delay_ms: Delay | None = None
    loss_rate: Probability | None = None

    @model_validator(mode="after")
    def _check(self) -> Change:
        if self.rate_mbps is None and self.delay_ms is None and self.loss_rate is None:
            raise FieldProblem("", "changes nothing, expected rate_mbps, delay_ms or loss_rate")
        return self


#: The hop's queue counts in bytes, a packet as so many.
LTE_QUEUED_BYTES = 1500

#: The largest MSDU of IEEE 802.11, 2304 bytes, less the LLC header.
WIFI_PACKET_BYTES = 2296

HopDistance = Annotated[Float, within("hop_distance_m")]
HopQueue = Annotated[Whole, within("queue_packets")]


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


class ReverseLink(Model):
    """The link by which ACKs go back, and on which the data of flows of ``direction: reverse`` go.

    ACKs have their size on a wire: 40 bytes, 4 and 8 for each SACK block, 12 for timestamps.

    Attributes:
        rate_mbps: as of the link.
        trace_path: as of the link.
        trace: as of the link.
        delay_ms: as of the link, a part of every flow's ``rtt_ms``.
        delay_trace: as of the link.
        queue: in front of it.
        loss: behind it.
        changes: of it at given times.
    """

    rate_mbps: Rate | None = None
    trace_path: Annotated[str, Field(min_length=1)] | None = None
    trace: Trace | None = None
    delay_ms: Delay = 1.0
    delay_trace: DelayTrace | None = None
    queue: Queue
    loss: Loss = NoLoss()
    changes: List[Change] = ()

    @model_validator(mode="after")
    def _check(self) -> ReverseLink:
        _check_wire(self)
        return self

    @property
    def mean_rate_mbps(self) -> float:
        """Rate before any change, or a trace's mean rate, in Mbit/s of IP bytes."""
        return _mean_rate_mbps(self)


class Link(Model):
    """The bottleneck.

    Attributes:
        rate_mbps: capacity in Mbit/s of IP bytes; in its place a trace may be given.
        trace_path: file in Mahimahi's format or with a time and a rate in each line (`bbrgym.scenario.traces`), or
            ``bbrgym:NAME`` for a shipped one.
        trace: the trace itself.
        delay_ms: one-way propagation delay of the link, a part of every flow's ``rtt_ms``.
        delay_trace: one-way delay that is added. Default: none.
        reorder: whether packets overtake those sent before the delay fell. Default: they wait.
        policer: in front of the queue. Default: none.
        queue: in front of the link.
        loss: random loss behind the link.
        jitter: late packets behind the link. Default: none.
        acks: when ACKs leave the receivers behind the link.
        changes: of the link at given times.
        last_hop: radio between the link and the receivers, both ways, in the ns-3 world alone. It adds to every RTT,
            has a queue of its own and is not measured: the rows of the link stay the wired link's. Default: none.
        reverse: the link by which ACKs go back, not measured but for the flows whose data it carries. Default: nothing
            queues there, and nothing is lost.
    """

    rate_mbps: Rate | None = None
    trace_path: Annotated[str, Field(min_length=1)] | None = None
    trace: Trace | None = None
    delay_ms: Delay = 1.0
    delay_trace: DelayTrace | None = None
    reorder: bool = False
    policer: Policer | None = None
    queue: Queue
    loss: Loss = NoLoss()
    jitter: Jitter | None = None
    acks: Acks = AcksAtOnce()
    changes: List[Change] = ()
    last_hop: LastHop | None = None
    reverse: ReverseLink | None = None

    @model_validator(mode="after")
    def _check(self) -> Link:
        _check_wire(self)
        if self.reorder and self.delay_trace is None and all(change.delay_ms is None for change in self.changes):
            raise FieldProblem(
                "reorder", "is true, expected a delay_trace or changes of delay_ms, by which delays fall"
            )
        if self.reverse is not None and self.last_hop is not None:
            raise FieldProblem("reverse", "is given, expected none beside last_hop, which has a return path of its own")
        return self

    @property
    def reordering_field(self) -> str:
        """Field by which packets overtake each other; empty: they keep their order."""
        return "reorder" if self.reorder else "jitter.reorder" if self.jitter and self.jitter.reorder else ""

    @property
    def mean_rate_mbps(self) -> float:
        """Rate of a resolved link before any change, or a trace's mean rate, in Mbit/s of IP bytes."""
        return _mean_rate_mbps(self)


def _check_wire(link: Link | ReverseLink) -> None:
    """Check what the links of both directions have."""
    rates = [rate for rate in ("rate_mbps", "trace_path", "trace") if getattr(link, rate) is not None]
    if len(rates) != 1:
        given = " and ".join(rates) or "none"
        raise FieldProblem("", f"has {given}, expected exactly one of rate_mbps, trace_path and trace")
    if len(link.changes) > BOUNDS["changes"].high:
        most = BOUNDS["changes"].high
        raise FieldProblem("changes", f"has {len(link.changes)} entries, expected at most {most:.0f}")
    for index, change in enumerate(link.changes):
        path = f"changes[{index}]"
        if index and change.at_s < link.changes[index - 1].at_s:
            raise FieldProblem(f"{path}.at_s", f"is {change.at_s}, expected times in ascending order")
        if change.rate_mbps is not None and link.rate_mbps is None:
            raise FieldProblem(f"{path}.rate_mbps", f"is {change.rate_mbps}, expected none: the link follows a trace")
        if change.loss_rate is not None and isinstance(link.loss, GilbertElliott):
            raise FieldProblem(
                f"{path}.loss_rate", f"is {change.loss_rate}, expected none: the loss is gilbert_elliott"
            )


def moved_ms(link: Link | ReverseLink, start_s: float, stop_s: float) -> float:
    """Return the mean delay of a resolved link beyond its ``delay_ms`` between two times, in ms."""
    area_ms_s = 0.0
    if link.delay_trace is not None:
        area_ms_s = link.delay_trace.area_ms_s(stop_s) - link.delay_trace.area_ms_s(start_s)
    changes = [change for change in link.changes if change.delay_ms is not None]
    for change, following in zip(changes, [*changes[1:], None], strict=False):
        end_s = stop_s if following is None else min(following.at_s, stop_s)
        area_ms_s += max(end_s - max(change.at_s, start_s), 0.0) * ((change.delay_ms or 0.0) - link.delay_ms)
    return area_ms_s / (stop_s - start_s) if area_ms_s else 0.0


def _mean_rate_mbps(link: Link | ReverseLink) -> float:
    return link.trace.mean_rate_mbps if link.trace is not None else link.rate_mbps or 0.0
