# SPDX-License-Identifier: GPL-2.0-only
"""Speed of the twin: cost of a delivered packet, ratio to other simulators, cost of a reset, memory of a world.

usage: python benchmarks/twin_speed.py [SECTION ...] [--runs 5] [--world twin] [--htsim FOLDER] [--write FILE.md]

Sections: packets, curve, ns3, htsim, reset, memory, worlds. Default: all, htsim only with ``--htsim``. A delivered
packet is a full one of payload that the receiver got in order: goodput / mss. Each figure is the median of the runs,
each run a fresh world with another seed in a process of its own, and the CPU time within advance(). ``--htsim`` names a
checkout of https://github.com/Broadcom/csg-htsim, which is compiled there by its own Makefile. ``--write`` replaces the
sections there, and the curve's figure beside it.
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from report import Bystanders, measured_on, ns3_version, replace_section
from rich.console import Console
from rich.progress import track

import bbrgym
from bbrgym.report.markdown import markdown_table
from bbrgym.runs.atomic_files import write_atomically
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import World, make_vector_world, make_world, registered_worlds
from bbrgym.worlds.engine import engine_class
from bbrgym.worlds.fields import FLOW_FIELDS, LINK_FIELDS

RTTS_MS = (10.0, 50.0)
CURVE_FLOWS = (1, 2, 5, 10, 30, 100, 300, 1000)
CURVE_RATES_MBPS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
CURVE_PACKETS = 2_000_000  # that a point of the curve runs for, within the bounds below
LONGEST_S, SHORTEST_S = 120.0, 5.0
MEMORY_WORLDS = 32
RESETS = 500
WORLDS = (1, 16, 64, 256, 1_024)
WORLD_STEPS_S = (0.1, 1.0)
WORLD_SECONDS = 5_120.0  # that all worlds of a run simulate together
HTSIM_RIVALS = ("bbr", "cubic", "reno")
COMPILE_TIMEOUT_S = 900.0
HTSIM_TIMEOUT_S = 600.0
GIT_TIMEOUT_S = 60.0
FIGURE = "figures/twin_speed.svg"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--runs", type=int, default=5, help="runs of each figure (default: 5)")
    parser.add_argument("--world", default="twin", choices=list(registered_worlds()))
    parser.add_argument("--htsim", type=Path, metavar="FOLDER", help="checkout of csg-htsim, for the section htsim")
    parser.add_argument("--write", type=Path, help="Markdown file whose sections are replaced")
    options = parser.parse_args(arguments)
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"no section is named {name!r}, expected some of {', '.join(SECTIONS)}")
    if "htsim" in options.sections and options.htsim is None:
        parser.error("the section htsim needs --htsim, a checkout of csg-htsim")
    if options.htsim is not None and not (options.htsim / "sim" / "Makefile").is_file():
        parser.error(f"--htsim is {str(options.htsim)!r}, expected a checkout of csg-htsim, with sim/Makefile")
    for name in options.sections or [name for name in SECTIONS if name != "htsim" or options.htsim is not None]:
        title, measure = SECTIONS[name]
        command = f"python benchmarks/twin_speed.py {name} --runs {options.runs}"
        command += "" if options.world == "twin" else f" --world {options.world}"
        command += " --htsim csg-htsim" if name == "htsim" else ""
        bystanders = Bystanders()
        body = measure(options)
        section = (
            "\n".join([f"## {title}", "", f"`{command}`, {measured_on()}; {bystanders.phrase()}.", "", *body]) + "\n"
        )
        Console(soft_wrap=True, markup=False, highlight=False).print(section)
        if options.write is not None:
            replace_section(options.write, f"twin-speed {name}", section)
    return 0


# ---- scenarios and clocks -----------------------------------------------------------------------------


def dumbbell(
    rate_mbps: float, flows: int, duration_s: float, rtts_ms: Sequence[float] = RTTS_MS, cc: str = "bbr"
) -> Scenario:
    """Return a scenario of flows with alternating RTTs at a drop-tail queue of one bandwidth-delay product."""
    counts = [flows // len(rtts_ms) + (index < flows % len(rtts_ms)) for index in range(len(rtts_ms))]
    return bbrgym.load_scenario(
        {
            "name": f"{rate_mbps:g}-mbps-{flows}-flows",
            "duration_s": duration_s,
            "warmup_s": 0.0,
            "link": {"rate_mbps": rate_mbps, "queue": {"size_bdp": 1.0, "bdp_rtt_ms": max(rtts_ms)}},
            "flows": [
                {"name": f"rtt{rtt_ms:g}", "count": count, "cc": cc, "role": "fixed", "rtt_ms": rtt_ms}
                for rtt_ms, count in zip(rtts_ms, counts, strict=True)
                if count
            ],
        }
    )


@dataclass(frozen=True)
class RunCost:
    """Cost of a run.

    Attributes:
        cpu_s: CPU time within advance().
        simulated_s: how much it simulated.
        delivered_pkts: full packets of payload that receivers got in order.
        sent_pkts: packets sent, retransmissions included.
    """

    cpu_s: float
    simulated_s: float
    delivered_pkts: float
    sent_pkts: float

    @property
    def ns_per_packet(self) -> float:
        return self.cpu_s / self.delivered_pkts * 1e9 if self.delivered_pkts else math.nan


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


def progress(values: Iterable[Any], what: str) -> Iterable[Any]:
    return track(list(values), description=what, console=Console(stderr=True), transient=True)


# ---- a delivered packet -------------------------------------------------------------------------------


def packets(options: argparse.Namespace) -> list[str]:
    cases = {
        "100 Mbit/s, 2 flows": (dumbbell(100.0, 2, 120.0), "60 ns"),
        "1 Gbit/s, 2 flows": (dumbbell(1_000.0, 2, 20.0), "60 ns"),
        "10 Gbit/s, 2 flows": (dumbbell(10_000.0, 2, 5.0), "75 ns"),
        "100 Mbit/s, 10 flows": (dumbbell(100.0, 10, 120.0), "90 ns"),
        "100 Mbit/s, 100 flows": (dumbbell(100.0, 100, 60.0), "150 ns"),
        "100 Mbit/s, 1,000 flows": (dumbbell(100.0, 1_000, 60.0), "300 ns"),
    }
    runs: dict[str, list[RunCost]] = {label: [] for label in cases}
    for seed in progress(range(1, options.runs + 1), "packets"):  # round by round: each sees the same weather
        for label, (scenario, _) in cases.items():
            runs[label].append(time_run(options.world, scenario, seed))
    first = runs["100 Mbit/s, 2 flows"]
    rows = []
    for label, of_case in runs.items():
        ratios = [run.ns_per_packet / base.ns_per_packet for run, base in zip(of_case, first, strict=True)]
        rows.append(
            [
                label,
                f"{statistics.median(run.delivered_pkts for run in of_case):,.0f}",
                f"{statistics.median(run.sent_pkts / run.delivered_pkts for run in of_case):.3f}",
                spread(run.ns_per_packet for run in of_case),
                f"{statistics.median(run.cpu_s / run.sent_pkts * 1e9 for run in of_case):.0f}",
                f"{statistics.median(ratios):.2f}",
                cases[label][1],
            ]
        )
    return [
        "BBR flows, half with an RTT of 10 ms and half of 50 ms, drop-tail, one bandwidth-delay product. Median of "
        f"{options.runs} runs, in brackets the fastest and the slowest; the ratio is that of a "
        "delivered packet's cost to the first line's in the same round.",
        "",
        markdown_table(
            [
                "link",
                "delivered packets",
                "sent / delivered",
                "ns per delivered packet",
                "ns per sent packet",
                "ratio",
                "aim",
            ],
            rows,
        ),
    ]


# ---- the curve ----------------------------------------------------------------------------------------


def curve(options: argparse.Namespace) -> list[str]:
    points = [(flows, rate_mbps) for rate_mbps in CURVE_RATES_MBPS for flows in CURVE_FLOWS]
    measured: dict[tuple[int, float], list[RunCost]] = {point: [] for point in points}
    for seed in range(1, options.runs + 1):
        for flows, rate_mbps in progress(points, f"curve, run {seed} of {options.runs}"):
            pkts_per_s = rate_mbps * 125e3 / 1488.0
            duration_s = min(LONGEST_S, max(SHORTEST_S, CURVE_PACKETS / pkts_per_s))
            scenario = dumbbell(rate_mbps, flows, duration_s)
            measured[flows, rate_mbps].append(time_run(options.world, scenario, seed))
    ns = {point: statistics.median(run.ns_per_packet for run in runs) for point, runs in measured.items()}
    sent = {
        point: statistics.median(run.sent_pkts / run.delivered_pkts for run in runs) for point, runs in measured.items()
    }
    if options.write is not None:
        figure = curve_figure(ns)
        write_atomically(
            options.write.parent / FIGURE, lambda path: figure.savefig(path, format="svg", metadata={"Date": None})
        )
    rows = [
        [
            rate_text(rate_mbps),
            *(f"{ns[flows, rate_mbps]:,.0f}" + crowding(sent[flows, rate_mbps]) for flows in CURVE_FLOWS),
        ]
        for rate_mbps in CURVE_RATES_MBPS
    ]
    return [
        "Nanoseconds per delivered packet by number of flows, for the same kind of link. A mark says where more was "
        "sent than delivered: * more than 1.1 times, ** more than 1.5 times, since so many "
        "flows overflow so small a queue. What was lost is part of the cost.",
        "",
        markdown_table(["link", *map(str, CURVE_FLOWS)], rows),
        "",
        f"![Nanoseconds per delivered packet by flows and rate]({FIGURE})",
    ]


def crowding(sent_per_delivered: float) -> str:
    return " **" if sent_per_delivered > 1.5 else " *" if sent_per_delivered > 1.1 else ""


def rate_text(rate_mbps: float) -> str:
    return f"{rate_mbps:g} Mbit/s" if rate_mbps < 1000 else f"{rate_mbps / 1000:g} Gbit/s"


def curve_figure(ns: dict[tuple[int, float], float]) -> Figure:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for rate_mbps in CURVE_RATES_MBPS:
        axis.plot(CURVE_FLOWS, [ns[flows, rate_mbps] for flows in CURVE_FLOWS], "o-", label=rate_text(rate_mbps))
    axis.set(xscale="log", yscale="log", xlabel="flows", ylabel="ns per delivered packet")
    axis.grid(alpha=0.25, which="both")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    return figure


# ---- against ns-3 -------------------------------------------------------------------------------------


def against_ns3(options: argparse.Namespace) -> list[str]:
    cases: dict[str, tuple[float, int, float, tuple[float, ...]]] = {
        "10 Mbit/s, 1 flow": (10.0, 1, 60.0, (40.0,)),
        "100 Mbit/s, 2 flows": (100.0, 2, 10.0, RTTS_MS),
        "100 Mbit/s, 10 flows": (100.0, 10, 10.0, RTTS_MS),
    }  # TcpBbr takes minutes for a second at 1 Gbit/s: its socket walks the list of what is out
    rows = []
    for label, case in progress(cases.items(), "against ns-3"):
        scenario, of_ns3 = dumbbell(*case), dumbbell(*case, cc="ns3-bbr")
        own, ns3, fast = [], [], []
        for seed in range(1, options.runs + 1):  # in turns
            own.append(time_run("ns3", of_ns3, seed))
            ns3.append(time_run("ns3", scenario, seed))
            fast.append(time_run(options.world, scenario, seed))
        own_ratios = [slow.ns_per_packet / run.ns_per_packet for slow, run in zip(own, fast, strict=True)]
        ratios = [slow.ns_per_packet / run.ns_per_packet for slow, run in zip(ns3, fast, strict=True)]
        rows.append(
            [
                label,
                spread(run.ns_per_packet / 1e3 for run in own),
                spread(run.ns_per_packet / 1e3 for run in ns3),
                spread(run.ns_per_packet for run in fast),
                spread((run.simulated_s / run.cpu_s for run in ns3), digits=1),
                spread(run.simulated_s / run.cpu_s for run in fast),
                spread(ratios),
                spread(own_ratios),
            ]
        )
    return [
        "The same scenario in both worlds, in turns, and with ns-3's own TcpBbr and sockets on the ns-3 world's "
        f"links; ns-3 {ns3_version()}. Median of {options.runs} runs; a ratio is that of a delivered packet's cost in "
        "the same round. Aims: at least 150 times the ns-3 world, 200 times TcpBbr.",
        "",
        markdown_table(
            [
                "link",
                "TcpBbr, us per delivered packet",
                "ns3, us per delivered packet",
                f"{options.world}, ns per delivered packet",
                "ns3, simulated s per CPU s",
                f"{options.world}, simulated s per CPU s",
                "times as fast",
                "times TcpBbr",
            ],
            rows,
        ),
    ]


# ---- against csg-htsim --------------------------------------------------------------------------------


def against_htsim(options: argparse.Namespace) -> list[str]:
    cases = {"100 Mbit/s, 2 flows": (100.0, 2, 120.0), "100 Mbit/s, 100 flows": (100.0, 100, 60.0)}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = htsim_program(options.htsim, Path(folder))
        for label, (rate_mbps, flows, duration_s) in progress(cases.items(), "against csg-htsim"):
            scenarios = {cc: dumbbell(rate_mbps, flows, duration_s, cc=cc) for cc in HTSIM_RIVALS}
            htsim: list[RunCost] = []
            own: dict[str, list[RunCost]] = {cc: [] for cc in HTSIM_RIVALS}
            for seed in range(1, options.runs + 1):  # in turns
                htsim.append(htsim_run(program, rate_mbps, flows, duration_s))
                for cc, scenario in scenarios.items():
                    own[cc].append(time_run(options.world, scenario, seed))
            for cc, runs in own.items():
                ratios = [other.ns_per_packet / run.ns_per_packet for other, run in zip(htsim, runs, strict=True)]
                rows.append(
                    [
                        f"{label}, {cc}",
                        spread(run.ns_per_packet for run in htsim),
                        spread(run.ns_per_packet for run in runs),
                        f"{htsim[0].delivered_pkts:,.0f}",
                        f"{statistics.median(run.delivered_pkts for run in runs):,.0f}",
                        spread(ratios, digits=2),
                    ]
                )
    return [
        f"csg-htsim, commit {checked_out(options.htsim)}, with its own TCP (NewReno without SACK, an ACK for each "
        "packet, nothing measured) on the same "
        f"network, in turns: `benchmarks/htsim_tcp.cc` with its library. Median of {options.runs} runs; the ratio is "
        "that of a delivered packet's cost in the same round. Aim: 1.7 times.",
        "",
        markdown_table(
            [
                "link, algorithm of ours",
                "csg-htsim, ns per delivered packet",
                f"{options.world}, ns per delivered packet",
                "csg-htsim, delivered packets",
                f"{options.world}, delivered packets",
                "times as fast",
            ],
            rows,
        ),
    ]


def checked_out(checkout: Path) -> str:
    """Return the commit of a checkout and its date, and whether tracked files are changed there."""
    git = ["git", "-c", "safe.directory=*", f"--git-dir={checkout / '.git'}", f"--work-tree={checkout}"]
    try:
        shown = [
            subprocess.run([*git, *command], check=True, capture_output=True, text=True, timeout=GIT_TIMEOUT_S).stdout
            for command in (("log", "-1", "--format=%h of %cs"), ("status", "--porcelain", "--untracked-files=no"))
        ]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return shown[0].strip() + (", changed" if shown[1] else "")


def htsim_program(checkout: Path, folder: Path) -> Path:
    """Compile csg-htsim's library in its checkout, and htsim_tcp.cc with it to a program in ``folder``."""
    sources, program = checkout / "sim", folder / "htsim_tcp"
    subprocess.run(
        ["make", "-C", sources, "-j", str(len(os.sched_getaffinity(0))), "libhtsim.a"],
        check=True,
        capture_output=True,
        timeout=COMPILE_TIMEOUT_S,
    )
    flags = ["-std=c++11", "-O3", f"-I{sources}"]
    main_file = Path(__file__).with_name("htsim_tcp.cc")
    subprocess.run(
        ["g++", *flags, main_file, sources / "libhtsim.a", "-o", program], check=True, timeout=COMPILE_TIMEOUT_S
    )
    return program


