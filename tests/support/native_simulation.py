# SPDX-License-Identifier: GPL-2.0-only
"""The native module of a world with tables of its own, read by field name."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bbrgym.tunables import TUNABLES as TUNABLE_TABLE
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS
from bbrgym.worlds.layout import Arrays, Shape

FLOW_STATS = [field.name for field in FLOW_FIELDS]
LINK_STATS = [field.name for field in LINK_FIELDS]
FLOW_SUMMARY = [field.name for field in FLOW_SUMMARY_FIELDS]
LINK_SUMMARY = [field.name for field in LINK_SUMMARY_FIELDS]
TUNABLES = list(TUNABLE_TABLE)

MSS_BYTES = 1448
PACKET_BYTES = 1488


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
    """Return arrays of the columns that every world has."""
    fields = (FLOW_STATS, LINK_STATS, FLOW_SUMMARY, LINK_SUMMARY)
    return Arrays(Shape(worlds, flows, len(TUNABLES), *map(len, fields)))


class NativeSimulation:
    """A native vector of one world, with arrays of its own."""

    def __init__(self, engine: Any, resolved: dict[str, Any], seed: int) -> None:
        self.flows = len(resolved["flows"])
        self.arrays = arrays_for(1, max(1, self.flows))
        self.tunables, self.flow_stats = self.arrays.tunables[0], self.arrays.flow_stats[0]
        self.link_stats = self.arrays.link_stats[0]
        self.native = engine.Vector(1, 1, math.inf)
        self.native.lay_out(max(1, self.flows), *self.arrays.rows(slice(None)))
        self.native.reset(0, json.dumps(resolved), seed)

    @property
    def now_s(self) -> float:
        return float(self.arrays.now_s[0])

    @property
    def done(self) -> bool:
        return bool(self.arrays.done[0])

    def advance(self, seconds: float = 1e9) -> None:
        self.native.advance(np.array([seconds], np.float64))

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
