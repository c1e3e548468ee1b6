# SPDX-License-Identifier: GPL-2.0-only
"""Speed of the twin: cost of a delivered packet, ratio to ns-3, memory of a world.

usage: python benchmarks/twin_speed.py [SECTION ...] [--runs 5] [--write docs/fidelity-and-speed.md]

Sections: packets, ns3, memory. Default: all. A delivered packet is a full one of payload that the receiver got
in order: goodput / mss. Each figure is the median of the runs, each run a fresh world with another seed in a process of
its own, and the CPU time within advance().
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from report import Bystanders, measured_on, ns3_version, publish

import bbrgym
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import World, make_world

RTTS_MS = (10.0, 50.0)
MEMORY_WORLDS = 32
MEMORY_RUN_S = 2.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=int, default=5, help="runs of each figure (default: 5)")
    parser.add_argument("--write", type=Path, help="Markdown file whose sections are replaced")
    options = parser.parse_args(arguments)
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"no section is named {name!r}, expected some of {', '.join(SECTIONS)}")
    for name in options.sections or SECTIONS:
        title, measure = SECTIONS[name]
        command = f"python benchmarks/twin_speed.py {name} --runs {options.runs}"
        bystanders = Bystanders()
        body = measure(options.runs)
        section = f"### {title}\n\n`{command}`, {measured_on()}; {bystanders.phrase()}.\n\n{body}"
        publish(options.write, f"twin-speed {name}", section, "steady rtt_fairness / bbr")
    return 0


# ---- scenarios and clocks -----------------------------------------------------------------------------


def dumbbell(
    rate_mbps: float, flows: int, duration_s: float, rtts_ms: Sequence[float] = RTTS_MS, cc: str = "bbr"
) -> Scenario:
    """Return a scenario of flows with alternating RTTs at a drop-tail queue of one bandwidth-delay product."""
    counts = [flows // len(rtts_ms) + (index < flows % len(rtts_ms)) for index in range(len(rtts_ms))]
    fields = {"name": f"{rate_mbps:g}-mbps-{flows}-flows", "duration_s": duration_s, "warmup_s": 0.0}
    fields["link"] = {"rate_mbps": rate_mbps, "queue": {"size_bdp": 1.0, "bdp_rtt_ms": max(rtts_ms)}}
    fields["flows"] = [
        {"name": f"rtt{rtt_ms:g}", "count": count, "cc": cc, "role": "fixed", "rtt_ms": rtt_ms}
        for rtt_ms, count in zip(rtts_ms, counts, strict=True)
        if count
    ]
    return bbrgym.load_scenario(fields)


@dataclass(frozen=True)
class RunCost:
    """Cost of a run."""

    cpu_s: float  # CPU time within advance()
    simulated_s: float  # how much it simulated
    delivered_pkts: float  # full packets of payload that receivers got in order
    sent_pkts: float  # packets sent, retransmissions included

    @property
    def ns_per_packet(self) -> float:
        return self.cpu_s / self.delivered_pkts * 1e9


def time_run(world_name: str, scenario: Scenario, seed: int) -> RunCost:
    """Run a scenario in a process of its own, whose CPU time other work of the machine prolongs little."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(time_run_here, world_name, scenario, seed).result()


