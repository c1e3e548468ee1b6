# SPDX-License-Identifier: GPL-2.0-only
"""The fall of a lone BBR flow's rate when its policer detector mistakes random loss for a policer.

usage: python benchmarks/policer_trace.py [--rate-mbps 20] [--loss 0.2] [--seed 1]

Runs the scenario `lossy`, 60 s, and prints, of its ACK trace, each stretch of at least a second in which
the pacing rate stayed the same (that of a policer is kept for 48 rounds), its ratio to the stretch before, and what the
bandwidth filter held when the stretch ended. Takes seconds.
"""

from __future__ import annotations

import argparse

import numpy as np

import bbrgym

LEAST_S = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate-mbps", type=float, default=20.0)
    parser.add_argument("--loss", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fields = bbrgym.load_scenario("lossy").model_dump(mode="json", exclude_none=True)
    fields["link"] |= {"rate_mbps": options.rate_mbps, "loss": {"kind": "bernoulli", "rate": options.loss}}
    trace = run(bbrgym.load_scenario(fields), options.seed)
    time_s, pacing_mbps, bw_mbps = trace["time_us"] / 1e6, 8e-6 * trace["pacing_Bps"], 8e-6 * trace["bw_Bps"]
    print("| from (s) | to (s) | rounds | pacing (Mbit/s) | of the one before | bandwidth filter at its end (Mbit/s) |")
    print("|---|---|---|---|---|---|")
    before_mbps = None
    begins = np.flatnonzero(np.diff(trace["pacing_Bps"], prepend=0))
    for first, last in zip(begins, [*begins[1:] - 1, len(trace) - 1], strict=True):
        if time_s[last] - time_s[first] < LEAST_S:
            continue
        rounds = trace["round_count"][last] - trace["round_count"][first]
        ratio = "" if before_mbps is None else f"{pacing_mbps[first] / before_mbps:.2f}"
        before_mbps = pacing_mbps[first]
        times = f"| {time_s[first]:.1f} | {time_s[last]:.1f} | {rounds} "
        print(f"{times}| {before_mbps:.2f} | {ratio} | {bw_mbps[last]:.2f} |")


def run(scenario: bbrgym.Scenario, seed: int) -> np.ndarray:
    """Return the ACK trace of the only flow."""
    with bbrgym.make_world("ns3", scenario, seed, isolation="none", timeout_s=3600.0) as world:
        world.trace_acks(0, 10_000_000)
        world.advance(scenario.duration_s)
        return world.ack_trace(0)


if __name__ == "__main__":
    main()
