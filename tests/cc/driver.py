# SPDX-License-Identifier: GPL-2.0-only
"""Drives a controller the way a path would: ACKs with consistent counters, times and rates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bbrgym import _cc

MSS_BYTES = 1448
OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)
STARTUP, DRAIN, PROBE_RTT, PROBE_BW = 0, 1, 2, 8


@dataclass
class Path:
    """A path of a given rate and RTT, acknowledging as told; keeps the counters a world would keep."""

    variant: str = "bbr"
    bw_Bps: float = 1_205_000.0  # noqa: N815 (Bps is a unit)
    rtt_us: int = 40_000
    seed: int = 1
    initial_cwnd_pkts: int = 10
    now_us: int = 1_000_000
    delivered_pkts: int = 0
    total_lost_pkts: int = 0
    srtt_us: int = 0
    stack: str = "linux-6"
    facts: dict[str, int] = field(default_factory=dict)
    controller: Any = field(init=False)

    def __post_init__(self) -> None:
        self.srtt_us = self.srtt_us or self.rtt_us
        self.controller = _cc.Controller(
            self.variant,
            now_us=self.now_us,
            srtt_us=self.srtt_us,
            min_rtt_us=self.rtt_us,
            rng_seed=self.seed,
            mss_bytes=MSS_BYTES,
            initial_cwnd_pkts=self.initial_cwnd_pkts,
            stack=self.stack,
            facts=self.facts,
        )

    @property
    def state(self) -> dict[str, Any]:
        return self.controller.state

    def ack(self, **changes: Any) -> dict[str, Any]:
        """One ACK of two packets, sampled over a round trip at the path's rate; ``changes`` override."""
        acked = changes.get("acked_pkts", 2)
        advance_us = changes.pop("advance_us", max(1, round(acked * MSS_BYTES * 1e6 / self.bw_Bps)))
        self.now_us += advance_us
        self.delivered_pkts += acked
        self.total_lost_pkts += changes.get("lost_pkts", 0)
        in_flight = max(1, round(self.bw_Bps * self.rtt_us / 1e6 / MSS_BYTES))
        interval_us = self.rtt_us
        sample = {
            "now_us": self.now_us,
            "delivered_time_us": self.now_us,
            "delivered_pkts": self.delivered_pkts,
            "prior_delivered_pkts": max(0, self.delivered_pkts - in_flight),
            "total_lost_pkts": self.total_lost_pkts,
            "sample_pkts": in_flight,
            "interval_us": interval_us,
            "rtt_us": self.rtt_us,
            "srtt_us": self.srtt_us,
            "min_rtt_us": self.rtt_us,
            "una_pkts": self.delivered_pkts,
            "next_pkts": self.delivered_pkts + in_flight,
            "acked_pkts": acked,
            "prior_in_flight_pkts": in_flight,
            "in_flight_pkts": in_flight,
            "is_cwnd_limited": True,
        }
        sample.update(changes)
        self.controller.on_ack(_cc.Sample(**sample))
        return self.state

    def until(self, *phases: int, **changes: Any) -> dict[str, Any]:
        """ACKs until the controller is in one of ``phases``."""
        state = self.state
        for _ in range(200_000):
            if state["phase"] in phases:
                return state
            state = self.ack(**changes)
        raise AssertionError(f"none of {phases} was reached, last state {state}")

    def until_probe_bw(self) -> dict[str, Any]:
        return self.until(*range(PROBE_BW, PROBE_BW + 8))

    def model(self, bw_Bps: float | None = None) -> float:
        return (bw_Bps or self.bw_Bps) * self.rtt_us / 1e6 / MSS_BYTES
