# SPDX-License-Identifier: GPL-2.0-only
"""Drives a controller the way a path would: ACKs with consistent counters, times and rates."""

import random
from collections.abc import Iterator
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
    ecn_ok: bool = False
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
            ecn_ok=self.ecn_ok,
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

    def lose(self, since: int = 1, **lost: Any) -> None:
        """Lose a packet, the last of so many lost since it left."""
        self.total_lost_pkts += since
        self.controller.on_packet_lost(
            now_us=self.now_us,
            delivered_pkts=self.delivered_pkts,
            total_lost_pkts=self.total_lost_pkts,
            lost_at_send_pkts=self.total_lost_pkts - since,
            **{"tx_in_flight_pkts": 40, **lost},
        )

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


def random_events(path: Path, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the state after each event of a life of ACKs, losses, timeouts, undos and silences, the same for a seed."""
    draw = random.Random(seed)
    ca_state, una, marked = OPEN, 0, 0
    for _ in range(count):
        event = draw.random()
        if event < 0.02:
            ca_state = draw.choice([OPEN, DISORDER, CWR, RECOVERY]) if ca_state == OPEN else OPEN
            path.controller.on_loss_state(ca_state, draw.randrange(100))
        elif event < 0.025:
            path.controller.on_rto(draw.randrange(100), draw.randrange(3), path.total_lost_pkts, draw.random() < 0.7)
            ca_state = LOSS
        elif event < 0.03:
            path.controller.on_undo()
        elif event < 0.04:
            path.now_us += draw.randrange(3_000_000)
            path.controller.on_restart(path.now_us, draw.random() < 0.5)
        elif event < 0.045:
            path.controller.on_idle(draw.randrange(10**6), draw.randrange(1, 300_000))
            path.controller.on_cwnd_underused(draw.randrange(50))
        elif event < 0.06:
            path.lose(
                draw.randrange(1, 4), tx_in_flight_pkts=draw.randrange(1, 100), is_app_limited=draw.random() < 0.2
            )
        elif event < 0.063:
            path.controller.on_probe_repair(path.now_us, path.delivered_pkts, draw.random() < 0.5)
        path.bw_Bps *= draw.choice([0.97, 1.0, 1.03])
        queue_us = draw.choice([0, draw.randrange(path.rtt_us)])
        acked_pkts = draw.randrange(4)
        una += acked_pkts if draw.random() < 0.9 else 0
        marked += draw.randrange(2) * acked_pkts
        rtt_us = draw.choice([-1, *[path.rtt_us + queue_us] * 3])
        yield path.ack(
            advance_us=draw.randrange(1, max(2, path.rtt_us // 4)),
            acked_pkts=acked_pkts,
            una_pkts=una,
            lost_pkts=draw.choice([0, 0, 0, 1]),
            rtt_us=rtt_us,
            srtt_us=path.rtt_us + queue_us,
            ca_state=ca_state,
            in_flight_pkts=draw.randrange(120),
            prior_in_flight_pkts=draw.randrange(120),
            departure_wait_us=draw.choice([0, draw.randrange(5000)]),
            tx_in_flight_pkts=draw.randrange(1, 100),
            lost_since_pkts=draw.choice([0, 0, draw.randrange(9)]),
            is_app_limited=draw.random() < 0.1,
            is_ack_delayed=draw.random() < 0.1,
            is_cwnd_limited=draw.random() < 0.8,
            has_sack=draw.random() < 0.2,
            is_reordering=draw.random() < 0.2,
            total_ce_pkts=marked,
            delivered_ce_pkts=draw.choice([0, draw.randrange(4)]),
            is_ece=draw.random() < 0.1,
            is_acking_tlp=draw.random() < 0.02,
        )
