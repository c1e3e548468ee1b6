# SPDX-License-Identifier: GPL-2.0-only
"""Hold the twin to the kernel: the same scenarios in the worlds linux and twin, cell by cell.

    python benchmarks/kernel.py [--runs 3] [--seeds 10] [--seconds 60] [--minutes 30] [--only NAME ...]
                                [--output docs/kernel.md]
    python benchmarks/kernel.py --learned RUN [--draws 12] [--seeds 10] [--minutes 30] [--output docs/kernel.md]

It can be made in pieces: accepted runs are kept in runs/kernel, by the last commit that changed what runs, and one that
is there is not repeated. --minutes ends the runs in the kernel after that time. The first run of every scenario comes
before the second of any. A run of the kernel that was late is repeated. The seed of a run chooses when the flows after
the first start, within the longest RTT.

1. The kernel runs its own bbr, cubic and reno, the twin ours. A cell is a figure of a scenario: each flow's share of
   the goodput, utilisation, queueing delay and retransmissions. It is inside if the means differ by no more than the
   larger of 5 % and the range of the kernel's own runs.
2. Our bbr in BPF and the kernel's beside each other on one link.
3. Two flows of each variant, by score, in both worlds.

With --learned, which names a run folder of `bbrgym train agent=portfolio`, it makes another section and leaves the rest
of the file as it is: the order of variants, a best fixed setting and the portfolio on draws of wan_mix.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernel_learned
import numpy as np

import bbrgym
from bbrgym.runs.atomic_files import write_text
from bbrgym.worlds import LateRunError
from bbrgym.worlds.score import score_of_run
from bbrgym.worlds.specs import MAX_LATE_SHARE

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "runs" / "kernel"
RUNS_BY = ("cc", "linux", "src/bbrgym/scenario", "src/bbrgym/worlds", "src/native", "tcp", "twin", "world")
"""Folders of the code that a run depends on."""

KERNEL = "kernel-"
TOLERANCE = 0.05
BESIDE_RETRANSMISSIONS = 0.2
ATTEMPTS = 2  # at a run of the kernel, before the next scenario has its turn
INTERVAL_S = 1.0

#: Of cells outside, what is known: a pattern of the scenario's name and the figure, and the cause.
CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"^bbr-unequal-isolated (share|retransmit rate)",
        "the receiver's window: Linux's grows by what the application reads, an ample one of the twin never limits. In "
        "5 of 24 runs of the kernel (16 s, 2026-11-25) f1 waits 84 to 120 ms for it while the losses of Startup are "
        "repaired, so it drains the queue whole, has its ProbeRTT 1.4 s after f0's, and f0 a share of 0.196 (standard "
        "deviation 0.010); in the other 19 f0 has 0.159 (0.009), in 30 seeds of the twin 0.158 (0.008). "
        "Retransmissions: 7 to 16 packets in 4 of the 30 seeds, none in the 24 runs, which may be chance (p = 0.12)",
    ),
    (
        r"^bbr-loss p95 queueing delay",
        "chance, with three runs of the kernel: eight, and 30 seeds of the twin, have means of 20.5 and 20.8 ms",
    ),
    (
        r"^bbr-unequal (mean queueing delay|p95 queueing delay|retransmit rate)",
        "chance, with three runs of the kernel: eight (`--runs 8 --seeds 30 --only bbr-unequal`, 2026-11-25) have a "
        "mean delay of 59.2 ms and a p95 of 74.9 (62.0 to 94.1), one of them retransmits; 30 seeds of the twin have "
        "60.1 and 79.7 ms (60.7 to 95.2). ProbeRTT at 10 s draws the phase that f0 goes on with, and what it then "
        "finds while f1 holds back decides whether the queue overflows",
    ),
    (
        r"^bbr-against-cubic (share|retransmit rate)",
        "chance, with three runs of the kernel: eight, and 30 seeds of the twin, are inside (share of f1 0.170 "
        "and 0.168, retransmit rate 0.0061 and 0.0059)",
    ),
    (
        r"^bbr-20 mean queueing delay",
        "noise in the times of a real host, which lifts BBR's largest bandwidth sample in some runs: 30 seeds of the "
        "twin have 3.88 ms (standard deviation 0.05), with a fifth of the packets 0.1 ms late 4.10, with 0.3 ms 4.58; "
        "three more runs of the kernel have 4.47, 4.39 and 3.82 (2026-11-25), so its own scatter is larger than "
        "this table's",
    ),
    (
        r"^cubic-two share",
        "the phase: the windows agree packet by packet up to the first loss at 2.2 s, which hits the second flow "
        "in the twin and the first in the kernel; with 0.2 to 0.4 ms more RTT, of the 0.6 ms that the link needs "
        "for a packet (the way between socket and emulator adds 0.25 ms for a SYN), the twin's share of f0 is 0.54 "
        "to 0.47",
    ),
    (
        r"^four-mixed share",
        "the phase: in seven of 30 seeds of the twin the flow of 80 ms does not come to lead, in none of nine "
        "runs of the kernel; with 0.1 or 0.4 ms more RTT it leads in all of 20 (share of f1 0.73 both times), "
        "with 0.25 ms, which is near the 0.24 ms of a packet, again not in some",
    ),
    (r"^cubic-(100|steps) retransmit rate", "one packet of the whole run"),
    (
        r"^(cubic|reno)-late-\d+ (mean|p95) queueing delay",
        "a rare state, in which the flow fills the link and its queue: a few of 30 seeds of the twin have it, and make "
        "their mean; of six runs of the kernel none had it in these scenarios",
    ),
    (
        r"^bbr-outage-5 retransmit rate",
        "chance: where the outage ends while BBR paces at 1.25 times its bandwidth, the pacing timer retransmits each "
        "segment ahead of its ACK, in the kernel too (bbr-outage-0.5, -1 and -3); none of its three runs met that here",
    ),
)

Mapping = dict[str, Any]
Figures = dict[str, float]


@dataclass(frozen=True)
class Setup:
    """A scenario to run.

    Attributes:
        name: of the row.
        rate_mbps: of the link.
        flows: of the scenario; each has a ``cc`` and ``rtt_ms``. The twin runs ours in place of the kernel's.
        queue_bdp: size of the queue.
        link: other fields of the link.
        gso_max_segs: the most segments in a burst. Default: Linux's own.
        timestamps: whether the flows use TCP's timestamps.
        outage_s: time without service; it begins within half a second of three tenths of the run, as the seed chooses.
    """

    name: str
    rate_mbps: float
    flows: tuple[Mapping, ...]
    queue_bdp: float = 1.0
    link: tuple[tuple[str, Any], ...] = ()
    gso_max_segs: int | None = None
    timestamps: bool = False
    outage_s: float = 0.0

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

    def besides(self) -> Iterator[str]:
        """Yield in words what the link and the senders have besides rate, queue and flows."""
        more = dict(self.link)
        if "loss" in more:
            yield f"{more['loss']['rate']:.0%} random loss"
        if "changes" in more:
            steps = (f"{one['rate_mbps']:g} Mbit/s from {one['at_s']:.0%} of the run on" for one in more["changes"])
            yield ", ".join(steps)
        if "jitter" in more:
            yield f"{more['jitter']['share']:.0%} of the packets {more['jitter']['delay_ms']:g} ms late, and overtaken"
        if self.outage_s > 0:
            yield f"no service for {self.outage_s:g} s"
        if self.timestamps:
            yield "timestamps"
        if self.gso_max_segs is not None:
            yield f"bursts of at most {self.gso_max_segs} segment"

    def options(self, world: str) -> Mapping:  # noqa: ARG002 - of others
        """Return the world's own options."""
        return {}

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


