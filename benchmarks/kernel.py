# SPDX-License-Identifier: GPL-2.0-only
"""Hold the twin to the kernel: the same scenarios in the worlds linux and twin, cell by cell.

    python benchmarks/kernel.py [--runs 3] [--seeds 10] [--seconds 60] [--minutes 30] [--only NAME ...]
                                [--write docs/fidelity-and-speed.md]
    python benchmarks/kernel.py --learned shipped/flow [--draws 16] [--first-draw 0] [--seeds 10] [--seconds 45]
                                [--minutes 30] [--write ...]

It can be made in pieces: accepted runs are kept in runs/kernel, by the last commit that changed what runs, and one that
is there is not repeated. --minutes ends the runs in the kernel after that time. The first run of every scenario comes
before the second of any. A run of the kernel that was late is repeated. The seed of a run chooses when the flows after
the first start, within the longest RTT.

1. The kernel runs its own bbr, cubic and reno, the twin ours. A cell is a figure of a scenario: each flow's share of
   the goodput, utilisation, queueing delay and retransmissions. It is inside if the means differ by no more than the
   larger of 5 % and the range of the kernel's own runs.
2. The same of our bbr3 and bbr2, in BPF in the kernel.
3. The same where ACKs queue or are lost on the return path. Receive buffers are automatic in both worlds: a gap holds
   more than a window there, and the twin's ample buffer would never be full.
4. A flow whose algorithm changes on the open connection, at the same moments in both worlds: its window 0.1 s after a
   switch, its goodput and RTT until 2 s after, means over the switches, its goodput before the first of them, and its
   retransmissions.
5. Two flows of each variant, by score, in both worlds.

With --learned, which names shipped/flow or a run folder of `bbrgym train experiment=wan_flow_portfolio`, it compares N,
own score and harm of this policy in each flow's data path, a fixed setting and variants on draws of commons instead.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernel_learned
import numpy as np
from report import command, publish

import bbrgym
from bbrgym.report.markdown import markdown_table
from bbrgym.runs.atomic_files import write_text
from bbrgym.tunables import ARMS
from bbrgym.worlds import LateRunError
from bbrgym.worlds.score import score_of_run

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "runs" / "kernel"
RUNS_BY = ("cc", "linux", "src/bbrgym/scenario", "src/bbrgym/worlds", "src/native", "tcp", "twin", "world")
"""Folders of the code that a run depends on."""

LIKE = "steady lossy rtt_fairness congested"
BEHAVIOUR = {
    "kernel-cells": f"{LIKE} / bbr cubic reno",
    "kernel-bbr3": f"{LIKE} / bbr2 bbr3 cubic",
    "kernel-reverse": f"{LIKE} / bbr cubic bbr3",
    "kernel-switch": f"{LIKE} / bbr cubic reno",
    "kernel-order": "rtt_fairness / bbq bbr-acd bbr-plus bbr-pg bbr cubic",
    "kernel-learned": "commons / bbq bbr cubic shipped/fixed shipped/flow",
}
"""What each section measures, for `make docs`."""

KERNEL = "kernel-"
TOLERANCE = 0.05
ATTEMPTS = 2  # at a run of the kernel, before the next scenario has its turn
INTERVAL_S = 1.0
SWITCHED_S = (0.1, 1.9)  # intervals after a switch: its window is read after the first, rate and RTT are of the second

Mapping = dict[str, Any]
Figures = dict[str, float]


@dataclass(frozen=True)
class Setup:
    """A scenario to run."""

    name: str  # of the row
    rate_mbps: float  # of the link
    # of the scenario; each has a ``cc`` and ``rtt_ms``. The twin runs ours in place of the kernel's.
    flows: tuple[Mapping, ...]
    queue_bdp: float = 1.0  # size of the queue
    link: tuple[tuple[str, Any], ...] = ()  # other fields of the link
    gso_max_segs: int | None = None  # the most segments in a burst. Default: Linux's own
    timestamps: bool = False  # whether the flows use TCP's timestamps
    # time without service; it begins within half a second of three tenths of the run, as the seed chooses
    outage_s: float = 0.0
    # algorithms of the one flow, of variant `switch`, in turn; each has the same time, but for `varies`
    arms: tuple[str, ...] = ()
    varies: bool = False  # whether a switch comes up to a quarter of that time earlier or later, as the seed chooses

    def switches(self, seconds: float, seed: int) -> list[list[Any]]:
        """Return the time in seconds of each switch, and the algorithm."""
        each_s, draws = seconds / max(len(self.arms), 1), random.Random(f"{self.name} switch {seed}")
        moved_s = (draws.uniform(-0.25, 0.25) * each_s * self.varies for _ in self.arms[1:])
        return [[round((i + 1) * each_s + moved, 6), self.arms[i + 1]] for i, moved in enumerate(moved_s)]

    def mapping(self, seconds: float, world: str, seed: int) -> Mapping:
        """Return the scenario for one of the worlds; the seed chooses when the flows after the first start."""
        prefix = KERNEL if world == "twin" else ""
        flows = [
            {"name": f"f{i}", **flow, "cc": flow["cc"].removeprefix(prefix), "role": "fixed", "start_s": start_s}
            for i, (flow, start_s) in enumerate(zip(self.flows, self._starts_s(seed), strict=True))
        ]
        shortest_ms = min(flow["rtt_ms"] for flow in self.flows)
        link = {"rate_mbps": self.rate_mbps, "delay_ms": shortest_ms / 4, "queue": {"size_bdp": self.queue_bdp}}
        more = dict(self.link)
        if "changes" in more:  # at shares of the duration
            more["changes"] = [change | {"at_s": change["at_s"] * seconds} for change in more["changes"]]
        if self.outage_s > 0:
            begin_s = round(0.3 * seconds + random.Random(f"{self.name} outage {seed}").uniform(0.0, 0.5), 6)
            ends = ((begin_s, 0.0), (begin_s + self.outage_s, self.rate_mbps))
            more["changes"] = [{"at_s": at_s, "rate_mbps": rate_mbps} for at_s, rate_mbps in ends]
        stack: Mapping = {"timestamps": True} if self.timestamps else {}
        if self.gso_max_segs is not None:
            stack["gso_max_segs"] = self.gso_max_segs
        common = {"name": self.name, "duration_s": seconds, "stack": stack}
        return {**common, "link": link | more, "flows": flows}

    def _starts_s(self, seed: int) -> list[float]:
        """Return the starts: the first at 0, the others within the longest RTT of it.

        Which of two loss-based flows meets a full queue hangs on their phase (Floyd and Jacobson, "On traffic phase
        effects in packet-switched gateways", 1992), so a fixed phase is one case and not a distribution.
        """
        draws = random.Random(f"{self.name} start {seed}")
        longest_s = max(flow["rtt_ms"] for flow in self.flows) / 1000
        return [0.0, *(round(draws.uniform(0.0, longest_s), 6) for _ in self.flows[1:])]


# ---- the scenarios -----------------------------------------------------------------------------------------


def flow(cc: str, rtt_ms: float = 40.0, **fields: Any) -> Mapping:
    """Return a flow of a setup."""
    return {"cc": cc, "rtt_ms": rtt_ms, **fields}


def loss(rate: float, **unit: str) -> tuple[tuple[str, Any], ...]:
    """Return a link's random loss."""
    return (("loss", {"kind": "bernoulli", "rate": rate, **unit}),)


def late(delay_ms: float) -> tuple[tuple[str, Any], ...]:
    """Return a link that lets a twentieth of the packets be late, and overtaken."""
    return (("jitter", {"share": 0.05, "delay_ms": delay_ms, "reorder": True}),)


_SHARES = ((0.25, 10.0), (0.5, 30.0), (0.75, 20.0))
STEPS = (("changes", [{"at_s": share, "rate_mbps": rate_mbps} for share, rate_mbps in _SHARES]),)
"""A link whose rate halves, triples and comes back."""


def setups() -> Iterator[Setup]:
    """Yield the scenarios in which the twin is held to the kernel."""
    for name in ("bbr", "cubic", "reno"):
        cc = KERNEL + name
        yield Setup(f"{name}-5", 5.0, (flow(cc),))
        yield Setup(f"{name}-20", 20.0, (flow(cc),))
        yield Setup(f"{name}-100", 100.0, (flow(cc),))
        yield Setup(f"{name}-shallow", 20.0, (flow(cc, 80.0),), queue_bdp=0.5)
        yield Setup(f"{name}-deep", 10.0, (flow(cc),), queue_bdp=5.0)
        yield Setup(f"{name}-loss", 10.0, (flow(cc),), link=loss(0.01))
        yield Setup(f"{name}-loses-skbs", 20.0, (flow(cc),), link=loss(0.02, unit="skb"))
        yield Setup(f"{name}-two", 20.0, (flow(cc), flow(cc)))
        yield Setup(f"{name}-unequal", 20.0, (flow(cc, 10.0), flow(cc, 50.0)), queue_bdp=2.0)
        for late_ms in (5.0, 20.0, 40.0, 80.0):
            yield Setup(f"{name}-late-{late_ms:g}", 20.0, (flow(cc, 100.0),), queue_bdp=2.0, link=late(late_ms))
        yield Setup(
            f"{name}-late-40-timestamps", 20.0, (flow(cc, 100.0),), queue_bdp=2.0, link=late(40.0), timestamps=True
        )
    bbr, cubic = "kernel-bbr", "kernel-cubic"
    for outage_s in (0.5, 1.0, 3.0, 5.0, 10.0):
        queue = (("queue", {"size_packets": 200}),)
        yield Setup(f"bbr-outage-{outage_s:g}", 12.0, (flow(bbr, 60.0),), link=queue, outage_s=outage_s)
    yield Setup("bbr-steps", 20.0, (flow(bbr),), link=STEPS)
    yield Setup("cubic-steps", 20.0, (flow(cubic),), link=STEPS)
    yield Setup("bbr-isolated", 20.0, (flow(bbr),), gso_max_segs=1)
    yield Setup("bbr-unequal-isolated", 20.0, (flow(bbr, 10.0), flow(bbr, 50.0)), queue_bdp=2.0, gso_max_segs=1)
    yield Setup("bbr-against-cubic", 20.0, (flow(bbr), flow(cubic)))
    yield Setup("four-mixed", 50.0, (flow(bbr), flow(bbr, 80.0), flow(cubic), flow("kernel-reno")))
    slow = {"kind": "cbr", "rate_mbps": 2.0}
    yield Setup("bbr-application", 20.0, (flow(bbr, app=slow), flow(bbr)))
    bursts = {"kind": "onoff", "rate_mbps": 8.0, "on_s": 0.5, "off_s": 0.5}
    yield Setup("cubic-tails", 10.0, (flow(cubic, app=bursts),), link=loss(0.02))


def bbr3_setups() -> Iterator[Setup]:
    """Yield the scenarios in which our BBRv3 and v2 in the kernel are held to the same in the twin."""
    cubic = flow("kernel-cubic")
    marking = (("queue", {"size_bdp": 1.0, "ecn_threshold_packets": 20}),)
    for name in ("bbr3", "bbr2"):
        ours = flow(name)
        yield Setup(f"{name}-20", 20.0, (ours,))
        yield Setup(f"{name}-unequal", 20.0, (flow(name, 10.0), flow(name, 50.0)), queue_bdp=2.0)
        for queue_bdp in (0.5, 2.0, 8.0):
            yield Setup(f"{name}-against-cubic-{queue_bdp:g}", 20.0, (ours, cubic), queue_bdp=queue_bdp)
        yield Setup(f"{name}-loss", 10.0, (ours,), link=loss(0.01))
        yield Setup(f"{name}-marks", 20.0, (flow(name, stack={"ecn": True}),), link=marking)
        yield Setup(f"{name}-steps", 20.0, (ours,), link=STEPS)


def reverse_setups() -> Iterator[Setup]:
    """Yield the scenarios whose ACKs queue on a slow link of the return path, or are lost there."""
    for name in ("kernel-bbr", "kernel-cubic", "bbr3"):
        for back_mbps, rate in ((0.1, 0.0), (0.2, 0.0), (0.4, 0.0), (20.0, 0.05)):
            queue = {"size_packets": 50}
            back = {"rate_mbps": back_mbps, "delay_ms": 10.0, "queue": queue, **dict(loss(rate))}
            what = "loses-acks" if rate else f"back-{1000 * back_mbps:g}-kbit"
            flows = (flow(name, stack={"receive_buffer_bytes": "auto"}),)
            yield Setup(f"{name.removeprefix(KERNEL)}-{what}", 20.0, flows, link=(("reverse", back),))


def switch_setups() -> Iterator[Setup]:
    """Yield the scenarios in which a flow changes its algorithm: each of three after each other one."""

    def switching(rate_mbps: float, *arms: str, **fields: Any) -> Setup:
        flows = (flow("switch", tunables={"switch_arm": ARMS.index(arms[0])}),)
        return Setup("-".join(("switch", *arms)), rate_mbps, flows, arms=arms, **fields)

    yield switching(20.0, "cubic", "bbr")
    yield switching(20.0, "bbr", "cubic")
    yield switching(10.0, "reno", "bbr", "reno", varies=True, link=loss(0.005))
    yield switching(20.0, "cubic", "reno", "cubic", "bbr", varies=True, queue_bdp=2.0)


def entrants() -> Iterator[Setup]:
    """Yield the scenario of the order: two flows of one variant."""
    for cc in ("bbr", "bbr-plus", "bbr-acd", "bbq", "bbr-pg", "kernel-bbr", "kernel-cubic"):
        yield Setup(f"order-{cc}", 20.0, (flow(cc, 10.0), flow(cc, 50.0)), queue_bdp=2.0)


# ---- runs ----------------------------------------------------------------------------------------------------


def tested_commit() -> str:
    """Return the last commit that changed what runs; end where the checkout has other changes of it."""

    def git(*command: str) -> str:
        whole = ("git", "-C", str(ROOT), *command, "--", *RUNS_BY)
        return subprocess.run(whole, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    if changes := git("status", "--porcelain"):
        sys.exit(f"the checkout has changes, and a kept run names a commit:\n{changes}")
    return git("log", "-1", "--format=%h", "--abbrev=10")


@dataclass(frozen=True)
class Runs:
    """Runs of one commit and duration, kept on disk."""

    folder: Path  # of these runs
    commit: str  # of a run that is made now
    seconds: float  # of each run

    def find(self, setup: Setup, world: str, seed: int) -> Mapping | None:
        """Return a kept run; None if there is none of this scenario as it is now."""
        path = self._path(setup, world, seed)
        if not path.exists():
            return None
        kept: Mapping = json.loads(path.read_text(encoding="utf-8"))
        asked = (setup.mapping(self.seconds, world, seed), setup.switches(self.seconds, seed))
        return kept if (kept["scenario"], kept["switches"]) == asked else None

    def make(self, setup: Setup, world: str, seed: int) -> Mapping:
        """Return a kept run, or run and keep it.

        Raises:
            LateRunError: the run was refused.
        """
        kept = self.find(setup, world, seed)
        if kept is None:
            scenario, switches = setup.mapping(self.seconds, world, seed), setup.switches(self.seconds, seed)
            outcome = outcome_of(world, scenario, seed, switches)
            kept = {"commit": self.commit, "scenario": scenario, "switches": switches, **outcome}
            path = self._path(setup, world, seed)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(kept))
        return kept

    def of(self, setup: Setup, world: str, count: int) -> list[Mapping]:
        """Return the kept runs of a scenario, at most so many."""
        found = (self.find(setup, world, seed) for seed in range(1, count + 1))
        return [run for run in found if run is not None]

    def _path(self, setup: Setup, world: str, seed: int) -> Path:
        return self.folder / setup.name / f"{world}-{seed}.json"


def outcome_of(world: str, scenario: Mapping, seed: int, switches: list[list[Any]]) -> Mapping:
    """Run a scenario and return its summaries and score, and the first flow's figures before and after switches."""
    seen = []
    with bbrgym.make_world(world, scenario, seed=seed) as run:

        def advance(seconds: float) -> None:
            run.advance(seconds)
            seen.append(dict(zip(run.flow_fields, map(float, run.flow_stats()[0]), strict=True)))

        for at_s, arm in switches:
            advance(at_s - run.now_s)
            run.set_tunables(0, {"switch_arm": ARMS.index(arm)})
            for seconds in SWITCHED_S:
                advance(seconds)
        while not run.done:
            run.advance(INTERVAL_S)
        flow_rows, link_row = run.summary()
        flows = [dict(zip(run.flow_summary_fields, map(float, row), strict=True)) for row in flow_rows]
        link = dict(zip(run.link_summary_fields, map(float, link_row), strict=True))
        score = score_of_run(run.scenario, run.flow_summary_fields, flow_rows)
    names = ("cwnd_pkts", "goodput_mbps", "rtt_mean_ms")
    return {"flows": flows, "link": link, "score": score, "seen": [{name: one[name] for name in names} for one in seen]}


def figures_of(run: Mapping) -> Figures:
    """Return the cells of a run."""
    flows, link = run["flows"], run["link"]
    retransmit_rate = sum(one["retransmitted_pkts"] for one in flows) / sum(one["sent_pkts"] for one in flows)
    if seen := run["seen"]:
        soon, later = seen[1::3], seen[2::3]
        return {
            "goodput before, Mbit/s": seen[0]["goodput_mbps"],
            "window after a switch, packets": float(np.mean([one["cwnd_pkts"] for one in soon])),
            "goodput after, Mbit/s": float(np.mean([one["goodput_mbps"] for one in later])),
            "mean RTT after, ms": float(np.mean([one["rtt_mean_ms"] for one in later])),
            "retransmit rate": retransmit_rate,
        }
    shares = {f"share of f{i}": one["share"] for i, one in enumerate(flows)} if len(flows) > 1 else {}
    return {
        **shares,
        "goodput, Mbit/s": sum(one["goodput_mbps"] for one in flows),
        "utilisation": link["utilisation"],
        "mean queueing delay, ms": link["queue_delay_mean_ms"],
        "p95 queueing delay, ms": link["queue_delay_p95_ms"],
        "retransmit rate": retransmit_rate,
    }


def run_kernel(runs: Runs, asked: list[Setup], count: int, until_s: float) -> None:
    """Make the missing runs of the kernel, until that time of the monotonic clock."""
    for seed in range(1, count + 1):
        for setup in asked:
            for _ in range(ATTEMPTS):
                if runs.find(setup, "linux", seed) is not None or time.monotonic() > until_s:
                    break
                try:
                    runs.make(setup, "linux", seed)
                    print(f"{setup.name}, run {seed}", flush=True)
                except LateRunError as error:
                    print(f"{setup.name}, run {seed}: repeated, {error.reason}", flush=True)


# ---- the sections --------------------------------------------------------------------------------------------


def shown(values: np.ndarray) -> str:
    """Return a mean and the range."""
    return f"{values.mean():.3g} ({values.min():.3g} to {values.max():.3g})"


@dataclass(frozen=True)
class Comparison:
    """A figure of a scenario in both worlds: a value for each run."""

    figure: str  # name of the figure
    kernel: np.ndarray  # [runs]
    twin: np.ndarray  # [seeds]

    @property
    def is_inside(self) -> bool:
        """Return whether the twin's mean is near enough to the kernel's."""
        allowed = max(TOLERANCE * abs(self.kernel.mean()), np.ptp(self.kernel))
        return bool(abs(self.twin.mean() - self.kernel.mean()) <= allowed)


def cells_of(runs: Runs, setup: Setup, arguments: argparse.Namespace) -> list[Comparison]:
    """Return the cells of a scenario."""
    kernel = [figures_of(run) for run in runs.of(setup, "linux", arguments.runs)]
    twin = [figures_of(run) for run in runs.of(setup, "twin", arguments.seeds)]
    return [Comparison(name, *(np.array([run[name] for run in made]) for made in (kernel, twin))) for name in kernel[0]]


def inside_of(cells: dict[str, list[Comparison]], arguments: argparse.Namespace) -> str:
    """Return the paragraph that says how many cells are inside."""
    inside = sum(cell.is_inside for found in cells.values() for cell in found)
    count = sum(map(len, cells.values()))
    return (
        f"{head(arguments)}, each of {arguments.seconds:g} s. In {inside} of {count} cells ({inside / count:.0%}) the "
        f"twin's mean differs from the kernel's by no more than the larger of {TOLERANCE:.0%} and the range of the "
        "kernel's own runs.\n\n"
    )


def cells_section(runs: Runs, asked: list[Setup], arguments: argparse.Namespace) -> str:
    """Return how many cells are inside, and a row for each scenario of which some are not."""
    cells = {setup.name: cells_of(runs, setup, arguments) for setup in asked if runs.of(setup, "linux", arguments.runs)}
    rows = []
    for name, found in cells.items():
        outside = [f"{one.figure}: {shown(one.kernel)}, {one.twin.mean():.3g}" for one in found if not one.is_inside]
        if outside:
            rows.append([name, f"{len(found) - len(outside)} of {len(found)}", "; ".join(outside)])
    return inside_of(cells, arguments) + markdown_table(
        ["scenario", "cells inside", "outside: the kernel's mean (range), the twin's"], rows
    )


def switch_section(runs: Runs, asked: list[Setup], arguments: argparse.Namespace) -> str:
    """Return how many cells are inside, and all of them."""
    cells = {setup.name: cells_of(runs, setup, arguments) for setup in asked if runs.of(setup, "linux", arguments.runs)}
    names = [cell.figure for cell in next(iter(cells.values()))]
    rows = [
        [name.removeprefix("switch-"), *(f"{one.kernel.mean():.3g}/{one.twin.mean():.3g}" for one in found)]
        for name, found in cells.items()
    ]
    return inside_of(cells, arguments) + markdown_table(["kernel/twin", *names], rows)


def order_section(runs: Runs, asked: list[Setup], arguments: argparse.Namespace) -> str:
    """Return the table of the variants by their score in the kernel."""
    scores = {
        setup.flows[0]["cc"]: [
            np.array([run["score"] for run in runs.of(setup, world, count)])
            for world, count in (("linux", arguments.runs), ("twin", arguments.seeds))
        ]
        for setup in asked
        if runs.of(setup, "linux", arguments.runs)
    }
    kernel, twin = (sorted(scores, key=lambda cc: -scores[cc][world].mean()) for world in (0, 1))
    return (
        f"{head(arguments)}. Two flows of one variant, 10 and 50 ms, 20 Mbit/s, two BDP of queue; in the twin `bbr` "
        "and `cubic` stand for the kernel's.\n\n"
    ) + markdown_table(
        ["variant", "score, kernel", "twin", "place, twin"],
        [[cc, shown(scores[cc][0]), f"{scores[cc][1].mean():.3g}", str(twin.index(cc) + 1)] for cc in kernel],
    )


def head(arguments: argparse.Namespace) -> str:
    """Return the machine, the command and the numbers of runs."""
    return f"{machine()}; {arguments.runs} runs of the kernel, {arguments.seeds} seeds of the twin"


def machine() -> str:
    """Return the machine and the command."""
    linux = f"Linux {platform.release().partition('-')[0]}"
    return f"{linux} on {os.cpu_count()} cores, {datetime.date.today()}: `{command()}`"


def main() -> None:
    """Run what is missing and print or write the sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="accepted runs in the kernel")
    parser.add_argument("--seeds", type=int, default=10, help="of the twin")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no run of the kernel begins later")
    all_parts = [list(part) for part in (setups(), bbr3_setups(), reverse_setups(), switch_setups(), entrants())]
    parser.add_argument("--only", nargs="+", metavar="NAME", default=["*"], help="scenarios to run, such as '*-loss'")
    parser.add_argument("--learned", metavar="RUN", help="a trained policy, to compare on draws")
    parser.add_argument("--draws", type=int, default=16, help="for --learned")
    parser.add_argument("--first-draw", type=int, default=0, help="for --learned")
    parser.add_argument("--kept", type=Path, default=KEPT, help=f"folder of the runs; default: {KEPT}")
    parser.add_argument("--write", type=Path, help="page whose sections are replaced")
    arguments = parser.parse_args()
    commit = tested_commit()
    until_s = time.monotonic() + 60 * arguments.minutes
    if arguments.learned is not None:
        kept = arguments.kept / f"{commit}-{arguments.seconds:g}s-{Path(arguments.learned).name}"
        fields = (arguments.draws, arguments.first_draw, arguments.seeds, arguments.seconds)
        plan = kernel_learned.Plan(arguments.learned, kept, *fields)
        kernel_learned.run(plan, until_s)
        section = f"{machine()}; {arguments.seeds} seeds of the twin. {kernel_learned.section(plan)}"
        publish(arguments.write, "kernel-learned", section, BEHAVIOUR["kernel-learned"])
        return
    runs = Runs(arguments.kept / f"{commit}-{arguments.seconds:g}s", commit, arguments.seconds)
    parts = [
        [setup for setup in part if any(fnmatch.fnmatch(setup.name, name) for name in arguments.only)]
        for part in all_parts
    ]
    asked = [setup for part in parts for setup in part]
    if not asked:
        parser.error(f"--only: no scenario is named {' or '.join(arguments.only)}")
    run_kernel(runs, asked, arguments.runs, until_s)
    for setup in asked:
        for seed in range(1, arguments.seeds + 1):
            runs.make(setup, "twin", seed)
    names = ("kernel-cells", "kernel-bbr3", "kernel-reverse", "kernel-switch", "kernel-order")
    sections = (*[cells_section] * 3, switch_section, order_section)
    for name, part, write_section in zip(names, parts, sections, strict=True):
        if part:
            publish(arguments.write, name, write_section(runs, part, arguments), BEHAVIOUR[name])


if __name__ == "__main__":
    main()
