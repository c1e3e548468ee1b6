# SPDX-License-Identifier: GPL-2.0-only
"""Small resolved scenarios, and the native module's simulation with tables of its own."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbrgym import _ns3
from bbrgym.scenario.stack import SenderStack
from bbrgym.tunables import TUNABLES as TUNABLE_TABLE
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS
from bbrgym.worlds.layout import Arrays, Shape

Scenario = dict[str, Any]

FLOW_STATS = [field.name for field in FLOW_FIELDS]
LINK_STATS = [field.name for field in LINK_FIELDS]
FLOW_SUMMARY = [field.name for field in FLOW_SUMMARY_FIELDS]
LINK_SUMMARY = [field.name for field in LINK_SUMMARY_FIELDS]
TUNABLES = list(TUNABLE_TABLE)

PACKET_BYTES = 1488


def flow(name: str = "a", cc: str = "reno", rtt_ms: float = 40.0, **changes: Any) -> Scenario:
    """A resolved flow: bulk, from 0 s on, for longer than any scenario here lasts."""
    return {
        "name": name,
        "cc": cc,
        "role": "fixed",
        "rtt_ms": rtt_ms,
        "start_s": 0.0,
        "stop_s": 1000.0,
        "app": {"kind": "bulk"},
        "stack": SenderStack(preset="linux-6").over(None).model_dump(),
        "tunables": {},
        **changes,
    }


def queue(**changes: Any) -> Scenario:
    """A resolved drop-tail queue of 50 kB, which is one BDP of `scenario`'s defaults."""
    size = {} if "size_packets" in changes else {"size_bytes": 50_000}
    return {"kind": "droptail", "size_bytes": None, "size_packets": None, "red": None, "codel": None, **size, **changes}


def change(at_s: float, **values: Any) -> Scenario:
    return {"at_s": at_s, "rate_mbps": None, "delay_ms": None, "loss_rate": None, **values}


def scenario(*flows: Scenario, duration_s: float = 10.0, warmup_s: float = 2.0, **link: Any) -> Scenario:
    """A resolved scenario: 10 Mbit/s, 1 ms, drop-tail of 50 kB, one Reno flow of 40 ms unless said."""
    return {
        "name": "test",
        "duration_s": duration_s,
        "warmup_s": warmup_s,
        "mss_bytes": 1448,
        "link": {
            "rate_mbps": None if link.get("trace") else 10.0,
            "trace": None,
            "delay_ms": 1.0,
            "queue": queue(),
            "loss": {"kind": "none"},
            "changes": [],
            **link,
        },
        "flows": list(flows) or [flow()],
    }


def arrays_for(flows: int) -> Arrays:
    """Arrays of one world, with the columns that every world has."""
    fields = (FLOW_STATS, LINK_STATS, FLOW_SUMMARY, LINK_SUMMARY)
    return Arrays(Shape(1, flows, len(TUNABLES), *map(len, fields)))


class Simulation:
    """The native vector of one world with arrays of its own, read by field name."""

    def __init__(self, resolved: Scenario, seed: int = 1) -> None:
        self.flows = len(resolved["flows"])
        self.arrays = arrays_for(max(1, self.flows))
        self.tunables, self.flow_stats = self.arrays.tunables[0], self.arrays.flow_stats[0]
        self.link_stats = self.arrays.link_stats[0]
        self.native = _ns3.Vector(1, 1, math.inf)
        self.native.lay_out(max(1, self.flows), *self.arrays.rows(slice(None)))
        self.native.reset(0, json.dumps(resolved), seed)

    @property
    def now_s(self) -> float:
        return float(self.arrays.now_s[0])

    @property
    def done(self) -> bool:
        return bool(self.arrays.done[0])

    def advance(self, seconds: float) -> None:
        self.native.advance(seconds, np.ones(1, np.bool_))

    def flow(self, field: str, index: int = 0) -> float:
        return float(self.flow_stats[index, FLOW_STATS.index(field)])

    def link(self, field: str) -> float:
        return float(self.link_stats[LINK_STATS.index(field)])

    def summary(self) -> Summary:
        flows = np.zeros((self.flows, len(FLOW_SUMMARY)))
        link = np.zeros(len(LINK_SUMMARY))
        self.native.summary(0, flows, link)
        return Summary(flows, link)


@dataclass
class Summary:
    flows: np.ndarray
    link_row: np.ndarray

    def flow(self, field: str, index: int = 0) -> float:
        return float(self.flows[index, FLOW_SUMMARY.index(field)])

    def link(self, field: str) -> float:
        return float(self.link_row[LINK_SUMMARY.index(field)])

    def bytes(self) -> bytes:
        return self.flows.tobytes() + self.link_row.tobytes()