def loss(rate: float) -> tuple[tuple[str, Any], ...]:
    """Return a link's random loss."""
    return (("loss", {"kind": "bernoulli", "rate": rate}),)


def late(delay_ms: float) -> tuple[tuple[str, Any], ...]:
    """Return a link that lets a twentieth of the packets be late, and overtaken."""
    return (("jitter", {"share": 0.05, "delay_ms": delay_ms, "reorder": True}),)


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
    steps = [{"at_s": share, "rate_mbps": rate} for share, rate in ((0.25, 10.0), (0.5, 30.0), (0.75, 20.0))]
    yield Setup("bbr-steps", 20.0, (flow(bbr),), link=(("changes", steps),))
    yield Setup("cubic-steps", 20.0, (flow(cubic),), link=(("changes", steps),))
    yield Setup("bbr-isolated", 20.0, (flow(bbr),), gso_max_segs=1)
    yield Setup("bbr-unequal-isolated", 20.0, (flow(bbr, 10.0), flow(bbr, 50.0)), queue_bdp=2.0, gso_max_segs=1)
    yield Setup("bbr-against-cubic", 20.0, (flow(bbr), flow(cubic)))
    yield Setup("four-mixed", 50.0, (flow(bbr), flow(bbr, 80.0), flow(cubic), flow("kernel-reno")))
    slow = {"kind": "cbr", "rate_mbps": 2.0}
    yield Setup("bbr-application", 20.0, (flow(bbr, app=slow), flow(bbr)))
    bursts = {"kind": "onoff", "rate_mbps": 8.0, "on_s": 0.5, "off_s": 0.5}
    yield Setup("cubic-tails", 10.0, (flow(cubic, app=bursts),), link=loss(0.02))


