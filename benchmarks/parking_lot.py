# SPDX-License-Identifier: GPL-2.0-only
"""Measure controls on parking lots of 2 to 5 links (conf/scenario/parking_lot.yaml): who has the long way gets what?

usage: python benchmarks/parking_lot.py [--world twin] [--draws 20] [--entrants bbr ...] [--write docs/results.md]

Prints command, machine and versions, then a Markdown table: the long flow's goodput over its max-min fair share and the
network's score, means over test draws and Student's 95 % intervals.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from report import command, measured_on, publish

import bbrgym
from bbrgym.evaluate.entrants import FIXED
from bbrgym.evaluate.statistics import student_mean

ENTRANTS = ("bbr", "bbr3", "bbq", "cubic", "shipped/flow", "shipped/fixed")
FIRST_DRAW = 9700


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--world", default="twin", help="default: twin")
    parser.add_argument("--draws", type=int, default=20, help="of each number of links (default: 20)")
    parser.add_argument("--entrants", nargs="+", metavar="NAME", default=ENTRANTS, help="variants and shipped agents")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default: 2)")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args(arguments)
    section = "\n".join([f"`{command()}`, {measured_on()}", "", *table(options)])
    publish(options.write, "parking_lot", section, f"parking_lot / {' '.join(ENTRANTS)}")
    return 0


def table(options: argparse.Namespace) -> Iterator[str]:
    parts = bbrgym.load_distribution("parking_lot").fields["mix"]
    columns = [column(bbrgym.load_distribution(part), options) for part in parts]
    yield f"| | {' | '.join(f'{links} links | N' for links in range(2, 2 + len(parts)))} |"
    yield f"| --- |{' --- | --- |' * len(parts)}"
    for row, name in enumerate(options.entrants):
        yield f"| {name} | {' | '.join(cell for cells in columns for cell in cells[row])} |"


def column(lots: bbrgym.Distribution, options: argparse.Namespace) -> list[list[str]]:
    """Return of each entrant, on lots of so many links, the long flow's share of its fair share, and the score."""
    is_agent = [name.startswith("shipped/") for name in options.entrants]
    summary = bbrgym.evaluate(
        lots,
        [name for name, agent in zip(options.entrants, is_agent, strict=True) if not agent],
        agent=[name for name, agent in zip(options.entrants, is_agent, strict=True) if agent],
        draws=options.draws,
        first_draw=FIRST_DRAW,
        world=options.world,
        jobs=options.jobs,
    ).filter(flow="long")
    rows = [
        summary.filter(agent=name.replace("/", "-")) if agent else summary.filter(variant=name, agent=FIXED)
        for name, agent in zip(options.entrants, is_agent, strict=True)
    ]
    measures = ("share_of_fair", "score")
    return [[student_mean(of[measure]).short(2).replace(" ± ", "±") for measure in measures] for of in rows]


if __name__ == "__main__":
    sys.exit(main())
