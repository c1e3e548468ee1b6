# SPDX-License-Identifier: GPL-2.0-only
"""The flows of a scenario, and the applications that write data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from bbrgym.errors import nearest
from bbrgym.quic import STACKS
from bbrgym.scenario.bounds import BurstSeconds, Bytes, Name, Probability, Rate, RoundTrip, Seconds, is_before, within
from bbrgym.scenario.shipped import role_of
from bbrgym.scenario.stack import SenderStack
from bbrgym.schema import FieldProblem, Float, List, Model, Whole, fits_float, is_number, shown
from bbrgym.tunables import TUNABLES, VARIANTS, nearest_variant


class Bulk(Model):
    """Always has data to send, or until a transfer is complete.

    Attributes:
        size_bytes: payload of the transfer, sent in full packets. Default: without an end.
        read_mbps: payload that its receiver reads, from a buffer that is not ample; no ACK may be lost then. Default:
            it reads at once.
    """

    kind: Literal["bulk"] = "bulk"
    size_bytes: Bytes | None = None
    read_mbps: Rate | None = None

    def demand_mbps(self, runs_s: float) -> float:
        """Return the mean rate that it asks for in a flow that runs so long; infinite without an end."""
        return math.inf if self.size_bytes is None else self.size_bytes * 8e-6 / runs_s


class Cbr(Model):
    """Writes at a constant rate.

    Attributes:
        rate_mbps: payload.
    """

    kind: Literal["cbr"]
    rate_mbps: Rate

    def demand_mbps(self, runs_s: float) -> float:  # noqa: ARG002 - the same at any time
        """Return the mean rate that it asks for."""
        return self.rate_mbps


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

    def demand_mbps(self, runs_s: float) -> float:  # noqa: ARG002 - the same at any time
        """Return the mean rate that it asks for."""
        return self.rate_mbps * self.on_s / (self.on_s + self.off_s)


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
    weights: List[Annotated[Float, within("weight")]] = ()
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

    def demand_mbps(self, runs_s: float) -> float:
        """Return the mean rate that it asks for in a flow that runs so long, its size at the mean."""
        weights = self.weights or (1.0,) * len(self.size_bytes)
        total = sum(size * weight for size, weight in zip(self.size_bytes, weights, strict=True))
        return total / sum(weights) * 8e-6 / runs_s


class Frames(Model):
    """A media source: writes frames in full packets; what is left of one goes with the next.

    Attributes:
        fps: frames in a second.
        rate_mbps: mean payload.
        key_every: frames from one key frame to the next.
        key_ratio: size of a key frame over another's.
        spread: sizes are uniform within this part of their mean.
        late_after_ms: delay above which a frame is late, as ITU-T G.114 has it for conversation.
    """

    kind: Literal["frames"]
    fps: Annotated[Float, within("fps")] = 30.0
    rate_mbps: Rate
    key_every: Annotated[Whole, within("key_every")] = 60
    key_ratio: Annotated[Float, within("key_ratio")] = 5.0
    spread: Probability = 0.2
    late_after_ms: RoundTrip = 150.0

    def demand_mbps(self, runs_s: float) -> float:  # noqa: ARG002 - the same at any time
        """Return the mean rate that it asks for."""
        return self.rate_mbps


def _with_kind(app: Any) -> Any:
    """Return an application with its kind, which one of Bulk's fields alone need not name."""
    is_bulk = isinstance(app, Mapping) and app.keys() <= Bulk.model_fields.keys()
    return {"kind": "bulk", **app} if is_bulk else app


App = Annotated[Bulk | Cbr | OnOff | ShortFlow | Frames, Field(discriminator="kind"), BeforeValidator(_with_kind)]


Role: TypeAlias = Literal["tuned", "fixed", "background"]