def besides() -> Iterator[Setup]:
    """Yield the links that our bbr and the kernel's share; each comes first in one of them."""
    for queue, queue_bdp in (("", 1.0), ("-shallow", 0.5)):
        for first, second in (("bbr", "kernel-bbr"), ("kernel-bbr", "bbr")):
            yield Setup(f"{first}-beside-{second}{queue}", 20.0, (flow(first), flow(second)), queue_bdp=queue_bdp)


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
    """Runs of one commit and duration, kept on disk.

    Attributes:
        folder: of these runs.
        commit: of a run that is made now.
        seconds: of each run.
    """

    folder: Path
    commit: str
    seconds: float

    def find(self, setup: Setup, world: str, seed: int) -> Mapping | None:
        """Return a kept run; None if there is none of this scenario as it is now."""
        path = self._path(setup, world, seed)
        if not path.exists():
            return None
        kept: Mapping = json.loads(path.read_text(encoding="utf-8"))
        return kept if kept["scenario"] == setup.mapping(self.seconds, world, seed) else None

    def make(self, setup: Setup, world: str, seed: int) -> Mapping:
        """Return a kept run, or run and keep it.

        Raises:
            LateRunError: the run was refused.
        """
        kept = self.find(setup, world, seed)
        if kept is None:
            scenario = setup.mapping(self.seconds, world, seed)
            kept = {
                "commit": self.commit,
                "scenario": scenario,
                **outcome_of(world, scenario, seed, setup.options(world)),
            }
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


def outcome_of(world: str, scenario: Mapping, seed: int, options: Mapping | None = None) -> Mapping:
    """Run a scenario and return its summaries and score."""
    with bbrgym.make_world(world, scenario, seed=seed, options=options) as run:
        while not run.done:
            run.advance(INTERVAL_S)
        flow_rows, link_row = run.summary()
        flows = [dict(zip(run.flow_summary_fields, map(float, row), strict=True)) for row in flow_rows]
        link = dict(zip(run.link_summary_fields, map(float, link_row), strict=True))
        score = score_of_run(run.scenario, run.flow_summary_fields, flow_rows)
    return {"flows": flows, "link": link, "score": score}


