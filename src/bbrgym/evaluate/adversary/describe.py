# SPDX-License-Identifier: GPL-2.0-only
"""Descriptions of networks in sentences."""

from __future__ import annotations

from bbrgym.scenario.model import Scenario


def describe_network(scenario: Scenario) -> str:
    """Return a sentence on a network: its link, its queue, its losses, its changes and its flows."""
    resolved = scenario.resolved()
    link = resolved.link
    rate = link.rate_mbps
    parts = [f"{rate:.3g} Mbit/s" if rate is not None else f"a trace, {link.trace_path}"]
    rtts = sorted(flow.rtt_ms for flow in resolved.flows)
    size = link.queue.size_bytes
    if size is not None and rate is not None:
        deep_ms = size * 8 / (rate * 1e6) * 1000.0
        parts.append(f"a queue of {deep_ms:.3g} ms ({deep_ms / rtts[-1]:.2g} BDP of the longest RTT)")
    elif link.queue.size_packets is not None:
        parts.append(f"a queue of {link.queue.size_packets} packets")
    loss = getattr(link.loss, "rate", None)
    parts.append("no random loss" if loss is None else f"{100 * loss:.2g} % random loss")
    changes = [change for change in link.changes if change.rate_mbps is not None]
    if changes:
        steps = [f"{change.rate_mbps:.3g} at {change.at_s:.3g} s" for change in changes]
        parts.append(f"then Mbit/s {', '.join(steps)}")
    return f"{'; '.join(parts)}. {_flows(scenario)}"


def _flows(scenario: Scenario) -> str:
    flows = scenario.resolved().flows
    groups = []
    for is_tuned, name in ((True, "tuned"), (False, "other")):
        chosen = [flow for flow in flows if (flow.role == "tuned") == is_tuned]
        if not chosen:
            continue
        rtts = ", ".join(f"{flow.rtt_ms:.3g}" for flow in sorted(chosen, key=lambda flow: flow.rtt_ms))
        kinds = "" if is_tuned else f" ({', '.join(sorted({flow.cc for flow in chosen}))})"
        groups.append(f"{len(chosen)} {name} flow{'s' if len(chosen) > 1 else ''}{kinds} with RTT {rtts} ms")
    return f"{'; '.join(groups)}."
