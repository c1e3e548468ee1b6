# SPDX-License-Identifier: GPL-2.0-only
"""How often BBR-ACD's detector says "congested" on the paper's own congested link, and what acting on it saves.

usage: python benchmarks/acd_detector.py [--seed 1]

Prints, for the `congested` scenario (15 kB queue), the recoveries entered, those judged congestive (three RTTs
within alpha, or an RTT above the ratio) and the packets lost, for the published setting and for settings that
call more and more congestive. Takes half a minute.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from rich.console import Console
from rich.table import Table

import bbrgym
from bbrgym import _cc, _ns3

SETTINGS: dict[str, dict[str, float]] = {
    "as published": {},
    "alpha = 5 ms, a packet's time": {"acd_alpha_us": 5000.0},
    "RTT ratio 1.5": {"acd_rtt_ratio": 1.5},
    "RTT ratio 1.1: nearly every loss": {"acd_rtt_ratio": 1.1},
}
RECOVERY = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    seed = parser.parse_args().seed
    table = Table(title="BBR-ACD on `congested`, 15 kB queue")
    for column in ("setting", "recoveries", "judged congestive", "share", "lost packets"):
        table.add_column(column)
    for name, tunables in SETTINGS.items():
        entered, congestive, lost = run(tunables, seed)
        share = f"{congestive / entered:.1%}"
        table.add_row(name, str(entered), str(congestive), share, str(lost))
    Console().print(table)


def run(tunables: dict[str, float], seed: int) -> tuple[int, int, int]:
    """Recoveries entered, those whose last verdict was "congested", and packets dropped, all flows together."""
    mapping = json.loads(bbrgym.load_scenario("congested").resolved_json())
    for flow in mapping["flows"]:
        flow.update(cc="bbr-acd", tunables=tunables)
    flows = len(mapping["flows"])
    tables = [np.zeros((flows, len(_cc.tunables()))), np.zeros((flows, len(_ns3.flow_fields())))]
    simulation = _ns3.Simulation(json.dumps(mapping), seed, *tables, np.zeros(len(_ns3.link_fields())))
    for index in range(flows):
        simulation.trace_acks(index, 1_000_000)
    simulation.advance(mapping["duration_s"])
    settings = {row["name"]: row["default"] for row in _cc.tunables()} | tunables
    verdicts = [verdicts_at_entry(simulation.ack_trace(index), settings) for index in range(flows)]
    summary = np.zeros((flows, len(_ns3.flow_summary_fields())))
    simulation.summary(summary, np.zeros(len(_ns3.link_summary_fields())))
    lost = summary[:, [field[0] for field in _ns3.flow_summary_fields()].index("lost_pkts")].sum()
    simulation.close()
    return sum(map(len, verdicts)), sum(map(sum, verdicts)), int(lost)


def verdicts_at_entry(trace: np.ndarray, settings: dict[str, float]) -> list[bool]:
    """The detector of algorithms' figure 6 re-run over a trace; its verdict at each recovery's first ACK."""
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


if __name__ == "__main__":
    main()
