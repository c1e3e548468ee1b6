# SPDX-License-Identifier: GPL-2.0-only
"""Random scenarios in the twin against the laws that every run obeys (tests/twin/fuzz.cc), on all cores.

usage: python benchmarks/twin_fuzz.py [--scenarios 10000] [--first-seed 1] [--worlds]

Compiles the program with address and undefined-behaviour sanitizers and prints what ran, or the first broken law of
each process with its seed, and ends with 1. With ``--worlds`` the law is that the twin equals ns-3 bit for bit
(tests/twin/differential.py), and nothing is compiled.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "twin"))

import compilers
import fuzz_program

DIFFERENTIAL = Path(__file__).resolve().parents[1] / "tests" / "twin" / "differential.py"
BATCH = 100  # scenarios of one process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=10_000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--worlds", action="store_true", help="compare the twin with ns-3 instead")
    arguments = parser.parse_args()
    if not arguments.worlds:
        compilers.program("twin_fuzz")
    begin_s = time.monotonic()
    ends = arguments.first_seed + arguments.scenarios

    def run(first_seed: int) -> subprocess.CompletedProcess[str]:
        scenarios = min(BATCH, ends - first_seed)
        if not arguments.worlds:
            return fuzz_program.run(first_seed, scenarios)
        command = [sys.executable, DIFFERENTIAL, str(first_seed), str(scenarios)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=fuzz_program.TIMEOUT_S)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = list(pool.map(run, range(arguments.first_seed, ends, BATCH)))
    lines = [done.stdout.splitlines() or [""] for done in runs]
    counts: Counter[str] = Counter()
    for done, (*_, last) in zip(runs, lines, strict=True):
        if done.returncode == 0:
            counts.update({name: int(number) for number, name in re.findall(r"(\d+) (\w+)", last)})
    seconds = time.monotonic() - begin_s
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()), f"in {seconds:.0f} s")
    broken = [f"{last}: {done.stderr}" for done, (*_, last) in zip(runs, lines, strict=True) if done.returncode != 0]
    print("".join(broken) or "every law holds")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
