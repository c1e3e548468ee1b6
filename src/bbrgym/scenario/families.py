# SPDX-License-Identifier: GPL-2.0-only
"""Families of scenarios: properties of a drawn scenario by which results are grouped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bbrgym.scenario.link import NoLoss
from bbrgym.scenario.model import HEADER_BYTES, Scenario

SHALLOW_BDP = 1.0
DEEP_BDP = 3.0
UNEVEN_RTTS = 3.0

_BITS_PER_BYTE = 8


@dataclass(frozen=True)
class Family:
    """Scenarios with a common property."""

    meaning: str  # the property in words
    has: Callable[[Scenario], bool]  # return whether a resolved scenario has the property


def families_of(scenario: Scenario) -> list[str]:
    """Return the names of the families of a scenario, any number."""
    resolved = scenario.resolved()
    return [name for name, family in FAMILIES.items() if family.has(resolved)]


def described(scenario: Scenario) -> str:
    """Describe a scenario's flows, link and queue in a line."""
    resolved = scenario.resolved()
    rtts_ms = [flow.rtt_ms for flow in resolved.flows]
    flows = f"{len(rtts_ms)} flows" if len(rtts_ms) > 1 else "1 flow"
    spread = f"{min(rtts_ms):.3g} to {max(rtts_ms):.3g} ms" if len(rtts_ms) > 1 else f"{rtts_ms[0]:.3g} ms"
    return f"{flows}, {resolved.link.mean_rate_mbps:.3g} Mbit/s, {spread}, queue {buffer_bdp(scenario):.2g} BDP"


def buffer_bdp(scenario: Scenario) -> float:
    """Return the size of the queue in bandwidth-delay products of the link's mean rate and the longest RTT."""
    resolved = scenario.resolved()
    longest_s = max(flow.rtt_ms for flow in resolved.flows) / 1e3
    return queue_bytes(resolved) * _BITS_PER_BYTE / (resolved.link.mean_rate_mbps * 1e6 * longest_s)


def queue_bytes(scenario: Scenario) -> float:
    """Return the size of the queue in bytes."""
    resolved = scenario.resolved()
    queue = resolved.link.queue
    if queue.size_bytes is not None:
        return queue.size_bytes
    return (queue.size_packets or 0) * (resolved.mss_bytes + HEADER_BYTES)


def _has_uneven_rtts(resolved: Scenario) -> bool:
    rtts_ms = [flow.rtt_ms for flow in resolved.flows]
    return max(rtts_ms) > UNEVEN_RTTS * min(rtts_ms)


def _has_other(resolved: Scenario, cc: str) -> bool:
    return any(flow.role != "tuned" and flow.cc.startswith(cc) for flow in resolved.flows)


#: Families in the order of tables.
FAMILIES: Mapping[str, Family] = {
    "alone": Family("one flow", lambda scenario: len(scenario.flows) == 1),
    "several": Family(
        "more than one tuned flow", lambda scenario: sum(flow.role == "tuned" for flow in scenario.flows) > 1
    ),
    "with CUBIC": Family("a flow of CUBIC beside the tuned flows", lambda scenario: _has_other(scenario, "cubic")),
    "with Reno": Family("a flow of Reno beside the tuned flows", lambda scenario: _has_other(scenario, "reno")),
    "with BBR": Family("a flow of BBR beside the tuned flows", lambda scenario: _has_other(scenario, "bbr")),
    "lossy": Family(
        "random loss",
        lambda scenario: (
            not isinstance(scenario.link.loss, NoLoss) or any(change.loss_rate for change in scenario.link.changes)
        ),
    ),
    "capacity steps": Family(
        "the link's rate changes",
        lambda scenario: (
            scenario.link.trace is not None or any(change.rate_mbps is not None for change in scenario.link.changes)
        ),
    ),
    "shallow": Family("a queue below 1 BDP of the longest RTT", lambda scenario: buffer_bdp(scenario) < SHALLOW_BDP),
    "deep": Family("a queue above 3 BDP of the longest RTT", lambda scenario: buffer_bdp(scenario) > DEEP_BDP),
    "parking lot": Family(
        "a flow crosses several links", lambda scenario: any(len(flow.path) > 1 for flow in scenario.flows)
    ),
    "leo": Family(
        "a link's delay changes",
        lambda scenario: any(
            link.delay_trace is not None or any(change.delay_ms is not None for change in link.changes)
            for link in scenario.all_links().values()
        ),
    ),
    "uneven RTTs": Family("the longest RTT more than 3 times the shortest", _has_uneven_rtts),
}