class Flow(Model):
    """One TCP connection, or ``count`` equal ones, named ``name-0``, ``name-1``, ...

    Attributes:
        name: unique in the scenario.
        count: number of connections.
        cc: congestion control; the evaluated variant replaces that of a tuned flow.
        role: ``tuned``: under test; ``fixed``: keeps its ``cc``; ``background``: the same, and never scored. Default:
            ``fixed`` for a flow that names its ``cc``, ``tuned`` for another.
        rtt_ms: round-trip propagation delay, the link's included.
        start_s: time of its start.
        stop_s: time of its end. Default: the end of the scenario.
        app: application that writes the data; help(bbrgym.scenario.flow.Frames) has the fields of frames.
        stack: of its sender: a preset's name, or a mapping of facts that differ from the scenario's stack or, if it
            names a ``preset``, from that. Default: the scenario's.
        tunables: values in natural units. Default: the variant's preset.
        direction: of its data: ``forward`` over the link, or ``reverse`` over ``link.reverse``, with its ACKs on the
            link.
        path: names of the scenario's ``links`` that its data cross, in order.
        ack_path: of those that its ACKs cross. Default: none, so that nothing queues there, and nothing is lost.
        quic: stack that runs the flow as QUIC, ``aioquic`` or ``ngtcp2``. Default: our TCP.
    """

    name: Name
    count: Annotated[Whole, within("flows")] = 1
    cc: str = "bbr"
    role: Role = "tuned"
    rtt_ms: RoundTrip
    start_s: Seconds = 0.0
    stop_s: Seconds | None = None
    app: App = Bulk()
    stack: SenderStack = SenderStack()
    tunables: dict[str, Float] = Field(default_factory=dict)
    direction: Literal["forward", "reverse"] = "forward"
    path: List[Name] = ()
    ack_path: List[Name] = ()
    quic: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_role(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and "role" not in fields:
            return {**fields, "role": role_of(fields)}
        return fields

    @model_validator(mode="after")
    def _check(self) -> Flow:
        if self.cc not in VARIANTS:
            raise FieldProblem("cc", f"is {shown(self.cc)}; {nearest_variant(self.cc)}")
        if self.stop_s is not None and not is_before(self.start_s, self.stop_s):
            raise FieldProblem("stop_s", f"is {self.stop_s}, expected more than start_s = {self.start_s}")
        check_tunables(self.cc, self.tunables)
        if self.quic is not None:
            self._check_quic(self.quic)
        return self

    def _check_quic(self, stack: str) -> None:
        if stack not in STACKS:
            raise FieldProblem("quic", f"is {shown(stack)}; {nearest(stack, STACKS)}")
        if self.cc not in STACKS[stack].controls:
            raise FieldProblem("cc", f"is {self.cc!r}, expected one of {stack}: {', '.join(STACKS[stack].controls)}")
        if self.role == "tuned" or self.tunables:
            what = "tunables are given" if self.tunables else "role is 'tuned'"
            raise FieldProblem("quic", f"is {stack!r} where {what}, expected role fixed or background without tunables")
        if self.app.kind == "frames" or getattr(self.app, "read_mbps", None) is not None:
            raise FieldProblem("app", "has frames or read_mbps, expected neither with quic")
        if self.stack != SenderStack():
            raise FieldProblem("stack", f"is given, expected none: {stack} has its own")

    @property
    def control(self) -> str:
        """The congestion control as tables name it: behind the stack of another project, its name."""
        return self.cc if self.quic is None else f"{self.quic}-{self.cc}"

    def demand_mbps(self, end_s: float) -> float:
        """Return the mean payload that its application asks for until it stops, ``end_s`` at the latest, in Mbit/s.

        A transfer asks for the rate at which it would just end in time; infinite for data without an end.
        """
        return self.app.demand_mbps((end_s if self.stop_s is None else min(self.stop_s, end_s)) - self.start_s)


def check_tunables(cc: str, tunables: Mapping[str, float]) -> None:
    """Check that ``cc`` has these tunables and that the values are in range.

    Raises:
        FieldProblem: for the first tunable that is wrong.
    """
    for name, value in tunables.items():
        named = name if isinstance(name, str) else shown(name)
        path = f"tunables.{named}"
        if name not in VARIANTS[cc].preset:
            has = nearest(named, VARIANTS[cc].preset) if VARIANTS[cc].preset else "it has none"
            raise FieldProblem(path, f"is not a tunable of {cc}; {has}")
        tunable = TUNABLES[name]
        if not is_number(value) or not fits_float(value):
            raise FieldProblem(path, f"is {shown(value)}, expected a number")
        if not tunable.low <= value <= tunable.high:
            raise FieldProblem(path, f"is {value:g}, expected {tunable.low:g} to {tunable.high:g} ({tunable.unit})")
        if tunable.unit in ("count", "mode", "switch") and not float(value).is_integer():
            raise FieldProblem(path, f"is {value:g}, expected a whole number ({tunable.unit})")
