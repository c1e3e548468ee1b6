# SPDX-License-Identifier: GPL-2.0-only
"""Hold what `bbrgym path` tells of random networks against the truth, for each kind of log and each nuisance.

usage: python benchmarks/paths.py [--networks 2000] [--first-seed 20000] [--jobs 2] [--logs FOLDER] [--world twin]

A network has one link and a bulk flow of BBR v1, BBR v3, CUBIC or Reno; its nuisance is one of `NUISANCES`, in turn.
Logs in FOLDER are read and not made again. Without nuisances (--nuisances none cubic steps) it is what a
user's own transfer gives.

A cell is "intervals that hold the truth, of values told as seen (told, of all)". Facts: the capacity (of a link in
steps none: a rate that is told as seen is wrong), the base RTT, the buffer, the random loss; bounds: those that are
wrong. The last row says whether a competitor is told right.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from path_logs import Watch, log_kernel, log_simulation
from report import command, measured_on

import bbrgym
from bbrgym.errors import ConfigError
from bbrgym.paths.detect import read_log
from bbrgym.paths.fit import FittedValue, PathFit
from bbrgym.paths.mirror import checked_fit
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario.model import Scenario

CONTROLS = ("bbr", "cubic", "bbr3", "reno")
NUISANCES = (
    *("none", "cubic", "bbr", "steps", "longer", "jitter", "app", "window", "bursts", "several"),
    *("tap", "late", "tap late", "twice", "receiver", "receiver late", "cut", "slow"),
)
VARIABLES = {"rate_mbps": {"log_uniform": [0.5, 100]}, "rtt_ms": {"log_uniform": [5, 200]}}
LOSSES = {"choice": [{"kind": "none"}, {"kind": "bernoulli", "rate": {"log_uniform": [0.0003, 0.03]}}]}
SIZE = {"log_uniform": [0.2, 6], "times": ["rate_mbps", "rtt_ms", 125], "low": 8000, "whole": True}
MOST_PACKETS, SHORTEST_S, LONGEST_S = 25_000, 5.0, 20.0  # of a run


def network(seed: int, *nuisances: str) -> tuple[Scenario, Watch]:
    """Return the scenario of a network with nuisances, and how it is watched."""
    draws = np.random.default_rng(seed)
    cc = str(draws.choice(CONTROLS))
    flow: dict[str, Any] = {"name": "flow", "rtt_ms": {"value": "rtt_ms"}, "cc": cc}
    flows = [flow]
    link: dict[str, Any] = {"rate_mbps": {"value": "rate_mbps"}, "delay_ms": 1.0, "queue": {"size_bytes": SIZE}}
    link["loss"] = LOSSES
    intervals = (int(draws.choice([2, 4, 10])), 5, int(draws.choice([2, 4, 10, 20])))
    watch: dict[str, Any] = {"cc": cc, "intervals": intervals}
    changes: list[dict[str, Any]] = []
    for nuisance in nuisances:
        if nuisance in ("cubic", "bbr"):
            rival = {"name": f"rival-{nuisance}", "cc": nuisance, "rtt_ms": {"log_uniform": [10, 150]}}
            flows.append({**rival, "start_s": draws.uniform(0, 3)})
        elif nuisance == "steps":
            rate = {"log_uniform": [0.3, 1], "times": "rate_mbps"}
            changes += [{"at_s": part, "rate_mbps": rate} for part in (0.2, 0.4, 0.6, 0.8)]
        elif nuisance == "longer":
            parts = draws.uniform(0.15, 0.85, draws.integers(1, 4))
            changes += [{"at_s": part, "delay_ms": draws.uniform(1, 80)} for part in parts]
        elif nuisance == "jitter":
            link["jitter"] = {"share": draws.uniform(0.01, 0.3), "delay_ms": draws.uniform(1, 15)}
            link["jitter"]["reorder"] = bool(draws.integers(2))
        elif nuisance == "app":
            flow["app"] = {"kind": "cbr", "rate_mbps": {"log_uniform": [0.2, 0.95], "times": "rate_mbps"}}
            watch["is_paced"] = True
        elif nuisance == "window":
            size = {"log_uniform": [0.3, 3], "times": ["rate_mbps", "rtt_ms", 125], "whole": True, "low": 20000}
            flow["stack"] = {"receive_buffer_bytes": size}
        elif nuisance == "bursts":
            bad = draws.uniform(0.1, 0.5)
            good_to_bad = bad * draws.uniform(0.0003, 0.01)
            link["loss"] = {"kind": "gilbert_elliott", "good_to_bad": good_to_bad, "bad_to_good": bad}
        elif nuisance == "several":
            flow["count"] = watch["flows"] = int(draws.integers(2, 5))
        elif nuisance == "slow":
            watch["intervals"] = (20, 20, 20)
        if "tap" in nuisance:
            watch["share"] = draws.uniform(0.05, 0.95)
        if "late" in nuisance:
            watch["begins"] = draws.uniform(0.2, 0.5)
        watch |= {"twice": {"copies": 2}, "cut": {"snaplen": int(draws.integers(40, 60))}}.get(nuisance, {})
        watch |= {"is_at_receiver": True} if "receiver" in nuisance else {}
    fields = {"name": "network", "variables": VARIABLES, "duration_s": LONGEST_S, "link": link, "flows": flows}
    drawn = bbrgym.load_distribution(fields)(seed)
    packets_s = drawn.link.rate_mbps * 125_000 / 1500
    duration_s = min(max(MOST_PACKETS / packets_s, SHORTEST_S, 60 * drawn.flows[0].rtt_ms / 1e3), LONGEST_S)
    if changes:
        timed = ({**one, "at_s": one["at_s"] * duration_s} for one in changes)
        fields["link"] |= {"changes": sorted(timed, key=lambda one: one["at_s"])}
    scenario = bbrgym.load_distribution({**fields, "duration_s": duration_s})(seed)
    if "share" in watch:
        watch["tap_s"] = watch.pop("share") * scenario.flows[0].rtt_ms / 1e3
    if "begins" in watch:
        watch["begins_s"] = watch.pop("begins") * duration_s
    return scenario, Watch(**watch)


def told(seed: int, world: str, nuisances: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Return what each log of a network tells of each fact, and the truth."""
    nuisance = nuisances[seed % len(nuisances)]
    scenario, watch = network(seed, nuisance)
    own = folder / f"{world}-{nuisance.replace(' ', '-')}-{seed}"
    if not own.exists():
        log_run = log_kernel if world == "linux" else partial(log_simulation, world=world, watch=watch)
        with tempfile.TemporaryDirectory(dir=folder) as made:
            log_run(scenario, seed=seed, folder=Path(made))
            Path(made).rename(own)
            Path(made).mkdir()
    rows = []
    for log in sorted(own.glob("a.*")):
        try:
            fit = checked_fit(read_log(log))
        except ConfigError:
            rows.append({"seed": seed, "format": log.suffix[1:], "nuisance": nuisance, "fact": "refused"})
            continue
        for fact, value, low, high in facts(fit, scenario):
            row = {"seed": seed, "format": log.suffix[1:], "nuisance": nuisance, "fact": fact, "truth": [low, high]}
            rows.append(row | {"seen": value.is_seen, "low": value.low, "high": value.high})
        beside = {"seed": seed, "format": log.suffix[1:], "nuisance": nuisance, "fact": "competitor"}
        rows.append(beside | {"told": fit.competitor, "truth": nuisance in ("cubic", "bbr")})
    return rows


