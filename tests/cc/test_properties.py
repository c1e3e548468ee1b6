# SPDX-License-Identifier: GPL-2.0-only
"""What must hold after any sequence of events, on paths from 1 kbit/s to 400 Gbit/s and 10 us to 10 s."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bbrgym import _cc

TUNABLES = _cc.tunables()
VARIANTS = [row["name"] for row in _cc.variants()]
BBR = [row["name"] for row in _cc.variants() if row["algorithm"] == "bbr"]
UNPACED = 2**64 - 1


class AnyLife(RuleBasedStateMachine):
    """A controller fed with whatever a path can bring, in any order."""

    @initialize(
        variant=st.sampled_from(VARIANTS),
        mss_bytes=st.sampled_from([100, 536, 1448, 9000, 60000]),
        initial=st.integers(1, 1000),
        srtt_us=st.sampled_from([0, 10, 40_000, 10_000_000]),
        seed=st.integers(0, 2**64 - 1),
    )
    def start(self, variant: str, mss_bytes: int, initial: int, srtt_us: int, seed: int) -> None:
        self.variant = variant
        self.controller = _cc.Controller(
            variant,
            srtt_us=srtt_us,
            min_rtt_us=srtt_us or 2**64 - 1,
            rng_seed=seed,
            mss_bytes=mss_bytes,
            initial_cwnd_pkts=initial,
        )
        self.mss_bytes = mss_bytes
        self.now_us = 0
        self.delivered_pkts = 0
        self.lost_pkts = 0
        # A timeout leaves one packet by contract; the floor holds again from the next delivery on.
        self.floor_pkts = 1
        self.ca_state = 0

    @rule(
        rate_bps=st.floats(1e3, 4e11),
        rtt_us=st.integers(10, 10_000_000),
        acked=st.integers(0, 100_000),
        lost=st.integers(0, 100_000),
        in_flight=st.integers(0, 2**31),
        measured=st.booleans(),
        valid=st.booleans(),
        flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
        repeat=st.integers(1, 30),
    )
    def acks(
        self,
        rate_bps: float,
        rtt_us: int,
        acked: int,
        lost: int,
        in_flight: int,
        measured: bool,
        valid: bool,
        flags: tuple[bool, bool, bool],
        repeat: int,
    ) -> None:
        for _ in range(repeat):
            self.now_us += max(1, int(acked * self.mss_bytes * 8e6 / rate_bps) % 10**9)
            prior = self.delivered_pkts
            self.delivered_pkts += acked
            self.lost_pkts += lost
            self.controller.on_ack(
                _cc.Sample(
                    now_us=self.now_us,
                    delivered_time_us=self.now_us,
                    delivered_pkts=self.delivered_pkts,
                    prior_delivered_pkts=prior,
                    total_lost_pkts=self.lost_pkts,
                    sample_pkts=int(rate_bps * rtt_us / 8e6 / self.mss_bytes) if valid else -1,
                    interval_us=rtt_us if valid else -1,
                    rtt_us=rtt_us if measured else -1,
                    srtt_us=rtt_us,
                    min_rtt_us=rtt_us,
                    acked_pkts=acked,
                    lost_pkts=lost,
                    prior_in_flight_pkts=in_flight,
                    in_flight_pkts=in_flight,
                    ca_state=self.ca_state,
                    is_app_limited=flags[0],
                    is_ack_delayed=flags[1],
                    is_cwnd_limited=flags[2],
                )
            )
            if acked > 0:
                conserves = self.controller.state["packet_conservation"]
                self.floor_pkts = 4 if self.variant in BBR and not conserves else 1
            self.check()

    @rule(state=st.integers(0, 3), in_flight=st.integers(0, 2**31))
    def loss_state(self, state: int, in_flight: int) -> None:
        self.ca_state = state
        self.controller.on_loss_state(state, in_flight)

    @rule(prior=st.integers(0, 2**31), in_flight=st.integers(0, 2**31))
    def timeout(self, prior: int, in_flight: int) -> None:
        self.ca_state = 4
        self.lost_pkts += prior
        self.controller.on_rto(prior, in_flight, self.lost_pkts)
        self.floor_pkts = 1
        assert self.controller.state["cwnd_pkts"] == in_flight + 1

    @rule(idle_us=st.integers(0, 10**9), app_limited=st.booleans())
    def restart(self, idle_us: int, app_limited: bool) -> None:
        self.now_us += idle_us
        self.controller.on_restart(self.now_us, app_limited)

    @rule()
    def undo(self) -> None:
        self.controller.on_undo()

    @rule(row=st.sampled_from(TUNABLES), part=st.floats(0, 1))
    def tune(self, row: dict[str, Any], part: float) -> None:
        self.controller.set_tunable(row["name"], row["low"] + part * (row["high"] - row["low"]))

    @invariant()
    def check(self) -> None:
        if not hasattr(self, "controller"):
            return
        state = self.controller.state
        assert state["cwnd_pkts"] >= min(self.floor_pkts, 4)
        assert 0 < state["pacing_Bps"] <= UNPACED
        if self.variant in BBR:
            assert state["pacing_Bps"] != UNPACED
            assert state["pacing_gain_q16"] > 0
        else:
            assert state["pacing_Bps"] == UNPACED
        assert state["phase"] in {0, 1, 2, *range(8, 18)}
        assert state["min_rtt_us"] > 0


TestAnyLife = AnyLife.TestCase
TestAnyLife.settings = settings(max_examples=120, stateful_step_count=40)
