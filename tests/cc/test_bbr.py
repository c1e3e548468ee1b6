# SPDX-License-Identifier: GPL-2.0-only
"""BBR v1: what the kernel's traces (test_kernel.py), which hold every transition, do not show."""

from collections import Counter

import pytest
from driver import LOSS, MSS_BYTES, OPEN, PROBE_BW, PROBE_RTT, RECOVERY, Path


def in_probe_bw(**settings: object) -> Path:
    path = Path(**settings)  # type: ignore[arg-type]
    path.until_probe_bw()
    return path


# ---- PROBE_BW ----


def test_first_phase_is_uniform_and_never_down() -> None:
    draws = 490
    count = Counter(in_probe_bw(seed=seed).state["phase"] - PROBE_BW for seed in range(draws))
    assert set(count) == {0, 2, 3, 4, 5, 6, 7}
    expected = draws / 7
    chi_square = sum((count[phase] - expected) ** 2 / expected for phase in count)
    assert chi_square < 22.46, "chi-square with 6 degrees of freedom at p = 0.001"


# ---- PROBE_RTT ----


def test_what_is_sent_in_probe_rtt_is_marked_application_limited() -> None:
    path = in_probe_bw()
    assert path.until(PROBE_RTT, rtt_us=path.rtt_us + 500)["mark_app_limited"]
    path.until(*range(PROBE_BW, PROBE_BW + 8), in_flight_pkts=4, advance_us=5000)
    assert not path.ack()["mark_app_limited"]


@pytest.mark.parametrize(("stack", "puts_off"), [("linux-4.17", True), ("linux-5.10", False)])
def test_an_equal_minimum_puts_probe_rtt_off_until_linux_5_9(stack: str, puts_off: bool) -> None:
    path = in_probe_bw(stack=stack)
    phases = {path.ack(rtt_us=path.rtt_us)["phase"] for _ in range(6000)}
    assert (PROBE_RTT not in phases) == puts_off


@pytest.mark.parametrize(("model_rtt", "seen_us"), [(0, 31_000), (1, 35_000)])
def test_the_model_takes_the_newest_rtt_or_tcps_smoothed_one(model_rtt: int, seen_us: int) -> None:
    path = Path("bbr", facts={"model_rtt": model_rtt})
    path.ack(rtt_us=31_000, srtt_us=35_000)
    assert path.state["min_rtt_us"] == seen_us


@pytest.mark.parametrize(("stack", "overhead_bytes"), [("linux-6", 0), ("linux-4.17", 40)])
def test_pacing_that_counts_headers_carries_the_same_payload(stack: str, overhead_bytes: int) -> None:
    """Before Linux 4.20 the rate is of whole packets, and 1 % higher."""
    path = in_probe_bw(stack=stack)
    while path.state["pacing_gain_q16"] != 65536:
        path.ack()
    state = path.state
    assert state["pacing_overhead_bytes"] == overhead_bytes
    payload_Bps = state["pacing_Bps"] * MSS_BYTES / (MSS_BYTES + overhead_bytes)
    assert payload_Bps == pytest.approx(state["bw_Bps"] * (0.99 if overhead_bytes == 0 else 1.0), rel=1e-4)


def test_silence_in_probe_rtt_may_end_it_and_the_first_ack_cruises() -> None:
    """The gain in effect is still PROBE_RTT's 1, so the phase drawn, be it "up", ends by its length (Linux)."""
    drew_up = 0
    for seed in range(40):
        path = in_probe_bw(seed=seed)
        path.until(PROBE_RTT, rtt_us=path.rtt_us + 500, prior_in_flight_pkts=10_000, advance_us=50_000)
        path.ack(in_flight_pkts=4)
        path.now_us += 100_000
        path.controller.on_restart(path.now_us, True)
        assert path.state["phase"] == PROBE_RTT, "200 ms are not over"
        path.now_us += 200_000
        path.controller.on_restart(path.now_us, False)
        assert path.state["phase"] == PROBE_RTT, "the application was not what held the flow back"
        path.controller.on_restart(path.now_us, True)
        phase = path.state["phase"] - PROBE_BW
        assert phase in {0, 2, 3, 4, 5, 6, 7}
        drew_up += phase == 0
        assert path.ack(prior_in_flight_pkts=1)["phase"] - PROBE_BW == (phase + 1) % 8
    assert drew_up > 0


# ---- recovery ----


@pytest.mark.parametrize(("restores", "floor_pkts"), [(1, True), (0, False)])
def test_the_end_of_loss_restores_the_window_or_does_not(restores: int, floor_pkts: bool) -> None:
    path = in_probe_bw(facts={"restore_after_timeout": restores})
    before = path.state["cwnd_pkts"]
    path.controller.on_rto(before, 0, before)
    path.ack(ca_state=LOSS, in_flight_pkts=1, prior_delivered_pkts=0)
    path.controller.on_loss_state(OPEN, 4)
    window = path.ack(ca_state=OPEN, in_flight_pkts=4, prior_delivered_pkts=0)["cwnd_pkts"]
    assert (window >= before) is floor_pkts
    path.controller.on_loss_state(RECOVERY, 4)
    path.ack(ca_state=RECOVERY, in_flight_pkts=4, prior_delivered_pkts=0)
    path.controller.on_loss_state(OPEN, 4)
    assert path.ack(ca_state=OPEN, in_flight_pkts=4, prior_delivered_pkts=0)["cwnd_pkts"] >= window


# ---- policer ----


def test_losses_of_a_tenth_are_no_policer() -> None:
    path = in_probe_bw()
    for i in range(5000):
        state = path.ack(lost_pkts=1 if i % 5 == 0 else 0)
        assert not state["policer_in_use"]
