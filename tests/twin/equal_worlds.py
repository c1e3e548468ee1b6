# SPDX-License-Identifier: GPL-2.0-only
"""A scenario in the twin and in ns-3: where ACKs' records, intervals' tables and summaries first differ."""

from typing import Any

import numpy as np
from native_simulation import FLOW_STATS, LINK_STATS, LINK_SUMMARY, Summary
from twin_harness import Mapping, Simulation

from bbrgym import _ns3, _twin

MAX_ACKS = 10**6

Columns = dict[str, np.ndarray]


def compared(
    mapping: Mapping, seed: int = 1, step_s: float = 0.1, changes: Mapping | None = None
) -> tuple[Columns, str | None]:
    """Return all that ns-3 shows, by name, and the first difference of the twin; None: it is equal, bit for bit.

    ``changes``: tunables of flow 0 to set before the step of a number.
    """
    lives = (life(engine, mapping, seed, step_s, changes or {}) for engine in (_ns3, _twin))
    (ns3, ns3_summary), (twin, twin_summary) = lives
    differences = (difference(name, column, twin[name]) for name, column in ns3.items())
    first = next((sentence for sentence in differences if sentence), None)
    if first is None and twin_summary.bytes() != ns3_summary.bytes():
        first = f"the summaries: ns-3 has {ns3_summary}, the twin {twin_summary}"
    return ns3, first


def life(engine: Any, mapping: Mapping, seed: int, step_s: float, changes: Mapping) -> tuple[Columns, Summary]:
    """Return everything that a run shows, by name, and its summary."""
    simulation = Simulation(mapping, seed, engine)
    try:
        for index in range(simulation.flows):
            simulation.native.trace_acks(0, index, MAX_ACKS)
        rows, links = [], []
        while not simulation.done:
            for name, value in changes.get(len(rows), {}).items():
                simulation.set(name, value)
            simulation.advance(step_s)
            rows.append((simulation.flow_stats.copy(), simulation.link_stats.copy()))
            if len(mapping.get("links", [])) > 1:
                links.append(simulation.native.links(0))
        shown = {}
        for index in range(simulation.flows):
            trace = simulation.native.ack_trace(0, index)
            shown |= {f"flow {index}, ACKs' {name}": trace[name].copy() for name in trace.dtype.names}
            for column, name in enumerate(FLOW_STATS):
                shown[f"flow {index}, {name}"] = np.array([flows[index, column] for flows, _ in rows])
        for column, name in enumerate(LINK_STATS):
            shown[f"link, {name}"] = np.array([link[column] for _, link in rows])
        for name, column in zip([*LINK_STATS, *LINK_SUMMARY], np.nan_to_num(links).T, strict=False):
            shown[f"links, {name}"] = column.T.ravel()
        return shown, simulation.summary()
    finally:
        simulation.native.close()


def difference(name: str, ns3: np.ndarray, twin: np.ndarray) -> str | None:
    """Return a sentence that tells where two columns differ first; None: nowhere."""
    shared = min(len(ns3), len(twin))
    unequal = np.flatnonzero(ns3[:shared] != twin[:shared])
    if len(unequal):
        first = unequal[0]
        return f"{name}: at {first} of {shared} ns-3 has {ns3[first]}, the twin {twin[first]}"
    return None if len(ns3) == len(twin) else f"{name}: ns-3 has {len(ns3)} numbers, the twin {len(twin)}"