def htsim_run(program: Path, rate_mbps: float, flows: int, duration_s: float) -> RunCost:
    """Run csg-htsim's TCP on the network of ``dumbbell``."""
    queue_bytes = round(rate_mbps * 125 * max(RTTS_MS))
    rtts_ms = [str(RTTS_MS[index % len(RTTS_MS)]) for index in range(flows)]
    command = [program, str(rate_mbps), str(queue_bytes), str(duration_s), *rtts_ms]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=HTSIM_TIMEOUT_S)
    delivered_pkts, sent_pkts, cpu_s = map(float, done.stdout.splitlines()[-1].split())  # timeouts are told before
    return RunCost(cpu_s, duration_s, delivered_pkts, sent_pkts)


# ---- a reset ------------------------------------------------------------------------------------------


def reset(options: argparse.Namespace) -> list[str]:
    rows = []
    for flows in (1, 2, 10, 100):
        scenario = dumbbell(10.0, flows, 60.0, rtts_ms=(40.0,))
        with make_world(options.world, scenario) as world:
            again, anew = engine_resets(options.world, scenario)
            rows.append(
                [str(flows), again, anew, reset_us(lambda seed: world.reset(seed=seed), lambda: world.advance(0.2))]
            )
    return [
        "Microseconds of one reset after a run of 0.2 s, by number of flows; median, in brackets the 5th and the 95th "
        "percentile. Aim: at most 20 us.",
        "",
        markdown_table(
            ["flows", "vector engine, same scenario", "vector engine, scenario read anew", "`World.reset`"],
            rows,
        ),
    ]


