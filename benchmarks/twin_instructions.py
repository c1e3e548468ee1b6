# SPDX-License-Identifier: GPL-2.0-only
"""Instructions of the twin per packet delivered, counted by callgrind, which no load of the machine changes.

usage: python benchmarks/twin_instructions.py [REVISION ...] [--check] [--record]

Compiles the twin of each revision of this repository and of the working tree, as the build does, runs
twin_instructions.cc and prints what it took, and the working tree's ratio to the first revision. Needs g++, git and
valgrind. Takes a few minutes.

twin_instructions.csv keeps what revisions took. ``--record`` adds those of the command line and, if nothing in it is
changed, the working tree. ``--check`` ends with 1 if the working tree takes more than 5 % above the last of them by the
same compiler; slow creeping counts too, because only ``--record`` moves that line. By a compiler that has no line the
last revision of the history is counted again.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HISTORY = Path(__file__).with_suffix(".csv")
MAIN_FILE = Path(__file__).with_suffix(".cc")
FOLDERS = ("twin", "tcp", "world", "cc")
FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-flto", "-g1")
LEFT_OUT = {"scenario_json.cpp"}  # needs a library
MOST_RATIO = 1.05  # of the last recorded instructions
TIMEOUT_S = 1800.0  # of a compilation and of a run


@dataclass(frozen=True)
class Workload:
    cc: str
    rate_mbps: int
    flows: int
    seconds: int
    loss: float

    @property
    def setting(self) -> list[str]:
        """Arguments of twin_instructions.cc."""
        return [str(value) for value in (self.cc, self.rate_mbps, self.flows, self.seconds, self.loss)]

    def __str__(self) -> str:
        return f"{self.cc}, {self.rate_mbps} Mbit/s, {self.flows}, {self.seconds} s, {self.loss:g}"


RUNS = (
    Workload("bbr", 100, 2, 10, 0.0),
    Workload("cubic", 100, 2, 10, 0.0),
    Workload("cubic", 100, 2, 10, 0.01),
    Workload("bbq", 10, 1, 30, 0.0),  # some 80 packets an interval: what the measurement costs each time
    Workload("bbr", 100, 100, 3, 0.0),
)
WORKING_TREE = "working tree"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revisions", nargs="*", metavar="REVISION")
    parser.add_argument("--check", action="store_true", help=f"fail above {MOST_RATIO} times the history's last line")
    parser.add_argument("--record", action="store_true", help="add what was counted to the history")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = {revision: counted(sources_of(revision, folder), folder) for revision in options.revisions}
        counts[WORKING_TREE] = counted(ROOT, folder)
        risen = risen_runs(counts[WORKING_TREE], allowed_by(HISTORY, folder)) if options.check else []
    print("\n".join(table_of(counts)))
    print("".join(f"{line}\n" for line in risen), end="")
    if options.record:
        record(counts)
    return 1 if risen else 0


def table_of(counts: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the lines of a Markdown table: a row for each run, and its ratio of the last column to the first."""
    lines = [f"| algorithm, rate, flows, seconds, loss | {' | '.join(counts)} | ratio |"]
    lines.append("| --- |" + " --- |" * (len(counts) + 1))
    for run, row in zip(RUNS, zip(*counts.values(), strict=True), strict=True):
        lines.append(f"| {run} | {' | '.join(f'{count:,.0f}' for count in row)} | {row[-1] / row[0]:.3f} |")
    return lines


# ---- the history --------------------------------------------------------------------------------------


def last_recorded(history: Path, by_compiler: str) -> list[float]:
    """Return the last counts that a compiler's program took, in the order of RUNS; empty: none."""
    with history.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["compiler"] == by_compiler]
    return [float(rows[-1][str(run)]) for run in RUNS] if rows else []


def allowed_by(history: Path, folder: Path) -> list[float]:
    """Return the last counts of the compiler at hand, or those of the last revision, counted now, if there are none.

    Errors:
        RuntimeError: there are none, and this clone does not have that revision.
    """
    recorded = last_recorded(history, compiler())
    if recorded:
        return recorded
    with history.open(encoding="utf-8", newline="") as lines:
        revision = list(csv.DictReader(lines))[-1]["revision"]
    try:
        sources = sources_of(revision, folder)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(
            f"{history.name} has no line of the compiler {compiler()!r}, and its last revision {revision} cannot be "
            f"counted: {error.stderr.strip()}; expected a clone with its history, or a line by --record"
        ) from error
    return counted(sources, folder)


def risen_runs(counts: Sequence[float], recorded: Sequence[float]) -> list[str]:
    """Return a sentence for each run that takes too many instructions."""
    return [
        f"{run}: {count:,.0f} instructions per packet, recorded are {before:,.0f}: {count / before:.3f} times as many, "
        f"expected at most {MOST_RATIO}"
        for run, count, before in zip(RUNS, counts, recorded, strict=True)
        if count > MOST_RATIO * before
    ]


def record(counts: Mapping[str, Sequence[float]]) -> None:
    """Add a line to the history for each revision, and for the working tree if it is one."""
    revisions = dict(counts)
    of_tree = revisions.pop(WORKING_TREE)
    if git("status", "--porcelain", "--", *FOLDERS):
        print("the working tree is changed, so it is not recorded", file=sys.stderr)
    else:
        revisions["HEAD"] = of_tree
    with HISTORY.open("a", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        if lines.tell() == 0:
            writer.writerow(["revision", "committed", "compiler", "counted", *map(str, RUNS)])
        for revision, row in revisions.items():
            commit, committed = git("log", "-1", "--format=%h %cs", revision).split()
            counted_on = datetime.date.today().isoformat()
            writer.writerow([commit, committed, compiler(), counted_on, *(f"{count:.1f}" for count in row)])


def git(*arguments: str) -> str:
    return output_of("git", "-C", ROOT, *arguments).strip()


def compiler() -> str:
    return output_of("g++", "--version").splitlines()[0]


def output_of(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S).stdout


# ---- counting -----------------------------------------------------------------------------------------


def counted(sources: Path, folder: Path) -> list[float]:
    """Return the instructions per packet of each of RUNS, with the twin of `sources`."""
    program = built(sources, folder / f"twin-{sources.name}")
    return [instructions_per_packet(program, run, folder) for run in RUNS]


def sources_of(revision: str, folder: Path) -> Path:
    """Return a folder with the sources of a revision."""
    archive, target = folder / f"{revision}.tar", folder / f"sources-{revision}"
    git("archive", "-o", str(archive), revision, *FOLDERS)
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    return target


def built(sources: Path, program: Path) -> Path:
    """Compile the twin of `sources` with `MAIN_FILE` to a program and return it."""
    files = [file for name in ("twin", "tcp", "world") for file in sorted((sources / name).glob("*.cpp"))]
    kept = [file for file in files if file.name not in LEFT_OUT]
    includes = [f"-I{sources / name}" for name in FOLDERS]
    output_of("g++", *FLAGS, *includes, MAIN_FILE, *kept, "-o", program, "-lpthread")
    return program


def instructions_per_packet(program: Path, run: Workload, folder: Path) -> float:
    """Return the instructions of a run per packet delivered."""
    options = [f"--callgrind-out-file={folder / 'counts'}", "--toggle-collect=Measured"]
    command = ["valgrind", "--tool=callgrind", *options, program, *run.setting]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None:
        raise RuntimeError(f"callgrind counted nothing: {done.stderr[-500:]}")
    return int(found[1]) / int(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
