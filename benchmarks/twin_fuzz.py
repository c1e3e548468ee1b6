# SPDX-License-Identifier: GPL-2.0-only
"""Random scenarios in the twin against the laws that every run obeys (tests/twin/fuzz.cc), on all cores.

usage: python benchmarks/twin_fuzz.py [--scenarios 10000] [--first-seed 1]

Compiles the program with address and undefined-behaviour sanitizers and prints what ran, or the first broken law of
each process with its seed, and ends with 1.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "twin"))

import fuzz_program

BATCH = 100  # scenarios of one process
TIMEOUT_S = 3600.0  # of a batch, also under load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=10_000)
    parser.add_argument("--first-seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = fuzz_program.build(Path(folder))
        begin_s = time.monotonic()
        ends = arguments.first_seed + arguments.scenarios

        def run(first_seed: int) -> subprocess.CompletedProcess[str]:
            command = [str(program), str(first_seed), str(min(BATCH, ends - first_seed))]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            runs = list(pool.map(run, range(arguments.first_seed, ends, BATCH)))
    counts = [[int(number) for number in re.findall(r"\d+", done.stdout)] for done in runs if done.returncode == 0]
    scenarios, packets, events = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0)
    seconds = time.monotonic() - begin_s
    print(f"{scenarios:,} scenarios, {packets:,} packets, {events:,} events in {seconds:.0f} s")
    broken = [done.stderr for done in runs if done.returncode != 0]
    print("".join(broken) or "every law holds")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