def figures_of(run: Mapping) -> Figures:
    """Return the cells of a run."""
    flows, link = run["flows"], run["link"]
    shares = {f"share of f{i}": one["share"] for i, one in enumerate(flows)} if len(flows) > 1 else {}
    return {
        **shares,
        "goodput, Mbit/s": sum(one["goodput_mbps"] for one in flows),
        "utilisation": link["utilisation"],
        "mean queueing delay, ms": link["queue_delay_mean_ms"],
        "p95 queueing delay, ms": link["queue_delay_p95_ms"],
        "retransmit rate": sum(one["retransmitted_pkts"] for one in flows) / sum(one["sent_pkts"] for one in flows),
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


# ---- the page ------------------------------------------------------------------------------------------------


def shown(values: np.ndarray) -> str:
    """Return a mean and the range."""
    return f"{values.mean():.4g} ({values.min():.4g} to {values.max():.4g})"


@dataclass(frozen=True)
class Comparison:
    """A figure of a scenario in both worlds: a value for each run.

    Attributes:
        setup: name of the scenario.
        figure: name of the figure.
        kernel: [runs].
        twin: [seeds].
    """

    setup: str
    figure: str
    kernel: np.ndarray
    twin: np.ndarray

    @property
    def is_inside(self) -> bool:
        """Return whether the twin's mean is near enough to the kernel's."""
        allowed = max(TOLERANCE * abs(self.kernel.mean()), np.ptp(self.kernel))
        return bool(abs(self.twin.mean() - self.kernel.mean()) <= allowed)

    @property
    def cause(self) -> str:
        """Return why it is outside, as far as known."""
        name = f"{self.setup} {self.figure}"
        return next((cause for pattern, cause in CAUSES if re.search(pattern, name)), "not found")

    def row(self) -> str:
        """Return its row of the table."""
        verdict = "yes" if self.is_inside else "**no**"
        return f"| {self.setup} | {self.figure} | {shown(self.kernel)} | {shown(self.twin)} | {verdict} |"


def cells(runs: Runs, setup: Setup, arguments: argparse.Namespace) -> Iterator[Comparison]:
    """Yield the cells of a scenario."""
    kernel = [figures_of(run) for run in runs.of(setup, "linux", arguments.runs)]
    twin = [figures_of(run) for run in runs.of(setup, "twin", arguments.seeds)]
    for name in kernel[0]:
        yield Comparison(setup.name, name, *(np.array([run[name] for run in made]) for made in (kernel, twin)))


def verdict(found: list[Comparison], scenarios: int) -> str:
    """Return what the cells add up to."""
    inside = sum(cell.is_inside for cell in found)
    return (
        f"In {inside} of {len(found)} cells ({inside / len(found):.0%}), each a figure of one of {scenarios} "
        f"scenarios, the twin's mean differs\nfrom the kernel's by no more than the larger of {TOLERANCE:.0%} and the "
        f"range of the kernel's own runs."
    )


def setup_lines(asked: list[Setup]) -> list[str]:
    """Return the table of the scenarios: link and flows."""
    return [
        "Queues are in BDP of the link's rate and the longest RTT. A flow is one of the kernel's congestion controls",
        "and its RTT; f0 is the first flow of a scenario, f1 the second. In the twin ours run in their place.",
        "",
        "| scenario | Mbit/s | queue, BDP | flows: f0, f1, ... | besides |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {setup.name} | {setup.rate_mbps:g} | {setup.queue_bdp:g} | "
            f"{', '.join(flow_text(one) for one in setup.flows)} | {'; '.join(setup.besides())} |"
            for setup in asked
        ),
    ]


def flow_text(spec: Mapping) -> str:
    """Return a flow in words."""
    app = spec.get("app")
    text = f"{spec['cc'].removeprefix(KERNEL)} {spec['rtt_ms']:g} ms"
    if app is None:
        return text
    pauses = f" for {app['on_s']:g} s of {app['on_s'] + app['off_s']:g} s" if "on_s" in app else ""
    return f"{text} with {app['rate_mbps']:g} Mbit/s to send{pauses}"


def twin_lines(found: list[Comparison]) -> list[str]:
    """Return the cells outside with their causes, and the table of all."""
    outside = [cell for cell in found if not cell.is_inside]
    names = dict.fromkeys(cell.cause for cell in outside)
    causes = {cause: [cell for cell in outside if cell.cause == cause] for cause in names}
    return [
        "Means, and in brackets the range of the runs. A cell whose means differ by no more than said above is inside.",
        "",
        "| outside, cells | | cause |",
        "| --- | --- | --- |",
        *(
            f"| {len(those)} | {'; '.join(f'{cell.setup}: {cell.figure}' for cell in those)} | {cause} |"
            for cause, those in sorted(causes.items(), key=lambda item: -len(item[1]))
        ),
        "",
        "| scenario | figure | kernel | twin | inside |",
        "| --- | --- | --- | --- | --- |",
        *(cell.row() for cell in found),
    ]


