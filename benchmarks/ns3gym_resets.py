# SPDX-License-Identifier: GPL-2.0-only
"""Resources left behind by ns3-gym's protocol after many resets, and after SIGKILL of either side.

usage: python benchmarks/ns3gym_resets.py [--resets 1000] [--starts 1000] [--kills 200] [--seed 1]

Resets are those of a served world, which goes from one episode to the next; starts are resets that each start the
simulation. Counted before and after are the processes below agent and simulation, their descriptors, TCP sockets and
threads, and the memory of their own. Kills end one of the two at a random message; what the other then says is counted.
Ends with 1 if anything was left behind.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from report import Bystanders, measured_on

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "ns3gym" / "support"))

import kills
import leaks
from trees import guardians

GROWTH_MIB = 1.0  # that a round of resets may add to a process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resets", type=int, default=1000, help="of a served world, more than 1; 0 for none")
    parser.add_argument("--starts", type=int, default=1000, help="resets that start the simulation")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    arguments = parser.parse_args()
    bystanders = Bystanders()
    print(measured_on())
    is_clean = True
    if arguments.resets:
        is_clean &= show(f"{arguments.resets} resets of a served world", leaks.of_a_served_world(arguments.resets))
    if arguments.starts:
        is_clean &= show(f"{arguments.starts} resets that start a simulation", leaks.of_a_command(arguments.starts))
    if arguments.kills:
        kill(arguments.kills, arguments.seed)
    is_clean &= not guardians()
    print(bystanders.phrase())
    return 0 if is_clean else 1


def show(what: str, report: leaks.Report) -> bool:
    """Print a table; return whether nothing was left behind."""
    print(f"\n{what}: {report.reset_ms:.2f} ms each, with {leaks.STEPS} steps")
    print(f"{'of the':<12}{'':<8}{'processes':>10}{'descriptors':>12}{'sockets':>9}{'threads':>9}{'MiB':>9}")
    is_clean = True
    for name, before in report.before.items():
        after = report.after[name]
        for when, held in (("before", before), ("after", after)):
            counts = f"{held.processes:>10}{held.descriptors:>12}{held.sockets:>9}{held.threads:>9}"
            print(f"{name:<12}{when:<8}{counts}{held.memory_mib:>9.1f}")
        is_clean &= not after.grown_from(before) and report.growth_mib(name) < GROWTH_MIB
    return is_clean


def kill(count: int, seed: int) -> None:
    """Print the outcome of the other side.

    Raises:
        AssertionError: names the violated expectation.
    """
    begin_s = time.perf_counter()
    said = [kills.carry_out(one) for one in kills.kills(count, seed)]
    print(f"\n{count} kills, seed {seed}, in {time.perf_counter() - begin_s:.0f} s; the other said")
    for line, times in kills.summary(said).most_common():
        print(f"{times:>6}  {line}")


if __name__ == "__main__":
    sys.exit(main())
