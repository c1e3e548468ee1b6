# SPDX-License-Identifier: GPL-2.0-only
"""Hold what `bbrgym path` tells of random networks against the truth, for each kind of log.

usage: python benchmarks/paths.py [--world twin] [--networks 60] [--first-seed 1000] [--jobs 2] [--logs FOLDER]

A network has one link and a bulk flow with bbr, bbr3 or cubic. In a third of them a flow with CUBIC joins, in a sixth
the link's rate changes four times. Logs that are in FOLDER already are read and not made again.

A cell is "right of told of all": of the networks that have the fact, those whose log tells it, and of these those where
it is right: the rate within 5 %, the base RTT within 2 % or 0.5 ms, a buffer that overflowed within 20 %, random loss
within a factor of 2, and whether a competitor takes part of the link. A link in steps has none.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from path_logs import log_kernel, log_simulation
from report import command, measured_on

import bbrgym
from bbrgym.paths.detect import read_log
from bbrgym.paths.fit import FittedValue, fit_path
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario.model import Scenario

CONTROLS = ("bbr", "bbr3", "cubic")
OTHERS = ("nothing", "cubic", "nothing", "cubic", "nothing", "steps")  # beside the flow, of each network in turn
VARIABLES = {"rate_mbps": {"log_uniform": [2, 50]}, "rtt_ms": {"log_uniform": [10, 150]}}
LOSSES = {"choice": [{"kind": "none"}, {"kind": "bernoulli", "rate": {"log_uniform": [0.0005, 0.01]}}]}
SIZE = {"log_uniform": [0.3, 4], "times": ["rate_mbps", "rtt_ms", 125], "low": 15000, "whole": True}
RIVAL = {"name": "rival", "cc": "cubic", "rtt_ms": {"log_uniform": [10, 150]}, "start_s": {"uniform": [0, 4]}}


def network(seed: int, seconds: float) -> tuple[Scenario, str]:
    """Return the scenario of a network, and what is beside the flow: nothing, cubic or steps of the rate."""
    beside = OTHERS[seed % len(OTHERS)]
    flow = {"name": "flow", "rtt_ms": {"value": "rtt_ms"}, "cc": CONTROLS[seed // len(OTHERS) % len(CONTROLS)]}
    link: dict[str, Any] = {
        "rate_mbps": {"value": "rate_mbps"},
        "delay_ms": 1.0,
        "queue": {"size_bytes": SIZE},
        "loss": LOSSES,
    }
    if beside == "steps":
        rate = {"log_uniform": [0.3, 1], "times": "rate_mbps"}
        link["changes"] = [{"at_s": part * seconds, "rate_mbps": rate} for part in (0.2, 0.4, 0.6, 0.8)]
    flows = [flow, *([RIVAL] if beside == "cubic" else [])]
    fields = {"name": "network", "variables": VARIABLES, "duration_s": seconds, "link": link, "flows": flows}
    return bbrgym.load_distribution(fields)(seed), beside


def judged(seed: int, world: str, seconds: float, folder: Path) -> dict[tuple[str, str], bool | None]:
    """Return whether the log of a network is right, by fact and format; None: it does not tell."""
    scenario, beside = network(seed, seconds)
    own = folder / f"{world}-{seconds:g}-{seed}"
    if not own.exists():
        log_run = log_kernel if world == "linux" else partial(log_simulation, world=world)
        with tempfile.TemporaryDirectory(dir=folder) as made:
            log_run(scenario, seed=seed, folder=Path(made))
            Path(made).rename(own)
            Path(made).mkdir()
    logs = sorted(own.glob("a.*"))
    return {(fact, log.suffix[1:]): is_right for log in logs for fact, is_right in facts(log, scenario, beside)}


def facts(log: Path, scenario: Scenario, beside: str) -> Iterator[tuple[str, bool | None]]:
    """Yield each fact that the network has, and whether its log tells it right."""
    fit = fit_path(read_log(log))
    link, rtt_s = scenario.link, scenario.flows[0].rtt_ms / 1e3
    loss = getattr(link.loss, "rate", 0.0)
    if beside != "steps":
        rate = FittedValue() if fit.varies else fit.rate_mbps
        yield "rate", within(rate, link.rate_mbps, 0.05 * link.rate_mbps)
        yield "buffer", within(fit.buffer_bytes, link.queue.size_bytes, 0.2 * link.queue.size_bytes)
    base_rtt_s = fit.base_rtt_s if math.isfinite(fit.base_rtt_s.low) else FittedValue()
    yield "base RTT", within(base_rtt_s, rtt_s, max(0.02 * rtt_s, 0.0005))
    told = fit.random_loss
    if loss > 0:
        yield "random loss", loss / 2 <= told.value <= 2 * loss if told.is_seen else None
    else:
        yield "no random loss", told.low <= 0 if told.is_seen else None
    yield f"beside: {beside}", None if fit.competitor is None else fit.competitor == (beside == "cubic")


def within(fitted: FittedValue, truth: float, most: float) -> bool | None:
    """Return whether a value is near the truth; None: it is not seen."""
    return abs(fitted.value - truth) <= most if fitted.is_seen else None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--world", default="twin", choices=["twin", "ns3", "linux"], help="default: twin")
    parser.add_argument("--networks", type=int, default=60, help="default: 60")
    parser.add_argument("--first-seed", type=int, default=1000, help="of the networks (default: 1000)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each network (default: 20)")
    parser.add_argument("--jobs", type=int, default=2, help="networks at once (default: 2)")
    parser.add_argument("--logs", type=Path, help="folder that keeps the logs (default: none)")
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.networks)
    with tempfile.TemporaryDirectory() as made, ProcessPoolExecutor(options.jobs) as pool:
        folder = options.logs or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        judge = partial(judged, world=options.world, seconds=options.seconds, folder=folder)
        results = list(pool.map(judge, seeds))
    formats = sorted({log for result in results for _, log in result})
    rows = []
    for fact in dict.fromkeys(fact for result in results for fact, _ in result):
        cells = [[result[fact, log] for result in results if (fact, log) in result] for log in formats]
        rows.append([fact, *(f"{cell.count(True)} of {len(cell) - cell.count(None)} of {len(cell)}" for cell in cells)])
    print(f"`{command()}`, {measured_on()}\n\n{markdown_table(['', *formats], rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