def beside_lines(runs: Runs, asked: list[Setup], count: int) -> list[str]:
    """Return the table of our bbr beside the kernel's: a row for each queue, over both orders."""
    lines = [
        f"Two flows of 40 ms on 20 Mbit/s. Expected: shares within {TOLERANCE:.0%}, retransmissions within "
        f"{BESIDE_RETRANSMISSIONS:.0%}.",
        "",
        "| queue, BDP | runs | ours, Mbit/s | the kernel's, Mbit/s | ours / the kernel's | retransmitted, ours | the "
        "kernel's | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for queue_bdp in sorted({setup.queue_bdp for setup in asked}, reverse=True):
        pairs = [
            {spec["cc"]: flow for spec, flow in zip(setup.flows, run["flows"], strict=True)}
            for setup in asked
            if setup.queue_bdp == queue_bdp
            for run in runs.of(setup, "linux", count)
        ]
        goodput = {cc: np.array([pair[cc]["goodput_mbps"] for pair in pairs]) for cc in ("bbr", "kernel-bbr")}
        again = {cc: sum(pair[cc]["retransmitted_pkts"] for pair in pairs) for cc in ("bbr", "kernel-bbr")}
        ratio = goodput["bbr"].mean() / goodput["kernel-bbr"].mean()
        again_ratio = f"{again['bbr'] / again['kernel-bbr']:.3f}" if again["kernel-bbr"] else "none"
        lines.append(
            f"| {queue_bdp:g} | {len(pairs)} | {shown(goodput['bbr'])} | {shown(goodput['kernel-bbr'])} | {ratio:.3f} "
            f"| {again['bbr']:.0f} | {again['kernel-bbr']:.0f} | {again_ratio} |"
        )
    return lines


def order_lines(runs: Runs, asked: list[Setup], arguments: argparse.Namespace) -> list[str]:
    """Return the table of the variants by their score in the kernel."""
    scores = {
        setup.flows[0]["cc"]: [
            np.array([run["score"] for run in runs.of(setup, world, count)])
            for world, count in (("linux", arguments.runs), ("twin", arguments.seeds))
        ]
        for setup in asked
    }
    places = [sorted(scores, key=lambda cc: -scores[cc][world].mean()) for world in (0, 1)]
    return [
        "Two flows of one variant, 10 and 50 ms, 20 Mbit/s, two BDP of queue; in the twin `bbr` and `cubic` stand for",
        "the kernel's.",
        "",
        "| variant | score, kernel | score, twin | place, kernel | place, twin |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {cc} | {shown(scores[cc][0])} | {shown(scores[cc][1])} | {places[0].index(cc) + 1} | "
            f"{places[1].index(cc) + 1} |"
            for cc in places[0]
        ),
    ]


def page(runs: Runs, asked: list[list[Setup]], arguments: argparse.Namespace) -> str:
    """Return the page, of the scenarios that have runs."""
    parts = [[setup for setup in part if runs.of(setup, "linux", arguments.runs)] for part in asked]
    missing = [
        f"{setup.name} ({len(runs.of(setup, 'linux', arguments.runs))} of {arguments.runs})"
        for part in asked
        for setup in part
        if len(runs.of(setup, "linux", arguments.runs)) < arguments.runs
    ]
    commits = [
        ", ".join(
            sorted(
                {run["commit"] for part in asked for setup in part for run in runs.of(setup, world, arguments.seeds)}
            )
        )
        for world in ("linux", "twin")
    ]
    command = f"python benchmarks/kernel.py --runs {arguments.runs} --seeds {arguments.seeds}"
    found = [cell for setup in parts[0] for cell in cells(runs, setup, arguments)]
    lines = [
        "# The twin against the kernel",
        "",
        *([verdict(found, len(parts[0])), ""] if found else []),
        f"{machine_now()}: `{command} --seconds {arguments.seconds:g}`.",
        f"The kernel's runs are those of commit {commits[0]}, the twin's of {commits[1]}.",
        f"Each run lasts {arguments.seconds:g} s, of which the last three quarters are measured.",
        "The flows after the first start within the longest RTT of it, at times that the run's seed chooses.",
        f"A run of the kernel is accepted if at most {MAX_LATE_SHARE:.1%} of its packets are more than 1 ms late.",
        *([f"Runs that are missing: {', '.join(missing)}."] if missing else []),
    ]
    if found:
        lines += ["", "## Scenarios", "", *setup_lines(parts[0])]
        lines += ["", "## Cells", "", *twin_lines(found)]
    if parts[1]:
        lines += ["", "## Ours beside the kernel's", "", *beside_lines(runs, parts[1], arguments.runs)]
    if parts[2]:
        lines += ["", "## The order of the variants", "", *order_lines(runs, parts[2], arguments)]
    return "\n".join(lines) + "\n"


