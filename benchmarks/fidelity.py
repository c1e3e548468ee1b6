# SPDX-License-Identifier: GPL-2.0-only
"""Run scenarios with congestion controls and seeds in two worlds, and report where they agree.

usage: python benchmarks/fidelity.py [--seeds 5] [--jobs 2] [--scenarios NAME ...] [--ccs NAME ...]
           [--runs runs/fidelity] [--write docs/fidelity.md]

The scenarios are benchmarks/fidelity/*.yaml. Each cell of the matrix, a scenario with a congestion control, compares
means over seeds by the tolerances of `bbrgym evaluate` with several worlds. Interrupted and started again, it goes on
with the runs that are done; runs of an engine that was built anew are not taken. benchmarks/fidelity/causes.yaml says
why a cell does not agree. Exit code 1: too few cells agree, or a cause is missing or no longer needed.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.util
import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import yaml
from report import measured_on
from rich.console import Console
from rich.status import Status

import bbrgym
from bbrgym.evaluate.evaluation import EvaluationProgress
from bbrgym.evaluate.records import EvaluationFolder
from bbrgym.evaluate.world_gap import METRICS, Difference, differences
from bbrgym.report.markdown import markdown_table
from bbrgym.runs.atomic_files import write_atomically
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


@dataclass(frozen=True)
class Matrix:
    """Measurements of a grid, and the cost of its runs."""

    cells: list[Cell]
    timing: pl.DataFrame


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1..N of each cell (default: 5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once (default: 2)")
    parser.add_argument("--scenarios", nargs="+", metavar="NAME", default=scenario_names(), choices=scenario_names())
    parser.add_argument("--ccs", nargs="+", metavar="NAME", default=list(CCS), choices=list(bbrgym.VARIANTS))
    parser.add_argument("--runs", type=Path, default=Path("runs/fidelity"), help="where runs are kept")
    parser.add_argument("--write", type=Path, help="Markdown file to write; without it the page is printed")
    options = parser.parse_args(arguments)
    console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)

    scenarios = {name: read_scenario(FOLDER / f"{name}.yaml") for name in options.scenarios}
    matrix = measure(scenarios, options.ccs, range(1, options.seeds + 1), options.runs, options.jobs, console)
    causes = read_causes()
    page = render(matrix, scenarios, causes, options.seeds, command(options))
    if options.write is None:
        sys.stdout.write(page)
    else:
        write_atomically(options.write, lambda partial: partial.write_text(page, encoding="utf-8"))
    problems = check(matrix.cells, causes)
    for problem in problems:
        console.print(problem)
    return 1 if problems else 0


def scenario_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "causes")


def read_causes() -> dict[str, dict[str, str]]:
    return yaml.safe_load((FOLDER / "causes.yaml").read_text(encoding="utf-8")) or {}


def measure(
    scenarios: Mapping[str, Mapping[str, object]],
    ccs: Sequence[str],
    seeds: Iterable[int],
    runs: Path,
    jobs: int,
    console: Console,
) -> Matrix:
    """Run the cells that the run folders lack, and compare."""
    cells: list[Cell] = []
    timings: list[pl.DataFrame] = []
    for name, scenario in scenarios.items():
        summaries = []
        for world in (REFERENCE, OTHER):
            question = digest_of([scenario, list(ccs), list(seeds)])
            folder = runs / f"{world}-{engine_digest(world)}" / f"{name}-{question}"
            with console.status(f"{name}, {world}") as status:
                summaries.append(
                    bbrgym.evaluate(
                        scenario,
                        ccs,
                        world=world,
                        seeds=list(seeds),
                        jobs=jobs,
                        interval_s=INTERVAL_S,
                        output_dir=folder,
                        resume=True,
                        on_progress=functools.partial(show, status, f"{name}, {world}"),
                    )
                )
            timings.append(EvaluationFolder(folder).read_timing())
        of_scenario = [Cell(name, cc, found) for cc, found in differences(pl.concat(summaries), REFERENCE, OTHER)]
        agreeing = sum(cell.agrees for cell in of_scenario)
        console.print(f"{name}: {agreeing} of {len(of_scenario)} congestion controls agree")
        cells += of_scenario
    return Matrix(cells, pl.concat(timings))


def show(status: Status, what: str, progress: EvaluationProgress) -> None:
    status.update(f"{what}: {progress.done_runs} of {progress.total_runs} runs")


def engine_digest(world: str) -> str:
    """Return a name of the build of a world's engine."""
    spec = importlib.util.find_spec(registered_worlds()[world].engine.rpartition(".")[0])
    if spec is None or spec.origin is None:
        raise SystemExit(f"the world {world!r} has no engine here: build it, see README.md")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:12]


def digest_of(question: object) -> str:
    """Return a name of a question, whose runs have a folder of their own."""
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()[:8]


