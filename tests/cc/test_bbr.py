# SPDX-License-Identifier: GPL-2.0-only
"""BBR v1's state machine: every transition, hook by hook (Linux tcp_bbr.c)."""

import itertools
from collections import Counter

import pytest
from driver import (
    CWR,
    DISORDER,
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

from bbrgym import _cc

UP, DOWN, CRUISE = 1.25, 0.75, 1.0


def gain(state: dict) -> float:
    return state["pacing_gain_q16"] / 65536


def in_probe_bw(**settings: object) -> Path:
    path = Path(**settings)  # type: ignore[arg-type]
    path.until_probe_bw()
    return path


# ---- STARTUP, DRAIN ----


def test_startup_ends_after_three_rounds_without_growth() -> None:
    path = Path()
    state = path.until(DRAIN, in_flight_pkts=10_000)
    assert state["full_bw_reached"]
    assert state["full_bw_count"] == 3
    assert state["pacing_gain_q16"] == 88 * 256
    assert state["ssthresh_pkts"] < 2**32 - 1


def test_growth_of_a_quarter_keeps_startup() -> None:
    path = Path(bw_Bps=100_000)
    for _ in range(20):
        path.bw_Bps *= 1.26
        round_count = path.state["round_count"]
        while path.state["round_count"] == round_count:
            state = path.ack()
    assert state["phase"] == STARTUP
    assert not state["full_bw_reached"]


def test_app_limited_rounds_do_not_fill_the_pipe() -> None:
    path = Path()
    for _ in range(2000):
        state = path.ack(is_app_limited=True)
    assert state["phase"] == STARTUP


def test_the_first_ten_packets_grow_the_window_whatever_the_target() -> None:
    path = Path(bw_Bps=2000, rtt_us=1_000_000, initial_cwnd_pkts=40)
    assert [path.ack(prior_delivered_pkts=0, advance_us=1000)["cwnd_pkts"] for _ in range(6)] == [
        42,
        44,
        46,
        48,
        48,
        48,
    ]


def test_pacing_waits_for_the_first_rtt() -> None:
    controller = _cc.Controller("bbr")
    nominal_Bps = controller.state["pacing_Bps"]
    sample = {"now_us": 40_000, "delivered_time_us": 40_000, "sample_pkts": -1, "interval_us": -1, "rtt_us": 40_000}
    controller.on_ack(_cc.Sample(**sample, srtt_us=40_000, acked_pkts=0))
    assert controller.state["pacing_Bps"] == pytest.approx(nominal_Bps / 40, rel=1e-3)


def test_pacing_never_falls_in_startup() -> None:
    path = Path()
    before = path.state["pacing_Bps"]
    for _ in range(50):
        after = path.ack(sample_pkts=1)["pacing_Bps"]
        assert after >= before
        before = after


def test_drain_ends_when_the_queue_is_gone() -> None:
    path = Path()
    path.until(DRAIN, in_flight_pkts=10_000)
    assert path.ack(in_flight_pkts=10_000)["phase"] == DRAIN
    assert path.ack(in_flight_pkts=1)["phase"] >= PROBE_BW


def test_startup_and_drain_may_pass_on_one_ack() -> None:
    path = Path()
    while path.state["phase"] == STARTUP:
        state = path.ack(in_flight_pkts=1)
    assert state["phase"] >= PROBE_BW


# ---- PROBE_BW ----


def test_first_phase_is_uniform_and_never_down() -> None:
    draws = 490
    count = Counter(in_probe_bw(seed=seed).state["phase"] - PROBE_BW for seed in range(draws))
    assert set(count) == {0, 2, 3, 4, 5, 6, 7}
    expected = draws / 7
    chi_square = sum((count[phase] - expected) ** 2 / expected for phase in count)
    assert chi_square < 22.46, "chi-square with 6 degrees of freedom at p = 0.001"


def test_cycle_order_and_gains() -> None:
    path = in_probe_bw()
    seen = []
    for _ in range(3000):
        state = path.ack(prior_in_flight_pkts=10_000)
        if not seen or seen[-1][0] != state["phase"] - PROBE_BW:
            seen.append((state["phase"] - PROBE_BW, gain(state)))
        if len(seen) > 18:
            break
    for (phase, _), (following, g) in itertools.pairwise(seen):
        assert following == (phase + 1) % 8
        assert g == {0: UP, 1: DOWN}.get(following, CRUISE)


def test_probe_up_lasts_until_the_target_is_in_flight() -> None:
    path = in_probe_bw()
    path.until(PROBE_BW + 0)
    for _ in range(200):
        assert path.ack(prior_in_flight_pkts=10)["phase"] == PROBE_BW + 0
    assert path.ack(prior_in_flight_pkts=10_000)["phase"] == PROBE_BW + 1


def test_probe_up_ends_with_a_loss_after_a_round_trip() -> None:
    path = in_probe_bw()
    path.until(PROBE_BW + 0)
    assert path.ack(prior_in_flight_pkts=10, lost_pkts=1)["phase"] == PROBE_BW + 0, "not before"
    for _ in range(40):
        path.ack(prior_in_flight_pkts=10)
    assert path.ack(prior_in_flight_pkts=10, lost_pkts=1)["phase"] == PROBE_BW + 1


def test_probe_down_ends_as_soon_as_one_bdp_is_in_flight() -> None:
    path = in_probe_bw()
    path.until(PROBE_BW + 1, prior_in_flight_pkts=10_000)
    assert path.ack(prior_in_flight_pkts=10_000)["phase"] == PROBE_BW + 1
    assert path.ack(prior_in_flight_pkts=1)["phase"] == PROBE_BW + 2


def test_window_settles_at_the_quantised_target() -> None:
    path = in_probe_bw()
    path.until(PROBE_BW + 3, prior_in_flight_pkts=10_000)
    for _ in range(20):
        state = path.ack(prior_in_flight_pkts=10)
        if state["phase"] != PROBE_BW + 0:
            assert state["cwnd_pkts"] % 2 == 0
            assert 74 <= state["cwnd_pkts"] <= 80


# ---- PROBE_RTT ----


def test_probe_rtt_by_the_clock() -> None:
    path = in_probe_bw()
    before = path.state["cwnd_pkts"]
    while path.state["phase"] != PROBE_RTT:
        state = path.ack(rtt_us=path.rtt_us + 500, prior_in_flight_pkts=10_000)
    assert path.now_us - 1_000_000 > 10_000_000, "not before ten seconds without a new minimum"
    assert state["cwnd_pkts"] == 4
    assert state["mark_app_limited"]
    assert gain(state) == 1.0

    state = path.ack(in_flight_pkts=4, advance_us=1000)
    at_floor_us = path.now_us
    assert state["probe_rtt_done_us"] == at_floor_us + 200_000
    while path.state["phase"] == PROBE_RTT:
        state = path.ack(in_flight_pkts=4, prior_delivered_pkts=path.delivered_pkts, advance_us=5000)
        assert path.now_us < at_floor_us + 400_000
    assert path.now_us > at_floor_us + 200_000
    assert state["cwnd_pkts"] >= min(before, 70), "the window is restored"
    assert not path.ack()["mark_app_limited"]


def test_probe_rtt_needs_a_round_as_well() -> None:
    path = in_probe_bw()
    path.until(PROBE_RTT, rtt_us=path.rtt_us + 500)
    path.ack(in_flight_pkts=4)
    for _ in range(100):
        state = path.ack(in_flight_pkts=4, prior_delivered_pkts=0, advance_us=5000)
    assert state["phase"] == PROBE_RTT


def test_probe_rtt_in_startup_returns_to_startup() -> None:
    path = Path()
    path.until(PROBE_RTT, rtt_us=path.rtt_us + 500, is_app_limited=True, advance_us=50_000)
    path.ack(in_flight_pkts=1)
    while path.state["phase"] == PROBE_RTT:
        state = path.ack(
            in_flight_pkts=1,
            prior_delivered_pkts=path.delivered_pkts,
            is_app_limited=True,
            advance_us=50_000,
        )
    assert state["phase"] == STARTUP


@pytest.mark.parametrize(("stack", "puts_off"), [("linux-4.17", True), ("linux-5.10", False)])
def test_an_equal_minimum_puts_probe_rtt_off_until_linux_5_9(stack: str, puts_off: bool) -> None:
    path = in_probe_bw(stack=stack)
    phases = {path.ack(rtt_us=path.rtt_us)["phase"] for _ in range(6000)}
    assert (PROBE_RTT not in phases) == puts_off


def test_a_lower_minimum_puts_probe_rtt_off() -> None:
    path = in_probe_bw(rtt_us=100_000)
    for i in range(6000):
        assert path.ack(rtt_us=path.rtt_us - i)["phase"] != PROBE_RTT


@pytest.mark.parametrize(("model_rtt", "seen_us"), [(0, 31_000), (1, 35_000)])
def test_the_model_takes_the_newest_rtt_or_tcps_smoothed_one(model_rtt: int, seen_us: int) -> None:
    path = Path("bbr", facts={"model_rtt": model_rtt})
    path.ack(rtt_us=31_000, srtt_us=35_000)
    assert path.state["min_rtt_us"] == seen_us


def test_a_delayed_ack_does_not_replace_an_expired_minimum() -> None:
    path = in_probe_bw()
    late = path.rtt_us + 200_000
    path.ack(rtt_us=late, is_ack_delayed=True, advance_us=11_000_000)
    assert path.state["min_rtt_us"] == path.rtt_us
    path.ack(rtt_us=late, is_ack_delayed=False, advance_us=1)
    assert path.state["min_rtt_us"] == late


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


def test_idle_restart_neither_bursts_nor_enters_probe_rtt() -> None:
    path = in_probe_bw()
    path.now_us += 11_000_000
    path.controller.on_restart(path.now_us, True)
    state = path.state
    assert state["idle_restart"]
    assert state["pacing_Bps"] <= path.bw_Bps
    state = path.ack(rtt_us=path.rtt_us + 10, sample_pkts=0)
    assert state["phase"] != PROBE_RTT
    assert state["idle_restart"]
    assert not path.ack(sample_pkts=5)["idle_restart"]


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


def test_an_app_limited_sample_counts_only_if_it_is_higher() -> None:
    path = in_probe_bw()
    bw = path.state["bw_Bps"]
    for _ in range(2000):
        path.ack(sample_pkts=1, is_app_limited=True)
    assert path.state["bw_Bps"] == bw
    assert path.ack(sample_pkts=100, is_app_limited=True)["bw_Bps"] > bw


def test_bandwidth_is_forgotten_after_ten_rounds() -> None:
    path = in_probe_bw()
    path.bw_Bps /= 2
    rounds = path.state["round_count"]
    while path.state["bw_Bps"] > 0.6 * 1_205_000:
        path.ack()
        assert path.state["round_count"] <= rounds + 12
    assert path.state["round_count"] >= rounds + 10


# ---- recovery ----


def test_recovery_conserves_packets_for_one_round_then_restores() -> None:
    path = in_probe_bw()
    before = path.state["cwnd_pkts"]
    path.controller.on_loss_state(RECOVERY, 30)
    state = path.ack(ca_state=RECOVERY, lost_pkts=3, in_flight_pkts=30, prior_delivered_pkts=0)
    assert state["packet_conservation"]
    assert state["cwnd_pkts"] == 32
    state = path.ack(ca_state=RECOVERY, in_flight_pkts=20, prior_delivered_pkts=0)
    assert state["packet_conservation"]
    assert state["cwnd_pkts"] == 32, "never below what it was"
    state = path.ack(ca_state=RECOVERY, in_flight_pkts=20, prior_delivered_pkts=path.delivered_pkts)
    assert not state["packet_conservation"], "a round has passed"
    path.controller.on_loss_state(OPEN, 20)
    assert path.ack(ca_state=OPEN)["cwnd_pkts"] >= before


@pytest.mark.parametrize("state", [CWR, RECOVERY])
def test_the_window_is_saved_when_it_is_about_to_be_reduced(state: int) -> None:
    path = in_probe_bw()
    before = path.state["cwnd_pkts"]
    path.controller.on_loss_state(DISORDER, 30)
    assert path.state["prior_cwnd_pkts"] != before
    path.controller.on_loss_state(state, 30)
    assert path.state["prior_cwnd_pkts"] == before


def test_a_reduction_within_recovery_does_not_overwrite_the_saved_window_with_less() -> None:
    path = in_probe_bw()
    before = path.state["cwnd_pkts"]
    path.controller.on_loss_state(RECOVERY, 30)
    assert path.ack(ca_state=RECOVERY, in_flight_pkts=10, prior_delivered_pkts=0)["cwnd_pkts"] < before
    path.controller.on_loss_state(CWR, 10)
    assert path.state["prior_cwnd_pkts"] == before


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


def test_losses_are_deducted_once() -> None:
    path = in_probe_bw()
    path.controller.on_loss_state(RECOVERY, 60)
    path.ack(ca_state=RECOVERY, in_flight_pkts=60, prior_delivered_pkts=0)
    path.ack(ca_state=RECOVERY, in_flight_pkts=60, prior_delivered_pkts=path.delivered_pkts)
    cwnd = path.state["cwnd_pkts"]
    assert path.ack(ca_state=RECOVERY, lost_pkts=10, in_flight_pkts=50)["cwnd_pkts"] == cwnd - 10 + 2


def test_two_timeouts_in_a_row_keep_the_window_to_come_back_to() -> None:
    path = in_probe_bw()
    before = path.state["cwnd_pkts"]
    path.controller.on_rto(before, 0, before)
    assert path.state["cwnd_pkts"] == 1
    assert path.state["full_bw_Bps"] == 0
    path.controller.on_rto(1, 0, before + 1, is_new_episode=False)
    assert path.ack(ca_state=LOSS, acked_pkts=1, in_flight_pkts=0)["cwnd_pkts"] == 4
    path.controller.on_loss_state(OPEN, 0)
    assert path.ack(ca_state=OPEN, in_flight_pkts=0)["cwnd_pkts"] >= before


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


def test_bunched_acks_earn_room() -> None:
    path = in_probe_bw()
    for _ in range(400):
        state = path.ack(acked_pkts=20, sample_pkts=20, interval_us=round(20 * MSS_BYTES * 1e6 / 1_205_000))
    assert max(state["extra_acked_pkts"]) >= 18
    smooth = in_probe_bw(bw_Bps=34 * MSS_BYTES / 0.04)  # a whole number of packets in flight
    for _ in range(4000):
        smooth_state = smooth.ack()
    assert max(smooth_state["extra_acked_pkts"]) <= 6


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
