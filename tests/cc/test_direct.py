# SPDX-License-Identifier: GPL-2.0-only
"""Variants whose rate or window is set from outside: direct, cubic-scaled, bbr-scaled."""

import numpy as np
import pytest
from driver import LOSS, MSS_BYTES, RECOVERY, Path, random_events
from hypothesis import given
from hypothesis import strategies as st

import bbrgym

A = st.floats(-2.0, 2.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", ["cubic", "bbr"])
def test_scaled_by_nothing_is_the_algorithm_bit_for_bit(variant: str, seed: int) -> None:
    alone, scaled = (Path(name, seed=seed, initial_cwnd_pkts=10 + seed) for name in (variant, f"{variant}-scaled"))
    assert list(random_events(alone, seed, 3000)) == list(random_events(scaled, seed, 3000))


@given(a=A)
def test_a_window_is_two_to_the_a_times_cubics_and_a_rate_bbrs(a: float) -> None:
    paths = {name: Path(name, initial_cwnd_pkts=1_000_000) for name in ("cubic", "cubic-scaled", "bbr", "bbr-scaled")}
    for name in ("cubic-scaled", "bbr-scaled"):
        paths[name].controller.set_tunable("scaled_exponent", a)
    for acked in (2, 3, 100):
        states = {name: path.ack(acked_pkts=acked, advance_us=1000) for name, path in paths.items()}
        for variant, key in (("cubic", "cwnd_pkts"), ("bbr", "pacing_Bps")):
            assert states[f"{variant}-scaled"][key] == pytest.approx(2**a * states[variant][key], rel=2e-4)
        assert states["bbr-scaled"]["cwnd_pkts"] == states["bbr"]["cwnd_pkts"]


@given(a=A)
def test_a_loss_scales_cubics_reduction_and_a_timeout_ends_with_what_is_in_flight(a: float) -> None:
    path = Path("cubic-scaled", initial_cwnd_pkts=1000)
    path.controller.set_tunable("scaled_exponent", a)
    before = path.ack(acked_pkts=0)["cwnd_pkts"]
    path.controller.on_loss_state(RECOVERY, before)
    assert path.state["cwnd_pkts"] == path.state["ssthresh_pkts"] == pytest.approx(0.7 * before, abs=2 + 2**a)
    assert path.ack(ca_state=RECOVERY)["cwnd_pkts"] == path.state["ssthresh_pkts"], "recovery keeps the window"
    path.controller.on_rto(10, 0, 10)
    assert path.state["cwnd_pkts"] == 1
    assert path.ack(ca_state=LOSS, acked_pkts=4)["cwnd_pkts"] >= 2


@given(gain=st.floats(0.25, 4.0), cwnd_gain=st.floats(0.25, 8.0))
def test_direct_paces_and_sends_by_factors_of_the_path(gain: float, cwnd_gain: float) -> None:
    path = Path("direct")
    path.controller.set_tunable("direct_pacing_gain", gain)
    path.controller.set_tunable("direct_cwnd_gain", cwnd_gain)
    state = path.ack()
    assert state["pacing_Bps"] == pytest.approx(gain * state["bw_Bps"], rel=1e-4)
    assert state["cwnd_pkts"] == max(4, np.ceil(round(cwnd_gain * 65536) / 65536 * path.model(state["bw_Bps"])))


@given(kbps=st.integers(100, 1_000_000), pkts=st.integers(4, 100_000))
def test_direct_takes_a_rate_and_a_window_as_they_are_told(kbps: int, pkts: int) -> None:
    path = Path("direct")
    for name, value in (("direct_unit", 1), ("direct_pacing_kbps", kbps), ("direct_cwnd_pkts", pkts)):
        path.controller.set_tunable(name, value)
    for state in random_events(path, pkts, 50):
        assert (state["pacing_Bps"], state["cwnd_pkts"]) == (kbps * 125, pkts)


def test_direct_sends_at_the_rate_told_and_never_more_than_its_window() -> None:
    tunables = {"direct_unit": 1, "direct_pacing_kbps": 3000, "direct_cwnd_pkts": 1000}
    scenario = {
        "link": {"rate_mbps": 10, "delay_ms": 20, "queue": {"size_bdp": 1}},
        "flows": [{"name": "a", "cc": "direct", "tunables": tunables, "rtt_ms": 50}],
        "duration_s": 10,
    }
    with bbrgym.make_world("twin", scenario, seed=3) as world:
        world.advance(5)
        column = world.flow_fields.index("goodput_mbps")
        assert world.flow_stats()[0, column] == pytest.approx(3.0, rel=0.02)
        world.set_tunables("a", {"direct_cwnd_pkts": 4})
        world.advance(1)
        world.advance(3)
        assert world.flow_stats()[0, column] == pytest.approx(4 * MSS_BYTES * 8 / 50e-3 / 1e6, rel=0.05)
