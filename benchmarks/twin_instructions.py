# SPDX-License-Identifier: GPL-2.0-only
"""Instructions of the twin per packet delivered, counted by callgrind, which no load of the machine changes.

usage: python benchmarks/twin_instructions.py [REVISION ...]

Compiles the twin of each revision of this repository and of the working tree, as the build does, runs
twin_instructions.cc and prints what it took, and the working tree's ratio to the first revision. Needs g++, git and
valgrind. Takes a few minutes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("twin", "tcp", "world", "cc")
FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-flto", "-g1")
LEFT_OUT = {"scenario_json.cpp"}  # needs a library
#: Algorithm, rate in Mbit/s, flows, seconds and random loss.
RUNS = (("bbr", 100, 2, 10, 0.0), ("cubic", 100, 2, 10, 0.0), ("cubic", 100, 2, 10, 0.01), ("bbr", 100, 100, 3, 0.0))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revisions", nargs="*", metavar="REVISION")
    revisions = parser.parse_args(arguments).revisions
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = {revision: built(sources_of(revision, folder), folder / f"at-{revision}") for revision in revisions}
        programs["working tree"] = built(ROOT, folder / "now")
        print(f"| algorithm, rate, flows, seconds, loss | {' | '.join(programs)} | ratio |")
        print("| --- |" + " --- |" * (len(programs) + 1))
        for run in RUNS:
            counts = [instructions_per_packet(program, run, folder) for program in programs.values()]
            cells = " | ".join(f"{count:,.0f}" for count in counts)
            algorithm, rate_mbps, flows, seconds, loss = run
            setting = f"{algorithm}, {rate_mbps} Mbit/s, {flows}, {seconds} s, {loss:g}"
            print(f"| {setting} | {cells} | {counts[-1] / counts[0]:.3f} |")


def sources_of(revision: str, folder: Path) -> Path:
    """Return a folder with the sources of a revision."""
    archive, target = folder / f"{revision}.tar", folder / f"sources-{revision}"
    subprocess.run(["git", "-C", ROOT, "archive", "-o", archive, revision, *FOLDERS], check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(target, filter="data")
    return target


def built(sources: Path, program: Path) -> Path:
    """Compile the twin of `sources` to a program and return it."""
    files = [file for name in ("twin", "tcp", "world") for file in sorted((sources / name).glob("*.cpp"))]
    kept = [file for file in files if file.name not in LEFT_OUT]
    includes = [f"-I{sources / name}" for name in FOLDERS]
    main_file = Path(__file__).with_suffix(".cc")
    subprocess.run(["g++", *FLAGS, *includes, main_file, *kept, "-o", program, "-lpthread"], check=True)
    return program


def instructions_per_packet(program: Path, run: Sequence[object], folder: Path) -> float:
    """Return the instructions of a run per packet delivered."""
    counts = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'counts'}", "--toggle-collect=Measured"]
    done = subprocess.run([*counts, program, *map(str, run)], capture_output=True, text=True, check=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if collected is None:
        raise RuntimeError(f"callgrind counted nothing: {done.stderr[-500:]}")
    return int(collected.group(1)) / int(done.stdout)


if __name__ == "__main__":
    main()