def compare_learned(arguments: argparse.Namespace, commit: str) -> None:
    """Run what is missing of the draws and print or write their section."""
    kept = arguments.kept / f"{commit}-{arguments.learned.name}"
    plan = kernel_learned.Plan(arguments.learned, kept, arguments.draws, arguments.seeds)
    kernel_learned.run(plan, time.monotonic() + 60 * arguments.minutes)
    command = f"python benchmarks/kernel.py --learned RUN --draws {arguments.draws} --seeds {arguments.seeds}"
    section = kernel_learned.lines(plan, command, {"machine": machine_now(), "commit": commit})
    write(section, kernel_learned.HEADING, arguments.output)


def machine_now() -> str:
    """Return the kernel, the number of cores and the date."""
    linux = f"Linux {platform.release().partition('-')[0]}"
    return f"{linux} on {os.cpu_count()} cores, {datetime.datetime.now(datetime.UTC).date()}"


def write(lines: list[str], heading: str, output: Path | None) -> None:
    """Print a part of the page, or write it and keep the other part: one begins with the heading, the other before."""
    if output is None:
        print("\n".join(lines))
        return
    before, _, after = (output.read_text(encoding="utf-8") if output.exists() else "").partition(kernel_learned.HEADING)
    learned = lines if heading else [kernel_learned.HEADING + after] if after else []
    rest = before if heading else "\n".join(lines)
    parts = [part.strip() for part in (rest, "\n".join(learned)) if part.strip()]
    write_text(output, "\n\n".join(parts) + "\n")


def main() -> None:
    """Run what is missing and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="accepted runs in the kernel")
    parser.add_argument("--seeds", type=int, default=10, help="of the twin")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no run of the kernel begins later")
    known = [setup.name for part in (setups(), besides(), entrants()) for setup in part]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=known, help="scenarios to run; default: all")
    parser.add_argument("--learned", type=Path, metavar="RUN", help="a trained portfolio, to compare on draws")
    parser.add_argument("--draws", type=int, default=12, help="for --learned")
    parser.add_argument("--kept", type=Path, default=KEPT, help=f"folder of the runs; default: {KEPT}")
    parser.add_argument("--output", type=Path, help="file to write; default: print")
    arguments = parser.parse_args()
    if arguments.only is not None and arguments.output is not None:
        parser.error("--output is given with --only, expected a page of all scenarios, or no --output")
    commit = tested_commit()
    if arguments.learned is not None:
        compare_learned(arguments, commit)
        return
    runs = Runs(arguments.kept / f"{commit}-{arguments.seconds:g}s", commit, arguments.seconds)
    asked = [
        [setup for setup in part if arguments.only is None or setup.name in arguments.only]
        for part in (setups(), besides(), entrants())
    ]
    until_s = time.monotonic() + 60 * arguments.minutes
    run_kernel(runs, [setup for part in asked for setup in part], arguments.runs, until_s)
    for setup in (*asked[0], *asked[2]):
        for seed in range(1, arguments.seeds + 1):
            runs.make(setup, "twin", seed)
    write(page(runs, asked, arguments).splitlines(), "", arguments.output)


if __name__ == "__main__":
    main()
