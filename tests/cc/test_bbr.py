# SPDX-License-Identifier: GPL-2.0-only
"""BBR v1: what the kernel's traces (test_kernel.py), which hold every transition, do not show."""

from collections import Counter

import pytest
from driver import (
    DRAIN,
    LOSS,
    MSS_BYTES,
    OPEN,
    PROBE_BW,
    PROBE_RTT,
    RECOVERY,
    STARTUP,
    Path,
)

UP, DOWN, CRUISE = 1.25, 0.75, 1.0


def gain(state: dict) -> float:
    return state["pacing_gain_q16"] / 65536


def in_probe_bw(**settings: object) -> Path:
    path = Path(**settings)  # type: ignore[arg-type]
    path.until_probe_bw()
    return path


# ---- STARTUP, DRAIN ----


def test_growth_of_a_quarter_keeps_startup() -> None:
    path = Path(bw_Bps=100_000)
    for _ in range(20):
        path.bw_Bps *= 1.26
        round_count = path.state["round_count"]
        while path.state["round_count"] == round_count:
            state = path.ack()
    assert state["phase"] == STARTUP
    assert not state["full_bw_reached"]


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


def test_an_up_gain_of_two_leaves_three_tenths_on_the_way_down() -> None:
    path = in_probe_bw()
    path.controller.set_tunable("bbr_up_gain", 2.0)
    path.until(PROBE_BW + 0)
    assert gain(path.ack(prior_in_flight_pkts=1)) == 2.0
    path.until(PROBE_BW + 1, prior_in_flight_pkts=10_000)
    assert gain(path.state) == pytest.approx(0.3, abs=1e-4)


def test_without_deliveries_a_packet_a_minute_is_still_paced() -> None:
    path = in_probe_bw()
    for _ in range(40):
        state = path.ack(sample_pkts=0, prior_delivered_pkts=path.delivered_pkts)
    assert state["bw_Bps"] == 0
    assert MSS_BYTES / 64 <= state["pacing_Bps"] < MSS_BYTES / 32


# ---- samples ----


def test_an_invalid_sample_starts_no_round_and_feeds_no_filter() -> None:
    path = in_probe_bw()
    before = path.ack()
    state = path.ack(sample_pkts=-1, interval_us=-1, prior_delivered_pkts=path.delivered_pkts)
    assert not state["round_start"]
    assert state["round_count"] == before["round_count"]
    assert state["bw_Bps"] == before["bw_Bps"]


# ---- recovery ----


@pytest.mark.parametrize(("stack", "cwnd_pkts"), [("ns3", 4), ("linux-6", 1)])
def test_conservation_keeps_the_floor_in_no_linux(stack: str, cwnd_pkts: int) -> None:
    path = in_probe_bw(stack=stack)
    path.controller.on_loss_state(RECOVERY, 0)
    state = path.ack(ca_state=RECOVERY, acked_pkts=1, in_flight_pkts=0, lost_pkts=70, prior_delivered_pkts=0)
    assert state["packet_conservation"]
    assert state["cwnd_pkts"] == cwnd_pkts


def test_conservation_may_end_with_the_ack_that_begins_recovery() -> None:
    path = in_probe_bw(facts={"conservation": 1})
    path.controller.on_loss_state(RECOVERY, 30)
    state = path.ack(ca_state=RECOVERY, lost_pkts=3, prior_in_flight_pkts=30, in_flight_pkts=25, prior_delivered_pkts=0)
    assert not state["packet_conservation"]
    assert state["cwnd_pkts"] == 30 + 2 - 3
    state = path.ack(ca_state=RECOVERY, in_flight_pkts=10, prior_delivered_pkts=0)
    assert state["cwnd_pkts"] == 29 + 2, "it grows again in the same round"


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


def test_windows_in_bytes_send_the_whole_packets_that_fit() -> None:
    path = in_probe_bw()
    in_bytes = in_probe_bw(facts={"window_unit": 1, "probe_headroom": 0, "aggregation_bonus": 0})
    for _ in range(200):
        path.ack()
        in_bytes.ack()
    model_pkts = path.model() * in_bytes.state["cwnd_gain_q16"] / 65536
    bursts_pkts = 3 * 2
    assert in_bytes.state["cwnd_pkts"] == int(model_pkts) + bursts_pkts
    assert path.state["cwnd_pkts"] % 2 == 0
    assert path.state["cwnd_pkts"] >= model_pkts + bursts_pkts


@pytest.mark.parametrize(
    ("before", "after", "in_flight_of", "leaves"), [(70, 1, 0, True), (70, 1, 1, False), (1, 70, 1, True)]
)
def test_drain_ends_by_what_was_in_flight_after_the_ack_or_before(
    before: int, after: int, in_flight_of: int, leaves: bool
) -> None:
    path = Path(facts={"in_flight_of": in_flight_of, "in_flight_at_departure": 0})
    path.until(DRAIN, in_flight_pkts=10_000, prior_in_flight_pkts=10_000)
    state = path.ack(in_flight_pkts=after, prior_in_flight_pkts=before)
    assert (state["phase"] >= PROBE_BW) is leaves


@pytest.mark.parametrize(("any_phase", "phases"), [(0, 7), (1, 8)])
def test_the_down_phase_may_be_the_first(any_phase: int, phases: int) -> None:
    first = {in_probe_bw(seed=seed, facts={"any_first_phase": any_phase}).state["phase"] for seed in range(200)}
    assert len(first) == phases
    assert (PROBE_BW + 1 in first) is bool(any_phase)


@pytest.mark.parametrize("detects", [0, 1])
def test_a_policer_is_detected_by_a_stack_that_looks_for_one(detects: int) -> None:
    path = in_probe_bw(facts={"policer_detection": detects})
    used = any(path.ack(lost_pkts=1)["policer_in_use"] for _ in range(3000))
    assert used is bool(detects)


def test_a_timeout_leaves_the_count_of_full_rounds_alone() -> None:
    path = Path()
    path.until(DRAIN, in_flight_pkts=10_000)
    path.controller.on_rto(50, 0, 50)
    state = path.state
    assert state["full_bw_reached"]
    assert state["full_bw_count"] == 3
    assert state["round_start"]


def test_undo_starts_the_plateau_count_anew() -> None:
    path = Path()
    for _ in range(80):
        path.ack()
    path.controller.on_undo()
    assert path.state["full_bw_Bps"] == 0
    assert path.state["full_bw_count"] == 0


# ---- ACK aggregation, policer ----


def test_a_policer_is_found_used_and_let_go() -> None:
    path = in_probe_bw()
    for _ in range(3000):
        state = path.ack(lost_pkts=1)
        if state["policer_in_use"]:
            break
    assert state["policer_in_use"], "a third of all packets lost at a steady rate"
    assert state["policer_bw_Bps"] == pytest.approx(path.bw_Bps, rel=0.2)
    assert gain(path.ack()) == 1.0
    rounds = path.state["round_count"]
    while path.state["policer_in_use"]:
        path.ack()
        assert path.state["round_count"] <= rounds + 60
    assert path.state["round_count"] >= rounds + 46


def test_losses_of_a_tenth_are_no_policer() -> None:
    path = in_probe_bw()
    for i in range(5000):
        state = path.ack(lost_pkts=1 if i % 5 == 0 else 0)
        assert not state["policer_in_use"]
