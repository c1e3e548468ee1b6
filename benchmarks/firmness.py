# SPDX-License-Identifier: GPL-2.0-only
"""Measure what a firmer first setting of `shipped/flow` trades: own gain beside BBR v1 against score and harm.

usage: python benchmarks/firmness.py [--write docs/results.md]

Prints command and date, then a Markdown table, means over the draws of the benchmark with 95 % intervals:
the own score minus that of BBR v1 in its place, 9 of 10 flows tuned; score and harm on `commons`. Policies run in C.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from report import command, publish

import bbrgym
from bbrgym.agents.deploy.export_agent import integer_form
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.shipped import SHIPPED, shipped_setting
from bbrgym.envs.scaling import TunableScaling
from bbrgym.evaluate.bench.tasks import Task, load_benchmark
from bbrgym.evaluate.records import per_run
from bbrgym.evaluate.statistics import bootstrap_mean

# of shipped/fixed, which is the first setting of the policy, beside a window gain
FIRM = {"use_forced_drain": 0, "acd_verdict": 0}
GAINS = (1.3, 1.6)
COMPILE_S = 300
INTERVAL_S = 0.5  # control interval of the policy


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default: 2)")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        today = datetime.date.today().isoformat()
        section = "\n".join([f"`{command()}`, {today}", "", *table(Path(folder), options.jobs)])
    publish(options.write, "firmness", section, "commons / bbr shipped/fixed shipped/flow")
    return 0


def table(folder: Path, jobs: int) -> Iterator[str]:
    benchmark = load_benchmark()
    deployed = benchmark.deployment["deployed_90"]
    commons = next(task for task in benchmark.scored if task.scenario == "commons")
    bbr = runs(deployed, jobs, variants=["bbr"])["own_score"]
    fixed = shipped_setting(SHIPPED["shipped/fixed"])
    held = {**(fixed[1] if fixed else {}), **FIRM, "bbr_cwnd_gain": GAINS[-1]}
    points: dict[str, Mapping[str, Any]] = {"as shipped": {"world": compiled(folder / "as shipped", {})}}
    for gain in GAINS:
        points[f"gain {gain:g}"] = {"world": compiled(folder / f"{gain:g}", {**FIRM, "bbr_cwnd_gain": gain})}
    points[f"gain {GAINS[-1]:g}, always held"] = {"tunables": held}
    yield "| first setting | own gain, 90 % | N, `commons` | harm |"
    yield "| --- | --- | --- | --- |"
    for name, how in points.items():
        own, all_flows = (runs(task, jobs, variants=["bbr-mix"], **how) for task in (deployed, commons))
        cells = own["own_score"] - bbr, all_flows["score"], all_flows["harm"].drop_nulls()
        yield f"| {name} | {' | '.join(bootstrap_mean(cell.to_numpy()).text(2) for cell in cells)} |"


def compiled(path: Path, values: Mapping[str, float]) -> dict[str, Any]:
    """Return the world whose flows run the policy in C, its first setting with other values."""
    agent, arguments = load_agent(SHIPPED["shipped/flow"])
    if not isinstance(agent, PortfolioAgent):
        raise TypeError(f"shipped/flow is {agent.name}, expected a portfolio")
    scaling, library = TunableScaling(arguments["variant"], arguments.get("tunables")), agent.network().library
    library[0] = torch.from_numpy(scaling.from_values({**scaling.to_values(library[0].numpy()), **values}))
    header, program = path / "policy.h", path / "policy.so"
    path.mkdir()
    header.write_text(policy_header(integer_form(agent, arguments)), encoding="utf-8")
    flags = ["-O2", "-shared", "-fPIC", "-w", "-DBBRGYM_POLICY_ENTRY", "-x", "c", str(header), "-o", str(program)]
    subprocess.run(["cc", *flags], check=True, timeout=COMPILE_S)
    return {"twin": {"options": {"policy": str(program)}}}


def runs(task: Task, jobs: int, **how: Any) -> pl.DataFrame:
    """Return a row per draw of a task, in the order of the seeds."""
    where = {"draws": task.draws, "first_draw": task.first_draw, "split": "test", "series_draws": 0, "jobs": jobs}
    summary = bbrgym.evaluate(task.source(), **{"world": "twin", "interval_s": INTERVAL_S, **where, **how})
    return per_run(summary).sort("seed")


if __name__ == "__main__":
    sys.exit(main())
