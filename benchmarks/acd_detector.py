# SPDX-License-Identifier: GPL-2.0-only
"""Decisions of BBR-ACD's detector on the paper's congested link, and the losses that acting on them saves.

usage: python benchmarks/acd_detector.py [--seed 1]

Prints two tables for the `congested` scenario (15 kB queue), for the published setting and for settings that call more
and more congestive: the recoveries entered, those judged congestive (three RTTs within alpha, or an RTT above the
ratio) and the packets dropped; then when the sender declared packets lost. The cut of the window holds for the round
that begins with a recovery's first ACK. A packet is declared lost when a later one has arrived, so those of that round
left before the cut. Takes five seconds.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import bbrgym
from bbrgym import _cc
from bbrgym.scenario.files import with_variant

SETTINGS: dict[str, dict[str, float]] = {
    "as published (alpha 1 ms, ratio 2)": {},
    "alpha 5 ms, a packet's time": {"acd_alpha_us": 5000.0},
    "RTT ratio 1.5": {"acd_rtt_ratio": 1.5},
    "RTT ratio 1.1": {"acd_rtt_ratio": 1.1},
}
RECOVERY = 3
GLOBAL = (
    "at a recovery's first ACK",
    "in the round after it",
    "later in the recovery",
    "after a timeout",
    "by a timer",
)


@dataclass
class Outcome:
    """Totals of the flows of a run."""

    recoveries: int = 0
    congestive: int = 0
    dropped_pkts: int = 0
    declared_lost_pkts: Counter[str] = field(default_factory=Counter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    outcomes = {name: run(tunables, seed) for name, tunables in SETTINGS.items()}
    print_row("setting", "recoveries", "judged congestive", "lost packets")
    print("|" + "---|" * 4)
    for name, o in outcomes.items():
        print_row(name, o.recoveries, f"{o.congestive} ({o.congestive / o.recoveries:.1%})", o.dropped_pkts)
    print()
    print_row("declared lost", *GLOBAL)
    print("|" + "---|" * (1 + len(GLOBAL)))
    for name, o in outcomes.items():
        total = o.declared_lost_pkts.total()
        shares = [f"{o.declared_lost_pkts[moment] / total:.1%}" for moment in GLOBAL]
        print_row(f"{name}: {total}", *shares)


def print_row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |")


def run(tunables: dict[str, float], seed: int) -> Outcome:
    scenario = with_variant(bbrgym.load_scenario("congested"), "bbr-acd", tunables)
    flows = len(scenario.resolved().flows)
    with bbrgym.make_world("ns3", scenario, seed, isolation="none", timeout_s=3600.0) as world:
        for index in range(flows):
            world.trace_acks(index, 1_000_000)
        world.advance(scenario.duration_s)
        total_pkts = dict(zip(world.flow_summary_fields, world.summary()[0].sum(axis=0).tolist(), strict=True))
        traces = [world.ack_trace(index) for index in range(flows)]

    settings = {row["name"]: row["default"] for row in _cc.tunables()} | tunables
    outcome = Outcome(dropped_pkts=int(total_pkts["dropped_pkts"]))
    for trace in traces:
        verdicts = verdicts_at_entry(trace, settings)
        outcome.recoveries += len(verdicts)
        outcome.congestive += sum(verdicts)
        outcome.declared_lost_pkts += declared_lost_pkts(trace)
    # RACK's timer and the retransmission timer act between ACKs.
    outcome.declared_lost_pkts["by a timer"] = int(total_pkts["lost_pkts"]) - outcome.declared_lost_pkts.total()
    return outcome


def verdicts_at_entry(trace: np.ndarray, settings: dict[str, float]) -> list[bool]:
    """Re-run the detector of BBR-ACD's figure 6 over a trace, with the smallest RTT so far as the minimum."""
    verdicts = []
    min_rtt = last = float("inf")
    same = 0
    congested = False
    before = 0
    for rtt, ca_state in zip(trace["rtt_us"].tolist(), trace["ca_state"].tolist(), strict=True):
        if rtt >= 0:
            min_rtt = min(min_rtt, rtt)
            near = rtt > min_rtt and abs(rtt - last) <= settings["acd_alpha_us"]
            same = same + 1 if near else 0
            last = rtt
            congested = same >= settings["acd_identical_count"] or rtt > settings["acd_rtt_ratio"] * min_rtt
        if ca_state == RECOVERY and before != RECOVERY:
            verdicts.append(congested)
        before = ca_state
    return verdicts


def declared_lost_pkts(trace: np.ndarray) -> Counter[str]:
    """Return the times of the ACKs that declared packets lost."""
    found: Counter[str] = Counter()
    before = 0
    round_end_pkts = 0  # the round is over when a packet is acknowledged that left after so many were delivered
    is_first_round = False
    columns = ("ca_state", "lost_pkts", "delivered_pkts", "sample_pkts", "interval_us")
    for ca_state, lost, delivered, sample, interval_us in zip(*(trace[c].tolist() for c in columns), strict=True):
        entered = ca_state == RECOVERY and before != RECOVERY
        if entered:
            round_end_pkts, is_first_round = delivered, True
        elif interval_us > 0 and delivered - sample >= round_end_pkts:
            is_first_round = False
        if ca_state != RECOVERY:
            moment = "after a timeout"
        elif entered:
            moment = "at a recovery's first ACK"
        else:
            moment = "in the round after it" if is_first_round else "later in the recovery"
        found[moment] += lost
        before = ca_state
    return found


if __name__ == "__main__":
    main()
