# SPDX-License-Identifier: GPL-2.0-only
"""Hold the twin to the kernel: the same scenarios in the worlds linux and twin, cell by cell.

    python benchmarks/kernel.py [--runs 3] [--seeds 10] [--seconds 60] [--only NAME ...] [--output docs/kernel.md]

The kernel runs its own bbr, cubic and reno, the twin ours. A run of the kernel that was late is repeated. A cell is a
figure of a scenario: each flow's share of the goodput, utilisation, queueing delay and retransmissions. It is inside if
the means differ by no more than the larger of 5 % and the range of the kernel's own runs.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bbrgym

KERNEL_CONTROLS = {"bbr": "kernel-bbr", "cubic": "kernel-cubic", "reno": "kernel-reno"}
TOLERANCE = 0.05
ATTEMPTS = 5  # at an accepted run of the kernel
INTERVAL_S = 1.0

Mapping = dict[str, Any]
Figures = dict[str, float]


@dataclass(frozen=True)
class Setup:
    """A scenario to compare.

    Attributes:
        name: of the row.
        rate_mbps: of the link.
        flows: of the scenario; each has a ``cc`` of `KERNEL_CONTROLS` and ``rtt_ms``.
        queue_bdp: size of the queue.
        link: other fields of the link.
        gso_max_segs: the most segments in a burst. Default: Linux's own.
    """

    name: str
    rate_mbps: float
    flows: tuple[Mapping, ...]
    queue_bdp: float = 1.0
    link: tuple[tuple[str, Any], ...] = ()
    gso_max_segs: int | None = None

    def mapping(self, seconds: float, *, is_kernel: bool) -> Mapping:
        """Return the scenario for one of the worlds."""
        controls = KERNEL_CONTROLS if is_kernel else {name: name for name in KERNEL_CONTROLS}
        flows = [
            {"name": f"f{i}", **flow, "cc": controls[flow["cc"]], "role": "fixed"} for i, flow in enumerate(self.flows)
        ]
        shortest_ms = min(flow["rtt_ms"] for flow in self.flows)
        link = {"rate_mbps": self.rate_mbps, "delay_ms": shortest_ms / 4, "queue": {"size_bdp": self.queue_bdp}}
        stack = {} if self.gso_max_segs is None else {"gso_max_segs": self.gso_max_segs}
        common = {"name": self.name, "duration_s": seconds, "stack": stack}
        return {**common, "link": link | dict(self.link), "flows": flows}


def flow(cc: str, rtt_ms: float = 40.0, **fields: Any) -> Mapping:
    """Return a flow of a setup."""
    return {"cc": cc, "rtt_ms": rtt_ms, **fields}


def loss(rate: float) -> tuple[tuple[str, Any], ...]:
    """Return a link's random loss."""
    return (("loss", {"kind": "bernoulli", "rate": rate}),)


def setups() -> Iterator[Setup]:
    """Yield the scenarios."""
    for cc in KERNEL_CONTROLS:
        yield Setup(f"{cc}-5", 5.0, (flow(cc),))
        yield Setup(f"{cc}-20", 20.0, (flow(cc),))
        yield Setup(f"{cc}-100", 100.0, (flow(cc),))
        yield Setup(f"{cc}-shallow", 20.0, (flow(cc, 80.0),), queue_bdp=0.5)
        yield Setup(f"{cc}-deep", 10.0, (flow(cc),), queue_bdp=5.0)
        yield Setup(f"{cc}-loss", 10.0, (flow(cc),), link=loss(0.01))
        yield Setup(f"{cc}-two", 20.0, (flow(cc), flow(cc)))
        yield Setup(f"{cc}-unequal", 20.0, (flow(cc, 10.0), flow(cc, 50.0)), queue_bdp=2.0)
    steps = [{"at_s": at_s, "rate_mbps": rate} for at_s, rate in ((15.0, 10.0), (30.0, 30.0), (45.0, 20.0))]
    yield Setup("bbr-steps", 20.0, (flow("bbr"),), link=(("changes", steps),))
    yield Setup("cubic-steps", 20.0, (flow("cubic"),), link=(("changes", steps),))
    yield Setup("bbr-isolated", 20.0, (flow("bbr"),), gso_max_segs=1)
    yield Setup("bbr-unequal-isolated", 20.0, (flow("bbr", 10.0), flow("bbr", 50.0)), queue_bdp=2.0, gso_max_segs=1)
    yield Setup("bbr-against-cubic", 20.0, (flow("bbr"), flow("cubic")))
    yield Setup("four-mixed", 50.0, (flow("bbr"), flow("bbr", 80.0), flow("cubic"), flow("reno")))
    slow = {"kind": "cbr", "rate_mbps": 2.0}
    yield Setup("bbr-application", 20.0, (flow("bbr", app=slow), flow("bbr")))
    bursts = {"kind": "onoff", "rate_mbps": 8.0, "on_s": 0.5, "off_s": 0.5}
    yield Setup("cubic-tails", 10.0, (flow("cubic", app=bursts),), link=loss(0.02))


