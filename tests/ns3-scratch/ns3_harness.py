# SPDX-License-Identifier: GPL-2.0-only
"""Small resolved scenarios, and the native module that runs them."""

from typing import Any

from native_simulation import NativeSimulation

from bbrgym import _ns3
from bbrgym.scenario.stack import SenderStack

Scenario = dict[str, Any]


def flow(name: str = "a", cc: str = "reno", rtt_ms: float = 40.0, **changes: Any) -> Scenario:
    """A resolved flow: bulk, from 0 s on, for longer than any scenario here lasts."""
    return {
        "name": name,
        "cc": cc,
        "role": "fixed",
        "rtt_ms": rtt_ms,
        "start_s": 0.0,
        "stop_s": 1000.0,
        "app": {"kind": "bulk", "size_bytes": None},
        "stack": SenderStack(preset="linux-6").over(None).model_dump(),
        "tunables": {},
        **changes,
    }


def queue(**changes: Any) -> Scenario:
    """A resolved drop-tail queue of 50 kB, which is one BDP of `scenario`'s defaults."""
    size = {} if "size_packets" in changes else {"size_bytes": 50_000}
    names = ["size_bytes", "size_packets", "red", "codel", "quantum_bytes"]
    thresholds = [f"ecn_threshold_{unit}" for unit in ("bytes", "packets", "ms")]
    return {"kind": "droptail", "ecn": False, **dict.fromkeys([*names, *thresholds]), **size, **changes}


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
            "policer": None,
            "queue": queue(),
            "loss": {"kind": "none"},
            "jitter": None,
            "acks": {"kind": "at_once"},
            "changes": [],
            "last_hop": None,
            **link,
        },
        "flows": list(flows) or [flow()],
    }


class Simulation(NativeSimulation):
    """A simulation of the ns-3 world's native module."""

    def __init__(self, resolved: Scenario, seed: int = 1) -> None:
        super().__init__(_ns3, resolved, seed)
