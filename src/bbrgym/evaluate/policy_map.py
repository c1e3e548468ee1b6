# SPDX-License-Identifier: GPL-2.0-only
"""Policy maps: a trained agent's mean tunables over RTT and bandwidth, from a grid of runs with one flow alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import polars as pl

from bbrgym.agents.rollout import make_rollout
from bbrgym.evaluate.agent_entrants import Learned
from bbrgym.scenario.files import parse_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import FAST_WORLD, TUNABLE_COLUMNS, Table

RATES_MBPS = tuple(float(f"{rate:.3g}") for rate in np.geomspace(1, 200, 7))
RTTS_MS = tuple(float(f"{rtt:.3g}") for rtt in np.geomspace(5, 200, 7))
DURATION_S = 12.0
WARMUP_S = 4.0
QUEUE_BDP = 2.0
MIN_QUEUE_BYTES = 24_000  # 16 packets of 1,500 bytes, where 2 BDP are less
SEED = 1

SCHEMA = pl.Schema(
    {
        **dict.fromkeys(("agent", "variant"), pl.String),
        **dict.fromkeys(("rate_mbps", "rtt_ms"), pl.Float64),
        "tunable": pl.String,
        "mean": pl.Float64,
    }
)
"""Columns of policy_maps.parquet: a row per cell of the grid and tunable, ``mean`` is its mean after the warm-up."""


def policy_map(entrant: Learned) -> pl.DataFrame:
    """Run the grid in the fast world, all of its cells side by side, and return the rows of `SCHEMA`.

    Raises:
        WorldError: a simulation failed.
    """
    cells = [(rate_mbps, rtt_ms) for rate_mbps in RATES_MBPS for rtt_ms in RTTS_MS]
    names, means = _mean_tunables(entrant, [_scenario(*cell) for cell in cells])
    rows = [
        (entrant.agent, entrant.variant, *cell, name, mean)
        for cell, of_cell in zip(cells, means.tolist(), strict=True)
        for name, mean in zip(names, of_cell, strict=True)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _scenario(rate_mbps: float, rtt_ms: float) -> Scenario:
    bdp_bytes = rate_mbps * 125 * rtt_ms
    fields: Mapping[str, Any] = {
        "name": f"alone-{rate_mbps:g}-{rtt_ms:g}",
        "duration_s": DURATION_S,
        "warmup_s": WARMUP_S,
        "link": {"rate_mbps": rate_mbps, "queue": {"size_bdp": max(QUEUE_BDP, MIN_QUEUE_BYTES / bdp_bytes)}},
        "flows": [{"name": "flow", "rtt_ms": rtt_ms}],
    }
    return parse_scenario(fields)


def _mean_tunables(entrant: Learned, scenarios: Sequence[Scenario]) -> tuple[Sequence[str], Table]:
    """Return the names of the tunables, and their means after the warm-up: [scenarios, tunables]."""
    options = entrant.options(world=FAST_WORLD, scenario=scenarios)
    with closing(make_rollout(options, [SEED] * len(scenarios))) as rollout:
        columns = [TUNABLE_COLUMNS[name] for name in rollout.tunables]
        total, intervals = np.zeros((len(scenarios), len(columns))), 0
        rollout.begin(entrant.controller.make_policy)
        has_ended = np.zeros(len(scenarios), np.bool_)
        while not has_ended.all():
            has_ended = rollout.advance()
            if rollout.worlds.now_s[0] > WARMUP_S:
                total += rollout.worlds.tunables[:, 0, columns]
                intervals += 1
    return rollout.tunables, total / intervals
