# SPDX-License-Identifier: GPL-2.0-only
"""The sender under test, the condition that it is tested in, and the scenario of both.

A case of the draft changes the path or the application when the sender enters a state. A scenario's changes have times,
and a run repeats to the byte, so a case runs until the state is entered, sets its change to that moment and runs again:
see `Stage`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bbrgym.conformance.ack_history import AckHistory
from bbrgym.tunables import VARIANTS

MSS_BYTES = 1448
HEADER_BYTES = 40

FLOW = "sender"

#: What the draft says where google/bbr's code differs: facts of the stack, and constants.
DRAFT_FACTS: Mapping[str, Any] = {
    "bbr3_drain_rounds": True,
    "bbr3_plateau": "round_start",
    "bbr3_in_flight": "now",
    "bbr3_excess": "loss",
    "bbr3_undo": "state",
    "bbr3_restore": "after_recovery",
    "bbr3_burst": "rate",
    "bbr3_first_growth": "delivered",
}
DRAFT_CONSTANTS: Mapping[str, float] = {
    "bbr3_drain_gain": 0.5,
    "bbr3_down_gain": 0.9,
    "bbr3_loss_thresh": 0.02,
    "bbr3_beta": 0.3,
    "bbr3_headroom": 0.15,
}

_V1_DRAIN_GAIN = 88 / 256
_V1_PROBE_RTT_INTERVAL_S = 10.0


@dataclass(frozen=True)
class Sender:
    """A congestion control under test."""

    cc: str  # name of the variant
    reading: str = "code"  # ``code``, as google/bbr; ``draft``, as the draft where the two differ
    runs: str = ""  # name of the variant that runs in place of ``cc``, and is held to what holds for that one

    @property
    def name(self) -> str:
        """Name by which it is selected."""
        return f"{self.cc}-draft" if self.is_draft else self.cc

    @property
    def is_draft(self) -> bool:
        """True for the draft as written, false for google/bbr's code."""
        return self.reading == "draft"

    @property
    def tunables(self) -> Mapping[str, float]:
        """Tunables that differ from the preset."""
        return DRAFT_CONSTANTS if self.is_draft else {}

    def constant(self, name: str) -> float:
        """Return the value of a tunable of BBRv3's, without its prefix."""
        full = f"bbr3_{name}"
        return self.tunables.get(full, VARIANTS[self.cc].preset[full])

    @property
    def drain_gain(self) -> float:
        """Pacing gain of DRAIN."""
        return _V1_DRAIN_GAIN if self.cc == "bbr" else self.constant("drain_gain")

    @property
    def probe_rtt_interval_s(self) -> float:
        """Time without a smaller RTT after which PROBE_RTT is due."""
        return _V1_PROBE_RTT_INTERVAL_S if self.cc == "bbr" else self.constant("probe_rtt_interval_us") / 1e6


@dataclass(frozen=True)
class Condition:
    """A path."""

    rtt_ms: float  # its round trip without a queue
    rate_mbps: float  # of the bottleneck, in IP bytes
    variation: str = ""  # what the case does differently here, in words. Default: nothing
    amount: float = 0.0  # of that variation. Default: none

    @property
    def payload_mbps(self) -> float:
        """Most payload that the bottleneck carries."""
        return self.rate_mbps * MSS_BYTES / (MSS_BYTES + HEADER_BYTES)

    @property
    def varied_rate_mbps(self) -> float:
        """Rate of the bottleneck after a variation by ``amount`` percent."""
        return (1 + self.amount / 100) * self.rate_mbps

    @property
    def packet_s(self) -> float:
        """Time that the bottleneck takes for a packet."""
        return (MSS_BYTES + HEADER_BYTES) * 8e-6 / self.rate_mbps

    @property
    def bdp_pkts(self) -> float:
        """Packets that fill the path."""
        return self.rtt_ms * 1e-3 / self.packet_s

    @property
    def turn_s(self) -> float:
        """Least time of a round: of the path, or of the four packets that a window has at least."""
        return max(self.rtt_ms * 1e-3, 4 * self.packet_s)


def conditions(*paths: tuple[float, float]) -> tuple[Condition, ...]:
    """Return paths given by their RTT in ms and their rate in Mbit/s."""
    return tuple(Condition(*path) for path in paths)


#: The paths that most cases are tried on: from 1 ms to 1 s and from 64 kbit/s to 10 Gbit/s.
PATHS = conditions(
    *((1.0, 10_000.0), (1.0, 100.0), (10.0, 1000.0), (40.0, 10.0)),
    *((100.0, 100.0), (200.0, 1.0), (1000.0, 10.0), (1000.0, 0.064)),
)


def paths(*, least_pkts: float = 0.0, most_mbps: float = math.inf) -> tuple[Condition, ...]:
    """Return those of `PATHS` that hold some packets at least, up to a rate."""
    return tuple(one for one in PATHS if one.bdp_pkts >= least_pkts and one.rate_mbps <= most_mbps)


