# SPDX-License-Identifier: GPL-2.0-only
"""Measure variants on the five suites of google/bbr's nsperf (conf/scenario/nsperf_*.yaml), point by point.

usage: python benchmarks/nsperf.py [--world twin] [--seeds 10] [--suites coexist ...] [--rate 1] [--time 1]
           [--write docs/results.md]

Each seed also draws when flows begin, up to an RTT later than the suite says, so that algorithms without random numbers
have an interval, too. Prints command, machine and versions, then a Markdown table per suite: means over the seeds and
Student's 95 % intervals.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import command, measured_on, publish

import bbrgym
from bbrgym.evaluate.statistics import student_mean
from bbrgym.scenario.checks import ScenarioCheck

VARIANTS = ("cubic", "bbr", "bbr2", "bbr3")
GIGABIT_MBPS = 1000.0

Fields = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """A column of a table: its metric, as of a check, times the factor from the metric's unit to the heading's."""

    heading: str
    metric: str
    flow: str | None = None
    across: str = "mean"
    factor: float = 1.0
    digits: int = 1


@dataclass(frozen=True)
class Suite:
    """A suite: the setting that varies, with its unit, the values that are run, and the columns that nsperf plots."""

    varies: str
    points: Sequence[float]
    measures: Sequence[Measure]


UTILISATION = Measure("utilisation, %", "utilisation", factor=100.0)
RESENT = Measure("sent again, %", "retransmit_rate", factor=100.0, digits=2)
SUITES = {
    "coexist": Suite(
        "queue (BDP)", (0.1, 1, 4, 16), (Measure("share of CUBIC, %", "share", "cubic", factor=100.0), UTILISATION)
    ),
    "random_loss": Suite("loss (%)", (0.01, 0.1, 1, 2, 10), (UTILISATION, RESENT)),
    "shallow": Suite("flows", (1, 10, 30), (RESENT, UTILISATION)),
    "bufferbloat": Suite("queue (BDP)", (1, 10, 50), (Measure("mean RTT, ms", "rtt_mean_ms"), UTILISATION)),
    "ecn_bulk": Suite("flows", (1, 4, 10), (Measure("95 % RTT, ms", "rtt_p95_ms", digits=2), UTILISATION)),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--world", default="twin", help="default: twin")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 1..N (default: 10)")
    parser.add_argument("--suites", nargs="+", metavar="NAME", default=list(SUITES), choices=list(SUITES))
    parser.add_argument("--variants", nargs="+", metavar="NAME", default=VARIANTS, choices=list(bbrgym.VARIANTS))
    parser.add_argument("--rate", type=float, default=1.0, help="factor of the rate of links of 1 Gbit/s (default: 1)")
    parser.add_argument("--time", type=float, default=1.0, help="factor of the durations (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default: 2)")
    parser.add_argument("--write", type=Path, help="page whose sections are replaced")
    options = parser.parse_args(arguments)
    for name in options.suites:
        section = "\n".join([f"`{command()}`, {measured_on()}", *table(name, options)])
        publish(options.write, f"nsperf {name}", section, f"nsperf_{name} / {' '.join(VARIANTS)}")
    return 0


def table(name: str, options: argparse.Namespace) -> Iterator[str]:
    suite = SUITES[name]
    yield f"\n**{name}**, {options.world}, {options.seeds} seeds\n"
    yield f"| {suite.varies} | | {' | '.join(options.variants)} |"
    yield f"| --- | --- |{' --- |' * len(options.variants)}"
    for point in suite.points:
        measured = measure(name, point, options)
        for index, column in enumerate(suite.measures):
            cells = [student_mean(measured[variant][index]).short(column.digits) for variant in options.variants]
            yield f"| {f'{point:g}' if index == 0 else ''} | {column.heading} | {' | '.join(cells)} |"


def measure(name: str, point: float, options: argparse.Namespace) -> dict[str, list[list[float]]]:
    """Return the values of each variant: [measures][seeds]."""
    columns = SUITES[name].measures
    values: dict[str, list[list[float]]] = {variant: [[] for _ in columns] for variant in options.variants}
    for seed in range(1, options.seeds + 1):
        fields = scenario(name, point, seed, rate=options.rate, time=options.time)
        summary = bbrgym.evaluate(fields, options.variants, world=options.world, seeds=[seed], jobs=options.jobs)
        for variant in options.variants:
            run = summary.filter(variant=variant).to_dict(as_series=False)
            for index, column in enumerate(columns):
                values[variant][index].append(value_of(column, run))
    return values


def value_of(column: Measure, run: Mapping[str, Sequence[Any]]) -> float:
    check = ScenarioCheck(metric=column.metric, flow=column.flow, across=column.across, at_least=0.0)
    return column.factor * check.measured(run)


def scenario(name: str, point: float, seed: int, *, rate: float = 1.0, time: float = 1.0) -> Fields:
    """Return the fields of a suite's point, with starts that the seed draws."""
    fields: Fields = bbrgym.load_scenario(f"nsperf_{name}").model_dump(exclude_none=True)
    fields["duration_s"] *= time
    if fields["link"]["rate_mbps"] == GIGABIT_MBPS:
        fields["link"]["rate_mbps"] *= rate
    if name in ("coexist", "bufferbloat"):
        fields["link"]["queue"]["size_bdp"] = point
    elif name == "random_loss":
        fields["link"]["loss"]["rate"] = point / 100
    else:
        fields["flows"] = apart(fields["flows"], int(point))
        fields["checks"] = []
    draw = random.Random(seed)
    for flow in fields["flows"]:
        flow["start_s"] += draw.random() * flow["rtt_ms"] / 1000
    return fields


def apart(flows: Sequence[Fields], count: int) -> list[Fields]:
    """Return so many flows, as far apart as the first two."""
    first, second = flows[:2]
    step_s = second["start_s"] - first["start_s"]
    return [{**copy.deepcopy(first), "name": f"flow-{index}", "start_s": index * step_s} for index in range(count)]


if __name__ == "__main__":
    sys.exit(main())
