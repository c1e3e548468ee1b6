# SPDX-License-Identifier: GPL-2.0-only
"""Hold the twin's timeouts to the kernel's: paths that are slow, that stall and that become longer than the timer.

    python benchmarks/timeouts.py [--runs 3] [--seeds 10] [--only NAME ...] [--write docs/linux.md]

A run in the kernel is in real time; one that was late is repeated. A figure is the mean of the runs, and their range
where they differ. A retransmission is needless if nothing was lost in its place.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kernel
import numpy as np
from report import command, measured_on, replace_section

from bbrgym.worlds import LateRunError

ATTEMPTS = 5
CONTROLS = ("bbr", "cubic", "reno")

Scenario = dict[str, Any]

SLOW_QUEUE = {"size_packets": 20}
STALL = [{"at_s": 5.0, "rate_mbps": 0.05}, {"at_s": 5.9, "rate_mbps": 10.0}]
JUMPS = [
    {"at_s": begin_s + after_s, "delay_ms": delay_ms}
    for begin_s in range(3, 27, 3)
    for after_s, delay_ms in ((0.5, 800.0), (0.8, 10.0))
]


def path(duration_s: float, rtt_ms: float, link: Scenario) -> Scenario:
    """Return a scenario of one flow, whose control is still to be named."""
    return {
        "duration_s": duration_s,
        "warmup_s": 0.0,
        "link": {"delay_ms": rtt_ms / 4, **link},
        "flows": [{"name": "a", "role": "fixed", "rtt_ms": rtt_ms}],
    }


PATHS: Mapping[str, Scenario] = {
    "64 kbit/s": path(20.0, 10.0, {"rate_mbps": 0.064, "queue": SLOW_QUEUE}),
    "100 kbit/s": path(20.0, 10.0, {"rate_mbps": 0.1, "queue": SLOW_QUEUE}),
    "stall": path(10.0, 40.0, {"rate_mbps": 10.0, "queue": {"size_bdp": 4.0}, "changes": STALL}),
    "jumps": path(28.0, 40.0, {"rate_mbps": 10.0, "queue": {"size_bdp": 2.0}, "changes": JUMPS}),
}

EXPLANATION = """\
One flow: 64 and 100 kbit/s with an RTT of 10 ms and a queue of 20 packets; 10 Mbit/s, 40 ms, whose link has 50 kbit/s
from 5.0 to 5.9 s (stall, a queue of four BDP); and whose path becomes 790 ms longer for 0.3 s, eight times (jumps, two
BDP). Means, with the range of the runs in brackets where they differ.
"""


def main() -> None:
    """Print the table, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="in the kernel")
    parser.add_argument("--seeds", type=int, default=10, help="of the twin")
    parser.add_argument("--only", nargs="+", choices=PATHS, default=list(PATHS))
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    asked = parser.parse_args()
    rows = [line(name, control, asked.runs, asked.seeds) for name in asked.only for control in CONTROLS]
    section = f"{EXPLANATION}`{command()}`, {measured_on()}, Linux {kernel.platform.release()}.\n\n{table(rows)}"
    print(section, end="")
    if asked.write is not None:
        replace_section(asked.write, "timeouts", section)


def line(name: str, control: str, runs: int, seeds: int) -> list[str]:
    """Return the cells of a path and a control."""
    linux = [in_kernel(scenario_of(name, kernel.KERNEL + control), seed) for seed in range(1, runs + 1)]
    twin = [kernel.outcome_of("twin", scenario_of(name, control), seed) for seed in range(1, seeds + 1)]
    pairs = [spread([figure(run) for run in of_world]) for figure in FIGURES.values() for of_world in (linux, twin)]
    return [name, control, *pairs]


def scenario_of(name: str, cc: str) -> Scenario:
    """Return a path's scenario with a control."""
    scenario = PATHS[name]
    return {"name": name.replace("/", "-"), **scenario, "flows": [{**scenario["flows"][0], "cc": cc}]}


def in_kernel(scenario: Scenario, seed: int) -> Mapping[str, Any]:
    """Run a scenario in the kernel, again if it was late."""
    for _ in range(ATTEMPTS - 1):
        try:
            return kernel.outcome_of("linux", scenario, seed)
        except LateRunError as error:
            print(f"{scenario['name']}, run {seed}: repeated, {error.reason}", file=sys.stderr, flush=True)
    return kernel.outcome_of("linux", scenario, seed)


FIGURES = {
    "goodput, Mbit/s": lambda run: run["flows"][0]["goodput_mbps"],
    "sent again": lambda run: run["flows"][0]["retransmitted_pkts"],
    "needless": lambda run: run["flows"][0]["retransmitted_pkts"] - run["flows"][0]["lost_pkts"],
    "timeouts": lambda run: run["flows"][0]["rto_count"],
}


def spread(values: Sequence[float]) -> str:
    """Return the mean, and the range if there is one."""
    mean, low, high = (f"{figure:.3g}" for figure in (np.mean(values), min(values), max(values)))
    return mean if low == high else f"{mean} [{low}, {high}]"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as Markdown."""
    heads = [f"{name}: {world}" for name in FIGURES for world in ("kernel", "twin")]
    lines = [["path", "control", *heads], ["---"] * (len(heads) + 2), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    main()