def facts(fit: PathFit, scenario: Scenario) -> Iterator[tuple[str, FittedValue, float, float]]:
    """Yield the name of each fact, what is told of it, and the least and the largest true value."""
    link = scenario.link
    rates = [link.rate_mbps, *(one.rate_mbps for one in link.changes if one.rate_mbps)]
    yield "capacity", FittedValue(low=fit.rate_mbps.low) if fit.varies else fit.rate_mbps, min(rates), max(rates)
    later_ms = [one.delay_ms - link.delay_ms for one in link.changes if one.delay_ms is not None]
    shortest_s = min(scenario.flows[0].rtt_ms + one for one in (0.0, *later_ms)) / 1e3
    yield "base RTT", fit.base_rtt_s, shortest_s, shortest_s
    yield "buffer", fit.buffer_bytes, link.queue.size_bytes, link.queue.size_bytes
    loss = true_loss(scenario)
    yield "random loss", fit.random_loss, loss, loss


def true_loss(scenario: Scenario) -> float:
    """Return the probability of a packet's loss."""
    loss = scenario.link.loss
    if loss.kind == "gilbert_elliott":
        return loss.good_to_bad / (loss.good_to_bad + loss.bad_to_good)
    return getattr(loss, "rate", 0.0)


def is_right(row: dict[str, Any]) -> bool:
    """Return whether an interval that is told holds the truth; of rates in steps, all."""
    least, most = row["truth"]
    return bool(row["low"] <= least * (1 + 1e-9) and most <= row["high"] * (1 + 1e-9))


