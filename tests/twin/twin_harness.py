# SPDX-License-Identifier: GPL-2.0-only
"""Small scenarios, and an engine's native simulation with tables of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import bbrgym
from bbrgym import _twin

Mapping = dict[str, Any]

FLOW_STATS = [field[0] for field in _twin.flow_fields()]
LINK_STATS = [field[0] for field in _twin.link_fields()]
FLOW_SUMMARY = [field[0] for field in _twin.flow_summary_fields()]
LINK_SUMMARY = [field[0] for field in _twin.link_summary_fields()]
TUNABLES = list(bbrgym.TUNABLES)

MSS_BYTES = 1448
PACKET_BYTES = 1488


def flow(name: str = "a", cc: str = "bbr", rtt_ms: float = 40.0, **changes: Any) -> Mapping:
    """A bulk flow for as long as the scenario lasts."""
    return {"name": name, "cc": cc, "rtt_ms": rtt_ms, **changes}


def scenario(*flows: Mapping, duration_s: float = 10.0, tcp: str = "linux", **link: Any) -> Mapping:
    """10 Mbit/s, 10 ms, drop-tail of one BDP and one BBR flow of 40 ms, unless said."""
    rate = {} if "trace" in link else {"rate_mbps": 10.0}
    return {
        "name": "test",
        "duration_s": duration_s,
        "tcp": tcp,
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


class Simulation:
    """The simulation of an engine, the twin's unless said, with tables of its own, read by field name."""

    def __init__(self, mapping: Mapping, seed: int = 1, engine: Any = _twin) -> None:
        self.flows = len(bbrgym.load_scenario(mapping).resolved().flows)
        self.tunables = np.zeros((self.flows, len(TUNABLES)))
        self.flow_stats = np.zeros((self.flows, len(FLOW_STATS)))
        self.link_stats = np.zeros(len(LINK_STATS))
        self.native = engine.Simulation(resolved_json(mapping), seed, self.tunables, self.flow_stats, self.link_stats)

    def advance(self, seconds: float = 1e9) -> None:
        self.native.advance(seconds)

    def set(self, name: str, value: float, index: int = 0) -> None:
        self.tunables[index, TUNABLES.index(name)] = value

    def flow(self, field: str, index: int = 0) -> float:
        return float(self.flow_stats[index, FLOW_STATS.index(field)])

    def link(self, field: str) -> float:
        return float(self.link_stats[LINK_STATS.index(field)])

    def summary(self) -> Summary:
        flows = np.zeros((self.flows, len(FLOW_SUMMARY)))
        link = np.zeros(len(LINK_SUMMARY))
        self.native.summary(flows, link)
        return Summary(flows, link)

    def shown(self) -> bytes:
        """Everything that the caller sees at this moment."""
        tables = (self.tunables, self.flow_stats, self.link_stats)
        clock = f"{self.native.now_s!r} {self.native.done}".encode()
        return b"".join([*(table.tobytes() for table in tables), self.summary().bytes(), clock])


def life(simulation: Simulation, step_s: float = 0.1) -> bytes:
    """Everything that a simulation shows from now to its end, as bytes."""
    shown = [simulation.shown()]
    while not simulation.native.done:
        simulation.advance(step_s)
        shown.append(simulation.shown())
    return b"".join(shown)
