# SPDX-License-Identifier: GPL-2.0-only
"""Measure congestion controls of QUIC stacks beside ours in the twin, on the same scenarios.

usage: python benchmarks/quic.py [--kept FILE] [--write PAGE]

Prints command and date, then a Markdown table. A sender that is not there is left out, which it says.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from report import command, publish

import bbrgym
from bbrgym.quic import STACKS

OURS = ("reno", "cubic", "bbr", "bbr2", "bbr3")
SENDERS = (*(f"{name}-{cc}" for name, stack in STACKS.items() for cc in stack.controls), *OURS)
SECONDS, RTT_MS, RATE_MBPS = 30.0, 40.0, 10.0
SEEDS = (1, 2, 3)
#: Scenarios of RFC 9743 whose rate a stack in Python can fill; their checks read what is measured of the path.
CHECKED = ("beside_reno", "bufferbloat", "collapse", "low_rate", "real_time")
CHECKED_SEED = 1

Case = Mapping[str, Any]
#: The scenarios of each column: what the link has, what the flow has, and whether CUBIC is there, too.
COLUMNS: Mapping[str, Sequence[Case]] = {
    "loss 0/1/2/5 %": [{"link": {"loss": {"kind": "bernoulli", "rate": rate}}} for rate in (0, 0.01, 0.02, 0.05)],
    "beside CUBIC, 1/2/4/8 BDP": [{"link": {"queue": {"size_bdp": bdp}}, "rival": True} for bdp in (1, 2, 4, 8)],
    "writes 5/20 for 1 s of 4/RTT 40, then 100 ms": [
        {"flow": {"app": {"kind": "cbr", "rate_mbps": 5.0}}},
        {"flow": {"app": {"kind": "onoff", "rate_mbps": 20.0, "on_s": 1.0, "off_s": 3.0}}},
        {"link": {"changes": [{"at_s": 15.0, "delay_ms": 40.0}]}},
    ],
}


def scenario(sender: str, column: str, index: int, seed: int) -> dict[str, Any]:
    case = COLUMNS[column][index]
    flow = {"name": "flow", "rtt_ms": RTT_MS, **control(sender), **case.get("flow", {})}
    # not the same RTT: packets in lockstep at a drop-tail queue decide whose are dropped (phase effects)
    rival = {"name": "cubic", "cc": "cubic", "rtt_ms": RTT_MS + 3 * (seed % 3 - 1) + 1}
    link = {"rate_mbps": RATE_MBPS, "delay_ms": 10.0, "queue": {"size_bdp": 1.0}, **case.get("link", {})}
    return {"name": "quic", "duration_s": SECONDS, "link": link, "flows": [flow, rival][: 1 + case.get("rival", False)]}


def control(sender: str) -> dict[str, str]:
    """Return the fields of a flow by a sender's name, STACK-CC or one of ours."""
    stack, _, cc = sender.rpartition("-")
    return {"cc": cc, **({"quic": stack} if stack else {})}


def measure(job: tuple[Any, ...]) -> float | str:
    """Return the goodput in Mbit/s, or the names of scenarios of RFC 9743 that fail; or why the sender is not there."""
    sender, *where = job
    try:
        if not where:
            return "/".join(name for name in CHECKED if not passes(sender, name)) or "none"
        return run(scenario(sender, *where), where[-1])["goodput_mbps"][0]
    except bbrgym.ScenarioError:
        raise
    except (bbrgym.ConfigError, ModuleNotFoundError) as error:  # of missing packages
        return f"! {error}"


def passes(sender: str, name: str) -> bool:
    """Return whether a scenario's checks pass, but for retransmissions, which a stack does not tell."""
    fields = bbrgym.load_scenario(f"rfc9743_{name}").model_dump(mode="json", exclude_unset=True)
    for flow in fields["flows"]:
        if "cc" not in flow:
            flow.update(control(sender), role="background")
    rows = run(fields, CHECKED_SEED)
    checks = bbrgym.load_scenario(fields).checks
    return all(check.holds(check.measured(rows)) for check in checks if check.metric != "retransmit_rate")


def run(fields: Mapping[str, Any], seed: int) -> dict[str, list[Any]]:
    """Return the columns of a run's summary."""
    with bbrgym.make_world("twin", fields, seed=seed) as world:
        world.advance(fields["duration_s"])
        flows, link = world.summary()
        columns = dict(zip(world.link_summary_fields, np.tile(link, (len(flows), 1)).T.tolist(), strict=True))
        columns |= dict(zip(world.flow_summary_fields, flows.T.tolist(), strict=True))
        return {**columns, "flow": list(world.flow_names)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kept", type=Path, default=os.devnull, help="what this code has measured, and will")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args(arguments)
    section = "\n".join([f"`{command()}`, {datetime.date.today().isoformat()}", "", *table(options.kept)])
    publish(options.write, "quic", section, "steady lossy / reno cubic bbr bbr2 bbr3")
    return 0


def table(kept: Path) -> Iterator[str]:
    cells = [
        (column, index, seed) for column, cases in COLUMNS.items() for index in range(len(cases)) for seed in SEEDS
    ]
    jobs = [(sender, *one) for sender in SENDERS for one in [*cells, ()]]
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    measured = {tuple(job): found for job, found in map(json.loads, lines)}
    new = [job for job in jobs if job not in measured]
    with ProcessPoolExecutor(2) as pool, kept.open("a", encoding="utf-8") as file:
        for job, found in zip(new, pool.map(measure, new), strict=True):
            measured[job] = found
            file.write(f"{json.dumps([job, found])}\n")
            file.flush()
    yield f"| Mbit/s | {' | '.join(COLUMNS)} | fails of RFC 9743 |"
    yield f"| --- |{' --- |' * (len(COLUMNS) + 1)}"
    for sender in SENDERS:
        *goodputs, failed = (measured[job] for job in jobs if job[0] == sender)
        if str(failed).startswith("!"):
            yield f"| {sender} | {str(failed)[2:]} |"
            continue
        means = iter(np.reshape(goodputs, (-1, len(SEEDS))).tolist())
        texts = ["/".join(shown(next(means)) for _ in cases) for cases in COLUMNS.values()]
        yield f"| {sender} | {' | '.join(texts)} | {failed} |"


def shown(values: Sequence[float]) -> str:
    """Return the mean of some runs, and half their range where it shows."""
    half = f"{(max(values) - min(values)) / 2:.1f}"
    return f"{statistics.fmean(values):.1f}" + (f"±{half}" if half != "0.0" else "")


if __name__ == "__main__":
    sys.exit(main())
