# SPDX-License-Identifier: GPL-2.0-only
"""Small scenarios, and an engine's native simulation with tables of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import bbrgym
from bbrgym import _twin
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS
from bbrgym.worlds.layout import Arrays, Shape

Mapping = dict[str, Any]

FLOW_STATS = [field.name for field in FLOW_FIELDS]
LINK_STATS = [field.name for field in LINK_FIELDS]
FLOW_SUMMARY = [field.name for field in FLOW_SUMMARY_FIELDS]
LINK_SUMMARY = [field.name for field in LINK_SUMMARY_FIELDS]
TUNABLES = list(bbrgym.TUNABLES)

MSS_BYTES = 1448
PACKET_BYTES = 1488


def flow(name: str = "a", cc: str = "bbr", rtt_ms: float = 40.0, **changes: Any) -> Mapping:
    """A bulk flow for as long as the scenario lasts."""
    return {"name": name, "cc": cc, "rtt_ms": rtt_ms, **changes}


def scenario(*flows: Mapping, duration_s: float = 10.0, stack: str = "linux-6", **link: Any) -> Mapping:
    """10 Mbit/s, 10 ms, drop-tail of one BDP and one BBR flow of 40 ms, unless said."""
    rate = {} if "trace" in link else {"rate_mbps": 10.0}
    return {
        "name": "test",
        "duration_s": duration_s,
        "stack": stack,
        "link": {**rate, "delay_ms": 10.0, "queue": {"size_bdp": 1.0}, **link},
        "flows": list(flows) or [flow()],
    }


def resolved_json(mapping: Mapping) -> str:
    return bbrgym.load_scenario(mapping).resolved_json()


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


def arrays_for(worlds: int, flows: int) -> Arrays:
    """Arrays of the columns that every world has."""
    fields = (FLOW_STATS, LINK_STATS, FLOW_SUMMARY, LINK_SUMMARY)
    return Arrays(Shape(worlds, flows, len(TUNABLES), *map(len, fields)))


class Simulation:
    """An engine's native vector of one world, the twin's unless said, with arrays of its own, read by field name."""

    def __init__(self, mapping: Mapping, seed: int = 1, engine: Any = _twin) -> None:
        self.flows = len(bbrgym.load_scenario(mapping).resolved().flows)
        self.arrays = arrays_for(1, self.flows)
        self.tunables, self.flow_stats = self.arrays.tunables[0], self.arrays.flow_stats[0]
        self.link_stats = self.arrays.link_stats[0]
        self.native = engine.Vector(1, 1, math.inf)
        self.native.lay_out(self.flows, *self.arrays.rows(slice(None)))
        self.native.reset(0, resolved_json(mapping), seed)

    @property
    def now_s(self) -> float:
        return float(self.arrays.now_s[0])

    @property
    def done(self) -> bool:
        return bool(self.arrays.done[0])

    def advance(self, seconds: float = 1e9) -> None:
        self.native.advance(seconds, np.ones(1, np.bool_))

    def set(self, name: str, value: float, index: int = 0) -> None:
        self.tunables[index, TUNABLES.index(name)] = value

    def flow(self, field: str, index: int = 0) -> float:
        return float(self.flow_stats[index, FLOW_STATS.index(field)])

    def link(self, field: str) -> float:
        return float(self.link_stats[LINK_STATS.index(field)])

    def summary(self) -> Summary:
        flows = np.zeros((self.flows, len(FLOW_SUMMARY)))
        link = np.zeros(len(LINK_SUMMARY))
        self.native.summary(0, flows, link)
        return Summary(flows, link)

    def shown(self) -> bytes:
        """Everything that the caller sees at this moment."""
        tables = (self.tunables, self.flow_stats, self.link_stats)
        clock = f"{self.now_s!r} {self.done}".encode()
        return b"".join([*(table.tobytes() for table in tables), self.summary().bytes(), clock])


def life(simulation: Simulation, step_s: float = 0.1) -> bytes:
    """Everything that a simulation shows from now to its end, as bytes."""
    shown = [simulation.shown()]
    while not simulation.done:
        simulation.advance(step_s)
        shown.append(simulation.shown())
    return b"".join(shown)
