# SPDX-License-Identifier: GPL-2.0-only
"""Measure congestion controls of QUIC stacks beside ours in the twin, on the same scenarios.

usage: python benchmarks/quic.py [--only reno aioquic-cubic ...] [--seeds 3] [--seconds 60] [--write PAGE]

Prints command, machine and versions, then a Markdown table. A sender that is not there is left out, which it says.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from report import command, measured_on, publish

import bbrgym
from bbrgym.quic import STACKS

OURS = ("reno", "cubic", "bbr", "bbr2", "bbr3")
SENDERS = (*(f"{name}-{cc}" for name, stack in STACKS.items() for cc in stack.controls), *OURS)
RTT_MS, RATE_MBPS = 40.0, 10.0


def cells(seconds: float) -> dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
    """Return the columns: what differs in the link and in the flow, and the other flows."""
    rival = [{"name": "cubic", "cc": "cubic", "rtt_ms": RTT_MS}]
    burst = {"kind": "onoff", "rate_mbps": 8.0, "on_s": seconds / 12, "off_s": seconds / 12}
    jump = [{"at_s": seconds / 2, "delay_ms": 30.0}]
    return {
        **{f"{loss} % loss": (_loss(loss / 100), {}, []) for loss in (0, 1, 2, 5)},
        **{f"beside CUBIC, {bdp} BDP": ({"queue": {"size_bdp": bdp}}, {}, rival) for bdp in (1, 2, 4, 8)},
        "application of 4 Mbit/s": ({}, {"app": {"kind": "cbr", "rate_mbps": 4.0}}, []),
        "idle in turns with 8 Mbit/s": ({}, {"app": burst}, []),
        "RTT jumps by 20 ms": ({"changes": jump}, {}, []),
    }


def _loss(rate: float) -> dict[str, Any]:
    return {"loss": {"kind": "bernoulli", "rate": rate}} if rate else {}


def scenario(sender: str, seconds: float, cell: str) -> dict[str, Any]:
    link, own, others = cells(seconds)[cell]
    stack, _, cc = sender.rpartition("-")
    flow = {"name": "flow", "cc": cc, "rtt_ms": RTT_MS, **own, **({"quic": stack} if stack else {})}
    link = {"rate_mbps": RATE_MBPS, "delay_ms": 10.0, "queue": {"size_bdp": 1.0}, **link}
    return {"name": "quic", "duration_s": seconds, "link": link, "flows": [flow, *others]}


def measure(job: tuple[str, str, int, float]) -> Mapping[str, float] | str:
    """Return goodputs in Mbit/s and the mean queueing delay in ms; or why the sender is not there."""
    sender, cell, seed, seconds = job
    try:
        with bbrgym.make_world("twin", scenario(sender, seconds, cell), seed=seed) as world:
            world.advance(seconds)
            flows, _ = world.summary()
    except bbrgym.ScenarioError:
        raise
    except (bbrgym.ConfigError, ModuleNotFoundError) as error:  # of missing packages
        return str(error)
    goodput = world.flow_summary_fields.index("goodput_mbps")
    wait = world.flow_summary_fields.index("queue_delay_mean_ms")
    return {"own": flows[0, goodput], "other": flows[-1, goodput] if len(flows) > 1 else 0.0, "wait": flows[0, wait]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="SENDER", default=SENDERS, choices=SENDERS)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each cell (default: 3)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a run (default: 60)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default: 2)")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args(arguments)
    section = "\n".join([f"`{command()}`, {measured_on()}", "", *table(options)])
    publish(options.write, "quic", section, "steady lossy / reno cubic bbr bbr2 bbr3")
    return 0


def table(options: argparse.Namespace) -> Iterator[str]:
    columns = list(cells(options.seconds))
    seeds = range(1, options.seeds + 1)
    jobs = [(one, cell, seed, options.seconds) for one in options.only for cell in columns for seed in seeds]
    with ProcessPoolExecutor(options.jobs) as pool:
        measured = dict(zip(jobs, pool.map(measure, jobs), strict=True))
    yield f"| sender | {' | '.join(columns)} |"
    yield f"| --- |{' --- |' * len(columns)}"
    for sender in options.only:
        rows = [[measured[sender, cell, seed, options.seconds] for seed in seeds] for cell in columns]
        missing = [row for runs in rows for row in runs if isinstance(row, str)]
        yield f"| {sender} | {missing[0] if missing else ' | '.join(map(_cell, rows))} |"


def _cell(runs: Sequence[Any]) -> str:
    own, other, wait = (statistics.fmean(run[name] for run in runs) for name in ("own", "other", "wait"))
    return f"{own:.1f} : {other:.1f}" if other else f"{own:.1f}, {wait:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
