# SPDX-License-Identifier: GPL-2.0-only
"""Small scenarios, and the native module that runs them."""

import json
from typing import Any

from native_simulation import NativeSimulation

import bbrgym
from bbrgym import _twin

Mapping = dict[str, Any]


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


class Simulation(NativeSimulation):
    """A simulation of a world's native module, the twin's unless said."""

    def __init__(self, mapping: Mapping, seed: int = 1, engine: Any = _twin) -> None:
        super().__init__(engine, json.loads(resolved_json(mapping)), seed)


def life(simulation: Simulation, step_s: float = 0.1) -> bytes:
    """Everything that a simulation shows from now to its end, as bytes."""
    shown = [simulation.shown()]
    while not simulation.done:
        simulation.advance(step_s)
        shown.append(simulation.shown())
    return b"".join(shown)
