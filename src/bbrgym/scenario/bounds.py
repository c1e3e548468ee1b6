# SPDX-License-Identifier: GPL-2.0-only
"""Bounds of the values of a scenario, and the bounded types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

import bbrgym._cc as _cc
from bbrgym.schema import FieldProblem, Float, Whole


class Bound(NamedTuple):
    """Bounds of a scenario's value, both allowed (world/bounds.def)."""

    low: float
    high: float
    unit: str


#: The bounds of a scenario by name, the same in every world.
BOUNDS: Mapping[str, Bound] = MappingProxyType({name: Bound(*row) for name, row in _cc.scenario_bounds().items()})


def within(name: str) -> Any:
    """Return the field constraint of one row of :data:`BOUNDS`."""
    low, high = (int(end) if end.is_integer() else end for end in BOUNDS[name][:2])
    return Field(ge=low, le=high)


def _rate_or_outage(rate_mbps: float) -> float:
    low = BOUNDS["rate_mbps"].low
    if rate_mbps != 0 and rate_mbps < low:
        raise FieldProblem("", f"is {rate_mbps}, expected a number >= {low:g}, or 0 for an outage")
    return rate_mbps


Rate = Annotated[Float, within("rate_mbps")]
RateOrOutage = Annotated[Float, Field(ge=0, le=BOUNDS["rate_mbps"].high), AfterValidator(_rate_or_outage)]
Probability = Annotated[Float, within("probability")]
Seconds = Annotated[Float, within("time_s")]
BurstSeconds = Annotated[Float, within("burst_s")]
Delay = Annotated[Float, within("delay_ms")]
RoundTrip = Annotated[Float, within("rtt_ms")]
Bytes = Annotated[Whole, within("bytes")]
QueuePackets = Annotated[Whole, within("queue_packets")]
AckHold = Annotated[Float, within("ack_hold_ms")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]


def is_before(earlier_s: float, later_s: float) -> bool:
    """Return whether a time is before another to the nanosecond, which is what worlds count."""
    return _cc.nanoseconds(earlier_s) < _cc.nanoseconds(later_s)