def varied(*variations: tuple[str, float]) -> tuple[Condition, ...]:
    """Return `PATHS` with each variation."""
    return tuple(Condition(one.rtt_ms, one.rate_mbps, text, amount) for text, amount in variations for one in PATHS)


def is_long(condition: Condition) -> bool:
    """Return whether PROBE_RTT comes between on such a path."""
    return condition.turn_s >= 0.2


@dataclass
class CaseSetup:
    """A scenario of one flow that stages add to."""

    sender: Sender
    condition: Condition
    queue_pkts: int  # capacity of the queue
    link: dict[str, Any] = field(default_factory=dict)  # other fields of the link
    changes: list[dict[str, Any]] = field(default_factory=list)  # of the link, by their time
    app: dict[str, Any] | None = None  # of the flow. Default: bulk
    moments_s: list[float] = field(default_factory=list)  # of the stages so far
    resumed_s: float | None = None  # time at which an application that has stopped goes on. Default: none has

    def copy(self) -> CaseSetup:
        """Return one to add to."""
        return copy.deepcopy(self)

    def change(self, at_s: float, **values: float) -> None:
        """Add a change of the link."""
        self.changes.append({"at_s": at_s, **values})

    def scenario(self, name: str, duration_s: float) -> dict[str, Any]:
        """Return the fields of the scenario."""
        flow: dict[str, Any] = {"name": FLOW, "cc": self.sender.runs or self.sender.cc, "rtt_ms": self.condition.rtt_ms}
        flow |= {"stack": dict(DRAFT_FACTS) if self.sender.is_draft else {}, "tunables": dict(self.sender.tunables)}
        if self.app is not None:
            flow["app"] = self.app
        link: dict[str, Any] = {
            "rate_mbps": self.condition.rate_mbps,
            "delay_ms": self.condition.rtt_ms / 4,
            **self.link,
        }
        link["queue"] = {"kind": "droptail", "size_packets": self.queue_pkts}
        link["changes"] = sorted(self.changes, key=lambda one: float(one["at_s"]))
        times = {"duration_s": duration_s, "warmup_s": 0.0}
        return {"name": name, **times, "mss_bytes": MSS_BYTES, "link": link, "flows": [flow]}


Find = Callable[[AckHistory, CaseSetup], int | None]
"""Returns the row of a moment, None while it has not come."""

Apply = Callable[[CaseSetup, AckHistory, int], None]
"""Changes the scenario, given the history before and the row of the moment."""


@dataclass(frozen=True)
class Stage:
    """A change of the scenario at a moment that the run before it tells."""

    name: str  # of the moment, as in "UP begins"
    find: Find
    apply: Apply  # changes the scenario


def rate_becomes(rate_mbps: Callable[[Condition], float]) -> Apply:
    """Return the change of the bottleneck's rate to another one."""
    return lambda setup, history, row: setup.change(history.time_s(row), rate_mbps=rate_mbps(setup.condition))


def loses(rate: Callable[[Condition], float]) -> Apply:
    """Return the change of the random loss to another rate."""
    return lambda setup, history, row: setup.change(history.time_s(row), loss_rate=rate(setup.condition))


def loss_for_gaps(pkts: float) -> float:
    """Return the rate of loss that leaves twelve gaps in so many packets, a tenth at least."""
    return min(0.3, max(0.1, 12 / pkts))


# ---- applications -------------------------------------------------------------------------------------

_AHEAD = 1.05  # rate of a writer that is ahead of the bottleneck, so that it does not limit the sender
_LIMITED_PART = 0.3


def ahead(setup: CaseSetup) -> None:
    """Give the flow an application that writes a little faster than the bottleneck sends."""
    setup.app = {"kind": "cbr", "rate_mbps": _AHEAD * setup.condition.payload_mbps}


def silent_from(setup: CaseSetup, history: AckHistory, row: int, until_s: float) -> None:
    """Let the application stop when it has written what was sent by a row, and go on later."""
    sent_pkts = int(history["delivered_pkts"][row] + history["in_flight_pkts"][row])
    rate_mbps = _AHEAD * setup.condition.payload_mbps
    stop_s = sent_pkts * MSS_BYTES * 8e-6 / rate_mbps
    setup.app = {"kind": "onoff", "rate_mbps": rate_mbps, "on_s": stop_s, "off_s": until_s - stop_s}
    setup.resumed_s = until_s


#: Doubles the bottleneck's rate, so that an application which is `ahead` writes half of what it carries.
outgrown = rate_becomes(lambda condition: 2 * condition.rate_mbps)


def limited(setup: CaseSetup) -> None:
    """Give the flow an application that writes less than a third of what the bottleneck carries."""
    setup.app = {"kind": "cbr", "rate_mbps": _LIMITED_PART * setup.condition.payload_mbps}
