# SPDX-License-Identifier: GPL-2.0-only
"""Measure congestion controls of QUIC stacks beside ours in the twin, on the same scenarios.

usage: python benchmarks/quic.py [--only reno aioquic-cubic ...] [--seeds 3] [--seconds 60] [--write PAGE]

Prints command and date, then a Markdown table. A sender that is not there is left out, which it says.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from report import command, publish

import bbrgym
from bbrgym.quic import STACKS

OURS = ("reno", "cubic", "bbr", "bbr2", "bbr3")
SENDERS = (*(f"{name}-{cc}" for name, stack in STACKS.items() for cc in stack.controls), *OURS)
RTT_MS, RATE_MBPS = 40.0, 10.0


def columns() -> dict[str, list[tuple[dict[str, Any], bool]]]:
    """Return the scenarios of each column: what differs in the link, and whether CUBIC is there, too."""
    return {
        "0, 1, 2, 5 % loss": [(_loss(loss / 100), False) for loss in (0, 1, 2, 5)],
        "beside CUBIC, 1, 2, 4, 8 BDP": [({"queue": {"size_bdp": bdp}}, True) for bdp in (1, 2, 4, 8)],
    }


def _loss(rate: float) -> dict[str, Any]:
    return {"loss": {"kind": "bernoulli", "rate": rate}} if rate else {}


def scenario(sender: str, seconds: float, column: str, index: int, seed: int) -> dict[str, Any]:
    link, has_rival = columns()[column][index]
    stack, _, cc = sender.rpartition("-")
    flow = {"name": "flow", "cc": cc, "rtt_ms": RTT_MS, **({"quic": stack} if stack else {})}
    # not the same RTT: packets in lockstep at a drop-tail queue decide whose are dropped (phase effects)
    rival = {"name": "cubic", "cc": "cubic", "rtt_ms": RTT_MS + 3 * (seed % 3 - 1) + 1}
    link = {"rate_mbps": RATE_MBPS, "delay_ms": 10.0, "queue": {"size_bdp": 1.0}, **link}
    return {"name": "quic", "duration_s": seconds, "link": link, "flows": [flow, rival] if has_rival else [flow]}


def measure(job: tuple[str, str, int, int, float]) -> float | str:
    """Return the goodput in Mbit/s; or why the sender is not there."""
    sender, column, index, seed, seconds = job
    try:
        with bbrgym.make_world("twin", scenario(sender, seconds, column, index, seed), seed=seed) as world:
            world.advance(seconds)
            flows, _ = world.summary()
    except bbrgym.ScenarioError:
        raise
    except (bbrgym.ConfigError, ModuleNotFoundError) as error:  # of missing packages
        return str(error)
    return float(flows[0, world.flow_summary_fields.index("goodput_mbps")])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="SENDER", default=SENDERS, choices=SENDERS)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each cell (default: 3)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a run (default: 60)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default: 2)")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args(arguments)
    section = "\n".join([f"`{command()}`, {datetime.date.today().isoformat()}", "", *table(options)])
    publish(options.write, "quic", section, "steady lossy / reno cubic bbr bbr2 bbr3")
    return 0


def table(options: argparse.Namespace) -> Iterator[str]:
    cells = {column: range(len(rows)) for column, rows in columns().items()}
    seeds = range(1, options.seeds + 1)
    where = [(column, index, seed) for column, indices in cells.items() for index in indices for seed in seeds]
    jobs = [(sender, *one, options.seconds) for sender in options.only for one in where]
    with ProcessPoolExecutor(options.jobs) as pool:
        measured = dict(zip(jobs, pool.map(measure, jobs), strict=True))
    yield f"| goodput, Mbit/s | {' | '.join(cells)} |"
    yield f"| --- |{' --- |' * len(cells)}"
    for sender in options.only:
        runs = {job[1:4]: found for job, found in measured.items() if job[0] == sender}
        if missing := [found for found in runs.values() if isinstance(found, str)]:
            yield f"| {sender} | {missing[0]} |"
            continue
        texts = [
            "/".join(f"{statistics.fmean(runs[column, index, seed] for seed in seeds):.1f}" for index in indices)
            for column, indices in cells.items()
        ]
        yield f"| {sender} | {' | '.join(texts)} |"


if __name__ == "__main__":
    sys.exit(main())
