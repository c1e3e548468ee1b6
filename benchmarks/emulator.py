# SPDX-License-Identifier: GPL-2.0-only
"""Print how accurate the emulator of the world linux is on this machine: rate, round-trip time, lateness.

    python benchmarks/emulator.py [--seconds 10] [--rates 5 10 20 50 100 200]

One kernel-cubic flow over 40 ms with a queue of one bandwidth-delay product, once for each rate. The utilisation is
that of the second half, counted in packets by their due times, so it can be off by one packet, whose share stands
beside it. Both RTTs are the smallest ones beyond propagation and transmission. One is the kernel's own, of a
connection's SYN, from socket to socket: in it are both waits in a device until the emulator wakes up and reads. The
other is that of data in the first half second, from the emulator's reading of a packet to that of its ACK: in it is the
wait in the receiver's device alone.
"""

from __future__ import annotations

import argparse

import bbrgym

RTT_MS = 40.0
BEGINNING_S = 0.5  # in it the first packets meet an empty queue
PACKET_BYTES = 1488
HEADINGS = (
    "Mbit/s",
    "utilisation",
    "one packet",
    "RTT beyond of a SYN, us",
    "of data at the emulator, us",
    "late p50, us",
    "p99, us",
    "p99.9, us",
    "above 1 ms",
    "accepted",
)
SYN_BYTES = 52  # IP and TCP headers with the options MSS, SACK-permitted and window scale
ACCEPTED = 0.005  # of the packets may be late by more than 1 ms


def row(rate_mbps: float, seconds: float) -> str:
    """Run one rate and return its row."""
    scenario = {
        "name": "emulator",
        "duration_s": seconds,
        "warmup_s": seconds / 2,
        "link": {"rate_mbps": rate_mbps, "delay_ms": RTT_MS / 4, "queue": {"size_bdp": 1.0}},
        "flows": [{"name": "flow", "cc": "kernel-cubic", "rtt_ms": RTT_MS}],
    }
    with bbrgym.make_world("linux", scenario, options={"max_late_share": 1.0}) as world:
        world.advance(BEGINNING_S)
        of_data_ms = world.flow_stats()[0, world.flow_fields.index("rtt_min_ms")]
        world.advance(seconds)
        min_rtt_ms = world.flow_stats()[0, world.flow_fields.index("min_rtt_ms")]
        link = dict(zip(world.link_summary_fields, world.summary()[1], strict=True))
    beyond_us = 1e3 * (min_rtt_ms - RTT_MS) - SYN_BYTES * 8 / rate_mbps
    of_data_us = 1e3 * (of_data_ms - RTT_MS) - PACKET_BYTES * 8 / rate_mbps
    packet_share = PACKET_BYTES * 8 / (rate_mbps * 1e6 * seconds / 2)
    verdict = "yes" if link["late_share"] <= ACCEPTED else "no"
    return (
        f"| {rate_mbps:g} | {link['utilisation']:.7f} | {packet_share:.1e} | {beyond_us:.0f} | {of_data_us:.0f} | "
        f"{link['late_p50_us']:.1f} | {link['late_p99_us']:.0f} | {link['late_p999_us']:.0f} | "
        f"{link['late_share']:.3%} | {verdict} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--rates", type=float, nargs="+", default=[5, 10, 20, 50, 100, 200], help="in Mbit/s")
    arguments = parser.parse_args()
    print(f"| {' | '.join(HEADINGS)} |")
    print("| --- " * len(HEADINGS) + "|")
    for rate_mbps in arguments.rates:
        print(row(rate_mbps, arguments.seconds), flush=True)


if __name__ == "__main__":
    main()