def is_true_bound(row: dict[str, Any]) -> bool:
    """Return whether a bound is one of the largest true value."""
    return bool(row["low"] <= row["truth"][1] * (1 + 1e-9) and row["high"] >= row["truth"][0] * (1 - 1e-9))


def cell(rows: Sequence[dict[str, Any]]) -> str:
    """Return a cell of the table."""
    seen = [row for row in rows if row.get("seen")]
    if not rows:
        return ""
    share = f"{100 * np.mean([is_right(row) for row in seen]):.0f} %" if seen else "-"
    return f"{share} ({len(seen)} of {len(rows)})"


def tables(rows: Sequence[dict[str, Any]]) -> str:
    """Return the tables of what logs tell."""
    formats = sorted({row["format"] for row in rows})
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        for nuisance in (row["nuisance"], "all"):
            for log in (row["format"], "all"):
                groups[row["fact"], nuisance, log].append(row)
    parts = []
    nuisances = [*dict.fromkeys(row["nuisance"] for row in rows), "all"]
    for fact in ("capacity", "base RTT", "buffer", "random loss"):
        body = [[one, *(cell(groups[fact, one, log]) for log in (*formats, "all"))] for one in nuisances]
        parts.append(markdown_table([fact, *formats, "all"], body))
    body = []
    for fact in ("capacity", "base RTT", "buffer", "random loss"):
        bounds = [row for row in groups[fact, "all", "all"] if not row["seen"]]
        for side, end in (("at least", "low"), ("at most", "high")):
            sided = [row for row in bounds if math.isfinite(row[end])]
            wrong = sum(not is_true_bound(row) for row in sided)
            body.append([f"{fact}, {side}", str(len(sided)), f"{wrong} ({100 * wrong / max(len(sided), 1):.1f} %)"])
    parts.append(markdown_table(["bound", "told", "wrong"], body))
    body = []
    for nuisance in nuisances:
        known = [row for row in groups["competitor", nuisance, "all"] if row["told"] is not None]
        right = sum(row["told"] == row["truth"] for row in known)
        body.append([nuisance, f"{right} of {len(known)} of {len(groups['competitor', nuisance, 'all'])}"])
    parts.append(markdown_table(["competitor", "right of told of all"], body))
    refused = [row for row in rows if row["fact"] == "refused"]
    return "\n\n".join(parts) + f"\n\n{len(refused)} logs were refused.\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--world", default="twin", choices=["twin", "ns3", "linux"], help="default: twin")
    parser.add_argument("--networks", type=int, default=2000, help="default: 2000")
    parser.add_argument("--first-seed", type=int, default=20_000, help="of the networks (default: 20000)")
    parser.add_argument("--jobs", type=int, default=2, help="networks at once (default: 2)")
    parser.add_argument("--nuisances", nargs="+", choices=NUISANCES, default=NUISANCES, help="default: all")
    parser.add_argument("--logs", type=Path, help="folder that keeps the logs (default: none)")
    parser.add_argument("--rows", type=Path, help="file that keeps what each log told, as JSON (default: none)")
    options = parser.parse_args(arguments)
    seeds = range(options.first_seed, options.first_seed + options.networks)
    with tempfile.TemporaryDirectory() as made, ProcessPoolExecutor(options.jobs) as pool:
        folder = options.logs or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        tell = partial(told, world=options.world, nuisances=options.nuisances, folder=folder)
        rows = [row for one in pool.map(tell, seeds, chunksize=4) for row in one]
    if options.rows:
        options.rows.write_text(json.dumps(rows))
    print(f"`{command()}`, {measured_on()}\n\n{tables(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
