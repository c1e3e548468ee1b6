# SPDX-License-Identifier: GPL-2.0-only
"""Run scenarios with congestion controls and seeds in the twin and in ns-3, and count where they agree.

usage: python benchmarks/fidelity.py [--seeds 5] [--jobs 2] [--scenarios NAME ...] [--ccs NAME ...]
           [--runs runs/fidelity] [--write docs/fidelity-and-speed.md]

The scenarios are benchmarks/fidelity/*.yaml. A cell is a scenario with a congestion control; it agrees where each
figure's mean over seeds is within the tolerance of `bbrgym evaluate` with several worlds. Interrupted and started
again, it goes on with the runs that are done. Exit code 1: too few cells agree.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from report import command, measured_on, replace_section

import bbrgym
from bbrgym.evaluate.world_gap import METRICS, Difference, differences
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario.files import read_scenario
from bbrgym.worlds import registered_worlds

FOLDER = Path(__file__).with_suffix("")
CCS = ("bbr", "bbr-plus", "bbr-acd", "bbq", "bbr-pg", "bbr-pg-inv", "cubic", "reno")
REFERENCE, OTHER = "ns3", "twin"
REQUIRED_SHARE = 0.95
INTERVAL_S = 0.5


@dataclass(frozen=True)
class Cell:
    """One scenario with one congestion control in both worlds."""

    scenario: str
    cc: str
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        return all(difference.agrees for difference in self.differences)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1..N of each cell (default: 5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default: 2)")
    parser.add_argument("--scenarios", nargs="+", metavar="NAME", default=scenario_names(), choices=scenario_names())
    parser.add_argument("--ccs", nargs="+", metavar="NAME", default=list(CCS), choices=list(bbrgym.VARIANTS))
    parser.add_argument("--runs", type=Path, default=Path("runs/fidelity"), help="where runs are kept")
    parser.add_argument("--write", type=Path, help="Markdown file whose section is replaced")
    options = parser.parse_args(arguments)
    scenarios = {name: read_scenario(FOLDER / f"{name}.yaml") for name in options.scenarios}
    cells = measure(scenarios, options.ccs, range(1, options.seeds + 1), options.runs, options.jobs)
    section = f"`{command()}`, {measured_on()}. {section_of(cells)}\n"
    print(section)
    if options.write is not None:
        replace_section(options.write, "fidelity", section, "cc tcp twin world ns3-scratch benchmarks/fidelity")
    return 0 if is_enough(cells) else 1


def scenario_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def measure(
    scenarios: Mapping[str, Mapping[str, object]], ccs: Sequence[str], seeds: Iterable[int], runs: Path, jobs: int
) -> list[Cell]:
    """Run the cells that the run folders lack, and compare."""
    cells: list[Cell] = []
    for name, scenario in scenarios.items():
        summaries = []
        for world in (REFERENCE, OTHER):
            question = digest_of(json.dumps([scenario, list(ccs), list(seeds)]).encode())
            folder = runs / f"{world}-{engine_digest(world)}" / f"{name}-{question}"
            asked = {"world": world, "seeds": list(seeds), "jobs": jobs, "interval_s": INTERVAL_S}
            summaries.append(bbrgym.evaluate(scenario, ccs, output_dir=folder, resume=True, **asked))
        found = [Cell(name, cc, of_cc) for cc, of_cc in differences(pl.concat(summaries), REFERENCE, OTHER)]
        print(f"{name}: {sum(cell.agrees for cell in found)} of {len(found)} congestion controls agree", flush=True)
        cells += found
    return cells


def engine_digest(world: str) -> str:
    """Return a name of the build of a world's engine."""
    spec = importlib.util.find_spec(registered_worlds()[world].engine.rpartition(".")[0])
    if spec is None or spec.origin is None:
        raise SystemExit(f"the world {world!r} has no engine here: build it, see README.md")
    return digest_of(Path(spec.origin).read_bytes())


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def is_enough(cells: Sequence[Cell]) -> bool:
    return sum(cell.agrees for cell in cells) >= REQUIRED_SHARE * len(cells)


def section_of(cells: Sequence[Cell]) -> str:
    """Return how many cells agree, and the figures of those that do not."""
    headings = [metric.heading.replace("-\n", "").replace("\n", " ") for metric in METRICS]
    tolerances = "; ".join(f"{name} {metric.tolerance_text()}" for name, metric in zip(headings, METRICS, strict=True))
    agreeing = sum(cell.agrees for cell in cells)
    text = (
        f"{len({cell.scenario for cell in cells})} scenarios with {len({cell.cc for cell in cells})} congestion "
        f"controls: **{agreeing} of {len(cells)} cells agree** ({agreeing / len(cells):.1%}), each figure's mean over "
        f"seeds within its tolerance: {tolerances}."
    )
    rows = [[cell.scenario, f"`{cell.cc}`", *map(both, cell.differences)] for cell in cells if not cell.agrees]
    if not rows:
        return text
    return f"{text} {REFERENCE} / {OTHER}:\n\n{markdown_table(['scenario', 'congestion control', *headings], rows)}"


def both(difference: Difference) -> str:
    metric = difference.metric
    text = f"{metric.text(difference.reference)} / {metric.text(difference.other)}"
    return text if difference.agrees else f"**{text}**"


if __name__ == "__main__":
    sys.exit(main())