def check(cells: Sequence[Cell], causes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the violated expectations."""
    problems = []
    agreeing = sum(cell.agrees for cell in cells)
    if agreeing < REQUIRED_SHARE * len(cells):
        problems.append(f"{agreeing} of {len(cells)} cells agree, required are {100 * REQUIRED_SHARE:g} %")
    for cell in cells:
        if cell.agrees and cause_of(cell, causes):
            problems.append(f"{cell.scenario}, {cell.cc}: agrees, but causes.yaml has a cause")
        if not cell.agrees and not cause_of(cell, causes):
            problems.append(f"{cell.scenario}, {cell.cc}: does not agree, and causes.yaml has no cause")
    for scenario, by_cc in causes.items():
        problems += [
            f"{scenario}, {cc}: is no cell of the matrix, but causes.yaml has a cause"
            for cc in by_cc
            if scenario not in scenario_names() or cc not in CCS
        ]
    return problems


def cause_of(cell: Cell, causes: Mapping[str, Mapping[str, str]]) -> str:
    return causes.get(cell.scenario, {}).get(cell.cc, "")


# ---- the page -----------------------------------------------------------------------------------------


def command(options: argparse.Namespace) -> str:
    """Return the command with the options that differ from the defaults."""
    words = ["python", "benchmarks/fidelity.py", "--seeds", str(options.seeds), "--jobs", str(options.jobs)]
    if options.scenarios != scenario_names():
        words += ["--scenarios", *options.scenarios]
    if options.ccs != list(CCS):
        words += ["--ccs", *options.ccs]
    if options.write is not None:
        words += ["--write", str(options.write)]
    return shlex.join(words)


def render(
    matrix: Matrix,
    scenarios: Mapping[str, Mapping[str, object]],
    causes: Mapping[str, Mapping[str, str]],
    seeds: int,
    command: str,
) -> str:
    agreeing = sum(cell.agrees for cell in matrix.cells)
    count = len(matrix.cells)
    tolerances = "; ".join(f"{plain(metric.heading)} {metric.tolerance_text()}" for metric in METRICS)
    lines = [
        f"# How far the {OTHER} is from {REFERENCE}",
        "",
        f"<!-- Written by benchmarks/fidelity.py. -->\n\n"
        f"{len(scenarios)} scenarios with {count // len(scenarios)} congestion controls and {seeds} seeds in both "
        "worlds. Compared are means over seeds, after the warm-up. The scenarios say `stack: ns3`, so that both "
        "worlds' senders have the same repertoire. A cell agrees where each figure is within its tolerance of "
        f"{REFERENCE}'s: {tolerances}. The share is that of the flow that differs most, the retransmission rate the "
        "mean over flows.",
        "",
        f"**{agreeing} of {count} cells agree, {100 * agreeing / count:.1f} %** (required: "
        f"{100 * REQUIRED_SHARE:g} %). " + speed_sentence(matrix.timing),
        "",
        f"`{command}`, {measured_on()}.",
        "",
        f"Each column shows {REFERENCE} / {OTHER}; bold is what is beyond its tolerance. One scenario alone, with "
        "figures over time:",
        "",
        f"    bbrgym evaluate 'world=[{REFERENCE},{OTHER}]' scenario=benchmarks/fidelity/red.yaml "
        "'variants=[bbr,cubic]'",
        "",
    ]
    for name in scenarios:
        lines += [f"## {name}", "", comment(FOLDER / f"{name}.yaml"), "", cells_table(matrix.cells, name), ""]
    lines += ["## Causes", "", *cause_lines(matrix.cells, causes)]
    return "\n".join(lines) + "\n"


def speed_sentence(timing: pl.DataFrame) -> str:
    speed = {
        world: simulated_s / wall_s
        for world, simulated_s, wall_s in timing.group_by("world")
        .agg(pl.col("simulated_s").sum(), pl.col("wall_s").sum())
        .iter_rows()
    }
    return (
        f"Over all these runs the {OTHER} simulated {speed[OTHER]:,.0f} s per second, {REFERENCE} "
        f"{speed[REFERENCE]:,.1f} s: {speed[OTHER] / speed[REFERENCE]:.0f} times as fast."
    )


def comment(path: Path) -> str:
    return " ".join(
        line.removeprefix("#").strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")
    )


def cells_table(cells: Sequence[Cell], scenario: str) -> str:
    header = ["congestion control", *(plain(metric.heading) for metric in METRICS), "agree"]
    rows = [
        [f"`{cell.cc}`", *map(both, cell.differences), "yes" if cell.agrees else "no"]
        for cell in cells
        if cell.scenario == scenario
    ]
    return markdown_table(header, rows)


def both(difference: Difference) -> str:
    metric = difference.metric
    text = f"{metric.text(difference.reference)} / {metric.text(difference.other)}"
    return text if difference.agrees else f"**{text}**"


def plain(heading: str) -> str:
    """Return a heading of a terminal table in one line."""
    return heading.replace("-\n", "").replace("\n", " ")


def cause_lines(cells: Sequence[Cell], causes: Mapping[str, Mapping[str, str]]) -> list[str]:
    missing = "not found yet."
    lines = [
        f"- {cell.scenario}, `{cell.cc}`: {cause_of(cell, causes) or missing}" for cell in cells if not cell.agrees
    ]
    return lines or ["Every cell agrees."]


if __name__ == "__main__":
    sys.exit(main())
