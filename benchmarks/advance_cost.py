# SPDX-License-Identifier: GPL-2.0-only
"""Cost of driving a world in control intervals, against the standalone program, which runs in one call.

usage: python benchmarks/advance_cost.py [--interval 0.1] [--runs 7] [--program PATH]

Each round runs the same scenario and seed three ways, one after the other: the standalone program, a world in this
process and a world in a worker. The program's time is that of its process less that of its process on a scenario of
1 ms (start, libraries, building the network), a world's that of its advance() calls. Printed are the medians over the
rounds, and of the ratios to the program in the same round.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import time
from pathlib import Path

import bbrgym
from bbrgym import _ns3
from bbrgym.scenario.model import Scenario

SCENARIOS = {
    "steady": {"duration_s": 300.0},  # 10 Mbit/s, 1 flow
    "rtt_fairness": {"duration_s": 30.0},  # 100 Mbit/s, 2 flows
}
WORLDS = {"in process": "none", "in a worker": "process"}


def standalone_program() -> Path:
    """Return the installed program, or the newest in a build folder."""
    installed = Path(_ns3.__file__).parent / "_bin" / "bbrgym-scenario"
    built = Path(__file__).resolve().parents[1].glob("build*/**/bbrgym-scenario")
    candidates = sorted(built, key=lambda path: path.stat().st_mtime)
    if not installed.exists() and not candidates:
        raise SystemExit(
            "bbrgym-scenario is neither installed beside bbrgym._ns3 nor in a build folder: name it with --program"
        )
    return installed if installed.exists() else candidates[-1]


def shortened(name: str, duration_s: float) -> Scenario:
    """Return a shipped scenario in which every flow runs to the end."""
    fields = bbrgym.load_scenario(name).model_dump()
    flows = [{**flow, "start_s": min(flow["start_s"], duration_s / 2), "stop_s": None} for flow in fields["flows"]]
    return bbrgym.load_scenario({**fields, "duration_s": duration_s, "warmup_s": 0.0, "flows": flows})


def time_program(program: Path, scenario: Scenario) -> float:
    """Return the wall time of the process in seconds."""
    begin_s = time.perf_counter()
    subprocess.run(
        [program, "-", "--json"],
        input=scenario.resolved_json().encode(),
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=600,
    )
    return time.perf_counter() - begin_s


def time_world(scenario: Scenario, isolation: str, interval_s: float) -> float:
    """Return the wall time of all advances in seconds."""
    with bbrgym.make_world("ns3", scenario, seed=1, isolation=isolation) as world:
        begin_s = time.perf_counter()
        while not world.done:
            world.advance(interval_s)
        return time.perf_counter() - begin_s


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interval", type=float, default=0.1, help="simulated seconds of a step")
    parser.add_argument("--runs", type=int, default=7, help="rounds")
    parser.add_argument("--program", type=Path, default=None, help="bbrgym-scenario, of the same build as the package")
    arguments = parser.parse_args()
    program = arguments.program or standalone_program()

    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, {program}")
    print(f"{arguments.runs} rounds, steps of {arguments.interval:g} s")
    print(f"{'scenario':<14} {'way':<12} {'s':>8} {'ratio':>7}")
    for name, options in SCENARIOS.items():
        scenario, empty = shortened(name, **options), shortened(name, 0.001)
        times_s: dict[str, list[float]] = {"program": [], **{way: [] for way in WORLDS}}
        for _ in range(arguments.runs):
            times_s["program"].append(time_program(program, scenario) - time_program(program, empty))
            for way, isolation in WORLDS.items():
                times_s[way].append(time_world(scenario, isolation, arguments.interval))
        for way, taken_s in times_s.items():
            ratios = [taken / program_s for taken, program_s in zip(taken_s, times_s["program"], strict=True)]
            print(f"{name:<14} {way:<12} {statistics.median(taken_s):8.3f} {statistics.median(ratios):7.3f}")


if __name__ == "__main__":
    main()
