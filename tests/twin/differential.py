# SPDX-License-Identifier: GPL-2.0-only
"""Random scenarios in the twin and in ns-3, which must show the same.

usage: python tests/twin/differential.py FIRST_SEED SCENARIOS [reverse|links|parts|delays]

With ``reverse`` each has a reverse link, with ``links`` several links, with ``parts`` sk_buffs that are lost, PIE, CAKE
and frames, with ``delays`` delays that move. Prints what ran; or the first difference with its seed, and ends with 1.
"""

import random
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from equal_worlds import Columns, compared
from random_scenarios import MAX_PACKETS, NETWORKS, random_changes, random_scenario


def packets_and_difference(seed: int, network: str = "link") -> tuple[int, str | None]:
    """Return how many packets a random scenario sends in ns-3, and how the twin differs; None: not at all."""
    # Of a million packets that a rate set from outside sends and the link drops, nine tenths would show nothing new.
    mapping = random_scenario(seed)
    most_kbps = round(10 * MAX_PACKETS * mapping["mss_bytes"] * 8e-3 / mapping["duration_s"])
    for flow in mapping["flows"]:
        if flow.get("tunables", {}).get("direct_pacing_kbps", 0.0) > most_kbps:
            flow["tunables"]["direct_pacing_kbps"] = most_kbps
    mapping = NETWORKS[network](mapping, seed)
    step_s = mapping["duration_s"] / random.Random(seed).choice([1, 7, 40])
    try:
        columns, difference = compared(mapping, seed, step_s, random_changes(seed))
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
    return _sent(columns), difference and f"seed {seed}: {difference}"


def _sent(columns: Columns) -> int:
    return int(sum(column.sum() for name, column in columns.items() if name.endswith(", sent_pkts")))


def main() -> int:
    network = sys.argv[3] if len(sys.argv) > 3 else "link"
    if len(sys.argv) not in (3, 4) or network not in NETWORKS:
        print(f"usage: {sys.argv[0]} FIRST_SEED SCENARIOS [{'|'.join(NETWORKS)}]", file=sys.stderr)
        return 2
    first_seed, scenarios = map(int, sys.argv[1:3])
    packets = 0
    for seed in range(first_seed, first_seed + scenarios):
        print(f"seed {seed}", flush=True)  # whatever ends the process
        sent, difference = packets_and_difference(seed, network)
        packets += sent
        if difference:
            print(f"broken: {difference}", file=sys.stderr)
            return 1
    print(f"{scenarios} scenarios, {packets} packets: the twin equals ns-3")
    return 0


if __name__ == "__main__":
    sys.exit(main())
