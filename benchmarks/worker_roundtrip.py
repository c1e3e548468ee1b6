# SPDX-License-Identifier: GPL-2.0-only
"""What a step costs in which nothing happens: the price of the worker process.

usage: python benchmarks/worker_roundtrip.py [--steps 20000]

The one flow starts at the scenario's end; each step advances by 1 ms. Printed are the median and the 95th percentile
of advance() in this process and in a worker.
"""

from __future__ import annotations

import argparse
import platform
import time

import numpy as np

import bbrgym

STEP_S = 0.001


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="steps measured")
    steps = parser.parse_args().steps
    duration_s = (2 * steps + 1) * STEP_S
    scenario = {
        "name": "empty",
        "duration_s": duration_s,
        "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
        "flows": [{"name": "late", "rtt_ms": 40.0, "start_s": duration_s - STEP_S}],
    }
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, {steps} steps")
    print(f"{'empty step':<12} {'median us':>10} {'p95 us':>10}")
    for way, isolation in {"in process": "none", "in a worker": "process"}.items():
        taken_us = np.empty(steps)
        with bbrgym.make_world("ns3", scenario, isolation=isolation) as world:
            for _ in range(steps // 10):  # warms up
                world.advance(STEP_S)
            for step in range(steps):
                begin_ns = time.perf_counter_ns()
                world.advance(STEP_S)
                taken_us[step] = (time.perf_counter_ns() - begin_ns) / 1e3
        print(f"{way:<12} {np.median(taken_us):10.1f} {np.percentile(taken_us, 95):10.1f}")


if __name__ == "__main__":
    main()