def time_run_here(world_name: str, scenario: Scenario, seed: int) -> RunCost:
    with make_world(world_name, scenario, seed=seed, isolation="none") as world:
        begin_s = time.process_time()
        world.advance(scenario.duration_s)
        cpu_s = time.process_time() - begin_s
        flows, _ = world.summary()
        column = dict(zip(world.flow_summary_fields, flows.T, strict=True))
        payload_bytes = column["goodput_mbps"] * 125e3 * (column["stop_s"] - column["start_s"])
        delivered_pkts = float(np.nansum(payload_bytes)) / scenario.mss_bytes
        return RunCost(cpu_s, world.now_s, delivered_pkts, float(np.nansum(column["sent_pkts"])))


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Return the median, with the smallest and largest in brackets."""
    known = sorted(values)
    middle, low, high = (f"{value:,.{digits}f}" for value in (statistics.median(known), known[0], known[-1]))
    return middle if len(known) == 1 else f"{middle} ({low} to {high})"


# ---- a delivered packet -------------------------------------------------------------------------------


def packets(runs: int) -> str:
    scenarios = {
        "100 Mbit/s, 2 flows": dumbbell(100.0, 2, 120.0),
        "1 Gbit/s, 2 flows": dumbbell(1_000.0, 2, 20.0),
        "10 Gbit/s, 2 flows": dumbbell(10_000.0, 2, 5.0),
        "100 Mbit/s, 10 flows": dumbbell(100.0, 10, 120.0),
        "100 Mbit/s, 100 flows": dumbbell(100.0, 100, 60.0),
        "100 Mbit/s, 1,000 flows": dumbbell(100.0, 1_000, 60.0),
    }
    costs: dict[str, list[RunCost]] = {label: [] for label in scenarios}
    for seed in range(1, runs + 1):  # round by round: each sees the same weather
        for label, scenario in scenarios.items():
            costs[label].append(time_run("twin", scenario, seed))
    rows = []
    for label, of_case in costs.items():
        sent = statistics.median(run.sent_pkts / run.delivered_pkts for run in of_case)
        rows.append([label, f"{sent:.3f}", spread(run.ns_per_packet for run in of_case)])
    return (
        "BBR flows, half with an RTT of 10 ms and half of 50 ms, drop-tail, one bandwidth-delay product. Median of "
        f"{runs} runs, in brackets the fastest and the slowest.\n\n"
    ) + markdown_table(["link", "sent / delivered", "ns per delivered packet"], rows)


# ---- against ns-3 -------------------------------------------------------------------------------------


def against_ns3(runs: int) -> str:
    cases: dict[str, tuple[float, int, float, tuple[float, ...]]] = {
        "10 Mbit/s, 1 flow": (10.0, 1, 60.0, (40.0,)),
        "100 Mbit/s, 2 flows": (100.0, 2, 10.0, RTTS_MS),
        "100 Mbit/s, 10 flows": (100.0, 10, 10.0, RTTS_MS),
    }  # TcpBbr takes minutes for a second at 1 Gbit/s: its socket walks the list of what is out
    rows = []
    for label, case in cases.items():
        scenario, of_ns3 = dumbbell(*case), dumbbell(*case, cc="ns3-bbr")
        own, ns3, fast = [], [], []
        for seed in range(1, runs + 1):  # in turns
            own.append(time_run("ns3", of_ns3, seed))
            ns3.append(time_run("ns3", scenario, seed))
            fast.append(time_run("twin", scenario, seed))
        ratios, own_ratios = (
            [slow.ns_per_packet / run.ns_per_packet for slow, run in zip(slower, fast, strict=True)]
            for slower in (ns3, own)
        )
        speeds = [spread((run.simulated_s / run.cpu_s for run in of), digits=1) for of in (ns3, fast)]
        rows.append([label, *speeds, spread(ratios), spread(own_ratios)])
    return (
        "The same scenario in both worlds, in turns, and with ns-3's own TcpBbr and sockets on the ns-3 world's links; "
        f"ns-3 {ns3_version()}. Median of {runs} runs; a ratio is that of a delivered packet's cost in the same "
        "round.\n\n"
    ) + markdown_table(
        ["link", "ns3, simulated s per CPU s", "twin", "twin as fast as ns3, times", "as ns-3's TcpBbr, times"], rows
    )


# ---- memory -------------------------------------------------------------------------------------------


def memory(runs: int) -> str:  # noqa: ARG001 - its own number of worlds
    cases = {
        "10 Mbit/s, 1 flow": dumbbell(10.0, 1, 60.0, rtts_ms=(40.0,)),
        "100 Mbit/s, 2 flows": dumbbell(100.0, 2, 60.0),
        "100 Mbit/s, 100 flows": dumbbell(100.0, 100, 60.0),
        "1 Gbit/s, 2 flows": dumbbell(1_000.0, 2, 60.0),
        "10 Gbit/s, 2 flows": dumbbell(10_000.0, 2, 60.0),
    }
    rows = []
    for label, scenario in cases.items():
        count = MEMORY_WORLDS if (scenario.link.rate_mbps or 0.0) < 1_000.0 else MEMORY_WORLDS // 8
        fresh = multiprocessing.get_context("spawn")  # nothing that was freed before lies about
        with ProcessPoolExecutor(1, fresh) as pool:
            grown_bytes, most_pkts = pool.submit(memory_of, scenario, count).result()
        rows.append([label, f"{most_pkts:,.0f}", f"{grown_bytes / 1e3:,.0f}"])
    return (
        f"Resident memory that a world adds to a process after a run of {MEMORY_RUN_S:g} s, the mean over many; "
        "packets in flight are the most at once, at ends of intervals of 10 ms.\n\n"
    ) + markdown_table(["link", "packets in flight", "memory per world, kB"], rows)


def memory_of(scenario: Scenario, count: int) -> tuple[float, float]:
    """Return the bytes per world of ``count`` worlds, and the mean over them of the most packets in flight."""
    with make_world("twin", scenario, isolation="none") as first:  # loads what all share
        first.advance(0.01)
        column = first.flow_fields.index("in_flight_pkts")
    before_bytes = resident_bytes()
    worlds: list[World] = []
    most_pkts = np.zeros(count)
    for index in range(count):
        world = make_world("twin", scenario, seed=index, isolation="none")
        worlds.append(world)
        while world.now_s < MEMORY_RUN_S:
            world.advance(0.01)
            most_pkts[index] = max(most_pkts[index], world.flow_stats()[:, column].sum())
    grown_bytes = (resident_bytes() - before_bytes) / count
    for world in worlds:
        world.close()
    return grown_bytes, float(most_pkts.mean())


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


SECTIONS: dict[str, tuple[str, Callable[[int], str]]] = {
    "packets": ("A delivered packet", packets),
    "ns3": ("Against ns-3", against_ns3),
    "memory": ("Memory", memory),
}

if __name__ == "__main__":
    sys.exit(main())
