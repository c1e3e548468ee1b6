# SPDX-License-Identifier: GPL-2.0-only
"""Time from the start of a process to its end: of `import bbrgym`, `bbrgym --help` and Python alone.

python benchmarks/start_time.py --repeats 5
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

COMMANDS = {
    "python": ["-c", "pass"],
    "import bbrgym": ["-c", "import bbrgym"],
    "bbrgym --help": ["-m", "bbrgym", "--help"],
}


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Return the wall and the CPU seconds of a process."""
    before, began_s = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, timeout=120)
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began_s, cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="the smallest of so many is printed")
    repeats = parser.parse_args().repeats
    for name, arguments in COMMANDS.items():
        wall_s, cpu_s = (min(column) for column in zip(*(seconds(arguments) for _ in range(repeats)), strict=True))
        print(f"{name}: {wall_s:.2f} s, of which {cpu_s:.2f} s CPU")


if __name__ == "__main__":
    main()
