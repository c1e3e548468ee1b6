# SPDX-License-Identifier: GPL-2.0-only
"""Rows of a comparison whose connections are transfers in the twin, each beside a flow with a quarter of its RTT."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

import bbrgym.worlds
from bbrgym.host.comparison import ARMS, SCHEMA

PEERS = 20


def scenario(control: str, peer: int, number: int) -> dict[str, Any]:
    """Return the transfer of one connection, on a path that all connections of its peer share."""
    path, draw = np.random.default_rng([1, peer]), np.random.default_rng([2, peer, number])
    rate_mbps, rtt_ms = 6 * 3 ** path.random(), 15 * 6 ** path.random()
    app = {"kind": "bulk", "size_bytes": int(2e6 * (1 + draw.exponential()))}
    return {
        "name": "connection",
        "duration_s": 20.0,
        "warmup_s": 0.0,
        "link": {
            "rate_mbps": rate_mbps,
            "delay_ms": 1.0,
            "queue": {"size_bdp": 4 + 4 * path.random()},
            "loss": {"kind": "bernoulli", "rate": 0.002 * path.random()},
        },
        "flows": [
            {"name": "own", "cc": control, "rtt_ms": rtt_ms, "start_s": 0.5 + draw.random(), "app": app},
            {"name": "rival", "cc": "bbr", "rtt_ms": rtt_ms / 4, "role": "background"},
        ],
    }


def connections(controls: Sequence[str], asked: Sequence[tuple[int, int, int]]) -> pl.DataFrame:
    """Return a row for each connection.

    Args:
        controls: of the arms.
        asked: arm, peer and number of each.
    """
    scenarios = [scenario(controls[arm], peer, number) for arm, peer, number in asked]
    seeds = [1000 * peer + number for _, peer, number in asked]
    with bbrgym.worlds.make_vector_world("twin", len(asked), scenarios, seeds, threads=1) as world:
        world.run_to_end()
        names = world.flow_summary_fields
        flows = [dict(zip(names, world.summary(index)[0][0], strict=True)) for index in range(len(asked))]
    rows = []
    for index, ((arm, peer, _), one, flow) in enumerate(zip(asked, scenarios, flows, strict=True)):
        own = one["flows"][0]
        is_whole, seconds = flow["completed"] == 1, flow["stop_s"] - own["start_s"]
        got_bytes = int(flow["goodput_mbps"] * seconds * 1e6 / 8)
        rows.append(
            {"connection": index, "arm": ARMS[arm], "control": controls[arm], "peer": f"10.0.{peer}.0/24", "port": 443}
            | {"start_s": own["start_s"], "end_s": flow["stop_s"], "is_whole": is_whole}
            | {"acked_bytes": own["app"]["size_bytes"] if is_whole else got_bytes}
            | {"completion_s": flow["completion_s"] if is_whole else seconds}
            | {name: flow[name] for name in ("rtt_mean_ms", "rtt_min_ms")}
            | {name: int(flow[name]) for name in ("sent_pkts", "retransmitted_pkts")}
        )
    return pl.DataFrame(rows, schema=SCHEMA)