def engine_resets(world_name: str, scenario: Scenario) -> tuple[str, str]:
    """Return the seconds of a reset in the vector engine: with a new seed, and with its scenario parsed again."""
    text, flows = scenario.resolved_json(), len(scenario.resolved().flows)
    vector = engine_class(registered_worlds()[world_name].engine)(1, 1, math.inf)
    vector.lay_out(
        flows,
        np.empty((1, flows, len(bbrgym.TUNABLES))),
        np.empty((1, flows, len(FLOW_FIELDS))),
        np.empty((1, len(LINK_FIELDS))),
        np.empty(1),
        np.empty(1, np.bool_),
    )
    chosen = np.ones(1, np.bool_)

    def run() -> None:
        vector.advance(0.2, chosen)

    vector.reset(0, text, 1)
    again = reset_us(lambda seed: vector.reset(0, None, seed), run)
    anew = reset_us(lambda seed: vector.reset(0, text, seed), run)
    vector.close()
    return again, anew


def reset_us(begin: Callable[[int], None], run: Callable[[], None]) -> str:
    taken_us = np.empty(RESETS)
    for index in range(-RESETS // 10, RESETS):  # the first ones warm up
        begin_ns = time.perf_counter_ns()
        begin(index % RESETS)
        taken_us[index] = (time.perf_counter_ns() - begin_ns) / 1e3
        run()
    low, middle, high = np.percentile(taken_us, [5, 50, 95])
    return f"{middle:.1f} ({low:.1f} to {high:.1f})"


# ---- memory -------------------------------------------------------------------------------------------


def memory(options: argparse.Namespace) -> list[str]:
    cases = {
        "10 Mbit/s, 1 flow": (dumbbell(10.0, 1, 60.0, rtts_ms=(40.0,)), 2.0),
        "100 Mbit/s, 2 flows": (dumbbell(100.0, 2, 60.0), 2.0),
        "100 Mbit/s, 100 flows": (dumbbell(100.0, 100, 60.0), 2.0),
        "1 Gbit/s, 2 flows": (dumbbell(1_000.0, 2, 60.0), 2.0),
        "10 Gbit/s, 2 flows": (dumbbell(10_000.0, 2, 60.0), 2.0),
    }
    rows = []
    for label, (scenario, run_s) in progress(cases.items(), "memory"):
        worlds = MEMORY_WORLDS if scenario.link.rate_mbps < 1_000.0 else MEMORY_WORLDS // 8
        fresh = multiprocessing.get_context("spawn")  # nothing that was freed before lies about
        with ProcessPoolExecutor(1, fresh) as pool:
            grown_bytes, most_pkts = pool.submit(memory_of, options.world, scenario, worlds, run_s).result()
        allowed_bytes = 1e6 + 128 * most_pkts
        rows.append(
            [
                label,
                str(worlds),
                f"{most_pkts:,.0f}",
                f"{grown_bytes / 1e3:,.0f}",
                f"{allowed_bytes / 1e3:,.0f}",
            ]
        )
    return [
        "Resident memory that a world adds to a process, by the difference over many of them, each after a run of 2 s; "
        "packets in flight are the most that it had at once, at ends of intervals of 10 ms. Aim: at most 1 MB and 128 "
        "bytes per packet in flight.",
        "",
        markdown_table(["link", "worlds", "packets in flight", "memory per world (kB)", "aim (kB)"], rows),
    ]


def memory_of(world_name: str, scenario: Scenario, count: int, run_s: float) -> tuple[float, float]:
    """Return the bytes per world of ``count`` worlds, and the mean over them of the most packets in flight."""
    with make_world(world_name, scenario, isolation="none") as first:  # loads what all share
        first.advance(0.01)
        column = first.flow_fields.index("in_flight_pkts")
    before_bytes = resident_bytes()
    worlds: list[World] = []
    most_pkts = np.zeros(count)
    for index in range(count):
        world = make_world(world_name, scenario, seed=index, isolation="none")
        worlds.append(world)
        while world.now_s < run_s:
            world.advance(0.01)
            most_pkts[index] = max(most_pkts[index], world.flow_stats()[:, column].sum())
    grown_bytes = (resident_bytes() - before_bytes) / count
    for world in worlds:
        world.close()
    return grown_bytes, float(most_pkts.mean())


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- many worlds --------------------------------------------------------------------------------------


def worlds(options: argparse.Namespace) -> list[str]:
    scenario = dumbbell(10.0, 1, 3_600.0, rtts_ms=(40.0,))
    ns: dict[tuple[int, float], list[float]] = {}
    for _ in progress(range(options.runs), "worlds"):
        for count in WORLDS:
            for step_s in WORLD_STEPS_S:
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    found = pool.submit(ns_of_worlds, options.world, scenario, count, step_s).result()
                ns.setdefault((count, step_s), []).append(found)
    return [
        "Worlds of 10 Mbit/s, 40 ms and one BBR flow that take turns on one thread, in steps of so much simulated "
        f"time: nanoseconds per delivered packet, median of {options.runs} runs, in brackets fastest and slowest.",
        "",
        markdown_table(
            ["worlds", *(f"steps of {step_s:g} s" for step_s in WORLD_STEPS_S)],
            [[f"{count:,}", *(spread(ns[count, step_s]) for step_s in WORLD_STEPS_S)] for count in WORLDS],
        ),
    ]


def ns_of_worlds(world_name: str, scenario: Scenario, count: int, step_s: float) -> float:
    """Return the CPU time per delivered packet of worlds that advance in turns, after a first second."""
    vector = make_vector_world(world_name, count, [scenario] * count, list(range(count)), threads=1)

    def delivered_bytes() -> float:
        """All of them, ever: the flows start at 0 s."""
        megabits = sum(float(vector.summary(index)[0][:, goodput].sum()) for index in range(count)) * vector.now_s[0]
        return float(megabits) * 125e3

    goodput = vector.flow_summary_fields.index("goodput_mbps")
    vector.advance(1.0)
    before_bytes = delivered_bytes()
    begin_s = time.process_time()
    for _ in range(round(WORLD_SECONDS / count / step_s)):
        vector.advance(step_s)
    cpu_s = time.process_time() - begin_s
    delivered_pkts = (delivered_bytes() - before_bytes) / scenario.mss_bytes
    vector.close()
    return cpu_s / delivered_pkts * 1e9


SECTIONS: dict[str, tuple[str, Callable[[argparse.Namespace], list[str]]]] = {
    "packets": ("A delivered packet", packets),
    "curve": ("By flows and rate", curve),
    "ns3": ("Against ns-3", against_ns3),
    "htsim": ("Against csg-htsim", against_htsim),
    "reset": ("A reset", reset),
    "memory": ("Memory", memory),
    "worlds": ("Many worlds", worlds),
}

if __name__ == "__main__":
    sys.exit(main())