def figures_of(world: str, mapping: Mapping, seed: int) -> Figures:
    """Run a scenario and return its figures."""
    with bbrgym.make_world(world, mapping, seed=seed) as run:
        while not run.done:
            run.advance(INTERVAL_S)
        flow_rows, link_row = run.summary()
        flows = [dict(zip(run.flow_summary_fields, row, strict=True)) for row in flow_rows]
        link = dict(zip(run.link_summary_fields, link_row, strict=True))
    sent = sum(one["sent_pkts"] for one in flows)
    shares = {f"share of f{i}": one["share"] for i, one in enumerate(flows)} if len(flows) > 1 else {}
    return {
        **shares,
        "goodput, Mbit/s": sum(one["goodput_mbps"] for one in flows),
        "utilisation": link["utilisation"],
        "mean queueing delay, ms": link["queue_delay_mean_ms"],
        "p95 queueing delay, ms": link["queue_delay_p95_ms"],
        "retransmit rate": sum(one["retransmitted_pkts"] for one in flows) / sent,
    }


def kernel_runs(setup: Setup, seconds: float, runs: int) -> list[Figures]:
    """Return the figures of accepted runs in the kernel.

    Raises:
        WorldError: too many runs in a row were refused.
    """
    accepted: list[Figures] = []
    refused = 0
    while len(accepted) < runs:
        seed = 1 + len(accepted)
        try:
            accepted.append(figures_of("linux", setup.mapping(seconds, is_kernel=True), seed))
        except bbrgym.WorldError as error:
            refused += 1
            print(f"  {setup.name}: repeated, {error.reason}", flush=True)
            if refused == ATTEMPTS:
                raise
    return accepted


def is_inside(kernel: np.ndarray, twin: np.ndarray) -> bool:
    """Return whether the twin's mean is near enough to the kernel's."""
    allowed = max(TOLERANCE * abs(kernel.mean()), np.ptp(kernel))
    return bool(abs(twin.mean() - kernel.mean()) <= allowed)


def compare(setup: Setup, arguments: argparse.Namespace) -> Iterator[tuple[str, bool]]:
    """Yield the row of each cell, and whether it is inside."""
    kernel = kernel_runs(setup, arguments.seconds, arguments.runs)
    mapping = setup.mapping(arguments.seconds, is_kernel=False)
    twin = [figures_of("twin", mapping, seed) for seed in range(1, arguments.seeds + 1)]
    for name in kernel[0]:
        ours, theirs = np.array([run[name] for run in twin]), np.array([run[name] for run in kernel])
        inside = is_inside(theirs, ours)
        verdict = "yes" if inside else "**no**"
        yield f"| {setup.name} | {name} | {shown(theirs)} | {shown(ours)} | {verdict} |", inside


def shown(values: np.ndarray) -> str:
    """Return a mean and the range."""
    return f"{values.mean():.4g} ({values.min():.4g} to {values.max():.4g})"


def page(rows: list[str], inside: int, arguments: argparse.Namespace) -> str:
    """Return the page."""
    command = f"python benchmarks/kernel.py --runs {arguments.runs} --seeds {arguments.seeds}"
    machine = f"Linux {platform.release()} on {os.cpu_count()} cores, {datetime.datetime.now(datetime.UTC).date()}"
    lines = (
        "# The twin against the kernel",
        "",
        f"{machine}: `{command} --seconds {arguments.seconds:g}`.",
        "Means, and in brackets the range of the runs. A cell is inside if the means differ by no more than the larger",
        f"of {TOLERANCE:.0%} and the range of the kernel's own runs.",
        "",
        f"{inside} of {len(rows)} cells are inside ({inside / len(rows):.0%}).",
        "",
        "| scenario | figure | kernel | twin | inside |",
        "| --- | --- | --- | --- | --- |",
    )
    return "\n".join((*lines, *rows)) + "\n"


def main() -> None:
    """Compare and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="accepted runs in the kernel")
    parser.add_argument("--seeds", type=int, default=10, help="of the twin")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run; capacity steps end at 45")
    parser.add_argument("--only", nargs="*", help="names of scenarios; default: all")
    parser.add_argument("--output", type=Path, help="file to write; default: print")
    arguments = parser.parse_args()
    cells: list[tuple[str, bool]] = []
    for setup in setups():
        if arguments.only is None or setup.name in arguments.only:
            print(setup.name, flush=True)
            cells += compare(setup, arguments)
    text = page([row for row, _ in cells], sum(inside for _, inside in cells), arguments)
    if arguments.output is None:
        print(text)
    else:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
