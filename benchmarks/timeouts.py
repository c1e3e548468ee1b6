# SPDX-License-Identifier: GPL-2.0-only
"""Hold the twin's timeouts to the kernel's: paths that are slow, that stall and that become longer than the timer.

    python benchmarks/timeouts.py [--runs 3] [--seeds 10] [--minutes 30] [--only NAME ...] [--write docs/linux.md]

It can be made in pieces, as benchmarks/kernel.py, which makes the runs. A figure is the mean of the runs, and their
range where they differ. A retransmission is needless if nothing was lost in its place.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kernel
import numpy as np
from report import command, measured_on, replace_section

from bbrgym.report.markdown import markdown_table

SECONDS = 28.0
CONTROLS = ("bbr", "cubic", "reno")
SLOW_MBPS = 1.0
SLOW_LATE_SHARE = 0.05

SLOW_QUEUE = {"size_packets": 20}
STALL = [{"at_s": 5.0, "rate_mbps": 0.05}, {"at_s": 5.9, "rate_mbps": 10.0}]
JUMPS = [
    {"at_s": begin_s + after_s, "delay_ms": delay_ms}
    for begin_s in range(3, 27, 3)
    for after_s, delay_ms in ((0.5, 800.0), (0.8, 10.0))
]

EXPLANATION = """\
One flow for 28 s. slow-64 and slow-100: 64 and 100 kbit/s, 10 ms, a queue of 20 packets; a packet takes 186 and 119 ms,
so up to 5 % of them may be more than 1 ms late. stall: 10 Mbit/s, 40 ms, four BDP of queue, and 50 kbit/s from 5.0 to
5.9 s. jumps: 10 Mbit/s, 40 ms, two BDP, and a path that is 790 ms longer for 0.3 s, eight times. Means, in brackets the
range of the runs.
"""


@dataclass(frozen=True)
class SinglePath(kernel.Setup):
    """A scenario of one flow that is measured from its beginning."""

    def mapping(self, seconds: float, world: str, seed: int) -> dict[str, Any]:
        """Return the scenario for one of the worlds."""
        return {**super().mapping(seconds, world, seed), "warmup_s": 0.0}

    def options(self, world: str) -> dict[str, Any]:
        """Return the world's own options."""
        return {"max_late_share": SLOW_LATE_SHARE} if world == "linux" and self.rate_mbps < SLOW_MBPS else {}


def paths() -> list[SinglePath]:
    """Return the paths, each with every control."""

    def changing(changes: Sequence[Mapping[str, float]]) -> tuple[tuple[str, Any], ...]:
        return (("changes", [{**one, "at_s": one["at_s"] / SECONDS} for one in changes]),)

    kinds: dict[str, dict[str, Any]] = {
        "slow-64": {"rate_mbps": 0.064, "link": (("queue", SLOW_QUEUE),)},
        "slow-100": {"rate_mbps": 0.1, "link": (("queue", SLOW_QUEUE),)},
        "stall": {"rate_mbps": 10.0, "queue_bdp": 4.0, "link": changing(STALL)},
        "jumps": {"rate_mbps": 10.0, "queue_bdp": 2.0, "link": changing(JUMPS)},
    }
    return [
        SinglePath(
            name=f"{name}-{control}",
            flows=({"cc": kernel.KERNEL + control, "rtt_ms": 10.0 if name.startswith("slow") else 40.0},),
            **kind,
        )
        for (name, kind), control in itertools.product(kinds.items(), CONTROLS)
    ]


def main() -> None:
    """Run what is missing, print the table, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="accepted runs in the kernel")
    parser.add_argument("--seeds", type=int, default=10, help="of the twin")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no run of the kernel begins later")
    known = [one.name for one in paths()]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=known, help="rows; default: all")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    asked = parser.parse_args()
    commit = kernel.tested_commit()
    runs = kernel.Runs(kernel.KEPT / f"{commit}-timeouts", commit, SECONDS)
    setups = [one for one in paths() if asked.only is None or one.name in asked.only]
    kernel.run_kernel(runs, setups, asked.runs, time.monotonic() + 60 * asked.minutes)
    for setup, seed in itertools.product(setups, range(1, asked.seeds + 1)):
        runs.make(setup, "twin", seed)
    rows = [cells(runs, setup, asked.runs, asked.seeds) for setup in setups]
    heading = f"`{command()}`, {measured_on()}, Linux {platform.release()}."
    section = f"{EXPLANATION}{heading}\n\n{markdown_table(HEADINGS, rows)}\n"
    print(section, end="")
    if asked.write is not None:
        replace_section(asked.write, "timeouts", section)


FIGURES: Mapping[str, Callable[[Mapping[str, float]], float]] = {
    "goodput, Mbit/s": lambda flow: flow["goodput_mbps"],
    "sent again": lambda flow: flow["retransmitted_pkts"],
    "needless": lambda flow: flow["retransmitted_pkts"] - flow["dropped_pkts"],
    "timeouts": lambda flow: flow["rto_count"],
}
HEADINGS = ["row", "runs", *(f"{name}: {world}" for name in FIGURES for world in ("kernel", "twin"))]


def cells(runs: kernel.Runs, setup: SinglePath, of_kernel: int, of_twin: int) -> list[str]:
    """Return a row of the table."""
    worlds = [runs.of(setup, "linux", of_kernel), runs.of(setup, "twin", of_twin)]
    figures = [spread([figure(run["flows"][0]) for run in found]) for figure in FIGURES.values() for found in worlds]
    return [setup.name, str(len(worlds[0])), *figures]


def spread(values: Sequence[float]) -> str:
    """Return the mean, and the range if there is one."""
    if not values:
        return "late"
    mean, low, high = (f"{figure:.3g}" for figure in (np.mean(values), min(values), max(values)))
    return mean if low == high else f"{mean} [{low}, {high}]"


if __name__ == "__main__":
    main()
