# SPDX-License-Identifier: GPL-2.0-only
"""Linux's sender on a path of 50 ms that misbehaves (sender_facts.cc), and on random ones (sender_laws.cc).

CUBIC controls the window: a reduction leaves 0.7 of it. A segment takes 0.1 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

Facts = Callable[[str], dict[str, float]]


@pytest.fixture
def facts(run_experiment) -> Facts:
    return functools.partial(run_experiment, "sender_facts", kind=float)


def check_counts(seen: dict[str, float], **expected: int) -> None:
    """Everything arrived, the connection is as if nothing had been, and what is not named did not happen."""
    names = ("timeouts", "probes", "retransmitted", "dropped", "duplicates", "reductions", "undos")
    assert {name: seen[name] for name in names} == {**dict.fromkeys(names, 0), **expected}
    assert (seen["undelivered"], seen["is_open"]) == (0, 1)


# ---- tail loss probes (RFC 8985, section 7) --------------------------------------------------------------


def test_a_lost_tail_of_one_is_repaired_by_the_probe_and_counts_as_one_loss(facts: Facts) -> None:
    seen = facts("tail_of_one")
    assert seen["probe_serial"] == 9
    assert seen["probe_at_ms"] == 50 + 250, "in place of the timeout: two round trips and a delayed ACK take longer"
    assert seen["reductions_before_more_is_acknowledged"] == 0, "a duplicate might still be reported"
    assert seen["window_kept"] == pytest.approx(0.7, abs=0.05)
    check_counts(seen, probes=1, retransmitted=1, dropped=1, reductions=1)


def test_the_probe_of_a_longer_tail_starts_recovery(facts: Facts) -> None:
    seen = facts("tail_of_many")
    assert (seen["probe_serial"], seen["probe_at_ms"]) == (9, 50 + 2 * 50 + 2)
    check_counts(seen, probes=1, retransmitted=3, dropped=3, reductions=1)


def test_the_probe_is_new_data_if_there_is_some(facts: Facts) -> None:
    seen = facts("probe_of_new_data")
    assert (seen["probe_serial"], seen["probe_at_ms"]) == (10, 2 * 50 + 2)
    check_counts(seen, probes=1, retransmitted=10, dropped=10, reductions=1)


def test_a_probe_of_what_had_arrived_costs_nothing_but_itself(facts: Facts) -> None:
    check_counts(facts("probe_of_what_arrived"), probes=1, retransmitted=1, duplicates=1)


def test_a_lone_segment_is_not_probed_while_its_ack_may_be_delayed(facts: Facts) -> None:
    check_counts(facts("lone_segment"))


@pytest.mark.parametrize(("experiment", "after_head_ms"), [("head", 200 + 200), ("timer", 9 * 20 + 200 + 200)])
def test_a_probe_comes_no_later_than_a_timeout(facts: Facts, experiment: str, after_head_ms: int) -> None:
    """Nine segments left between the head and the ACK that set the timer; two round trips and their wait are 622 ms.

    The variation that the timer waits for, twice the handshake's RTT at first, has not quite fallen to 200 ms.
    """
    assert facts(f"probe_limited_by_{experiment}")["probe_after_head_ms"] == pytest.approx(after_head_ms, abs=0.5)


def test_a_second_probe_s_timer_is_the_timeout_of_the_head(facts: Facts) -> None:
    """As in Linux's tcp_send_loss_probe: the head left at 0, so its timeout is over when that timer is."""
    srtt_ms = 7 / 8 * 50 + 1 / 8 * 200
    seen = facts("ack_while_probe_is_out")
    assert seen["again_at_ms"] == 200 + (2 * srtt_ms + 2) + 1
    assert seen["probes"] == 1


# ---- F-RTO (RFC 5682) ------------------------------------------------------------------------------------


def test_a_timeout_by_a_delay_spike_is_undone(facts: Facts) -> None:
    seen = facts("delay_spike")
    assert seen["in_flight"] > 300
    assert seen["timeouts_by_then"] == 1
    assert seen["window_kept"] >= 1
    check_counts(seen, timeouts=1, probes=1, retransmitted=1, duplicates=1, reductions=1, undos=1)


def test_pacing_takes_the_proof_from_f_rto(facts: Facts) -> None:
    """As in Linux's tcp_tsq_write: each original is sent again before its ACK comes, and only D-SACKs undo."""
    seen = facts("delay_spike_paced")
    assert seen["window_kept"] < 0.1
    assert seen["retransmitted"] == seen["duplicates"] > 300
    assert seen["undos"] == 1


def test_without_undo_everything_is_sent_again(facts: Facts) -> None:
    seen = facts("delay_spike_without_undo")
    assert seen["window_kept"] < 0.1
    assert seen["retransmitted"] == seen["duplicates"] > 300
    assert seen["undos"] == seen["probes"] == 0


def test_a_loss_in_the_spike_is_found_without_a_second_timeout(facts: Facts) -> None:
    """What left in one burst with a SACKed segment counts as lost: RACK's newest is the timeout's retransmission."""
    seen = facts("delay_spike_with_loss")
    assert (seen["timeouts"], seen["dropped"], seen["reductions"], seen["undos"]) == (1, 1, 2, 1)
    assert seen["retransmitted"] == seen["dropped"] + seen["duplicates"]
    assert seen["duplicates"] < seen["in_flight"] / 2
    assert (seen["undelivered"], seen["is_open"]) == (0, 1)


def test_a_real_timeout_is_not_undone(facts: Facts) -> None:
    seen = facts("real_timeout")
    assert seen["threshold_kept"] == pytest.approx(0.7, abs=0.01)
    assert seen["timeouts"] >= 1
    assert seen["retransmitted"] == seen["dropped"] > 300, "no more is sent again than was lost"
    assert (seen["duplicates"], seen["reductions"], seen["undos"], seen["undelivered"]) == (0, 1, 0, 0)


@pytest.mark.parametrize(
    ("experiment", "recoveries"), [("retransmit_lost_after_timeout", 1), ("retransmit_lost_after_timeout_of_ns3", 0)]
)
def test_a_retransmission_lost_after_a_timeout_begins_a_recovery(
    facts: Facts, experiment: str, recoveries: int
) -> None:
    """Linux tcp_fastretrans_alert; it reduces the window a second time."""
    seen = facts(experiment)
    assert seen["recoveries_after_timeout"] == recoveries
    assert seen["reductions"] == 1 + recoveries
    assert seen["undelivered"] == 0


@pytest.mark.parametrize(("experiment", "undone"), [("", False), ("_of_linux_4_11", True)])
def test_a_timeout_in_recovery_is_undone_by_an_original_in_4_11_alone(
    facts: Facts, experiment: str, undone: bool
) -> None:
    """F-RTO does not test a timeout in a recovery; 4.11 and 4.12 look at originals after any timeout."""
    seen = facts(f"spike_in_recovery{experiment}")
    assert (seen["timeout_in_recovery"], seen["timeouts"], seen["undos"]) == (1, 1, undone)
    assert (seen["window_kept"] >= 1) == undone
    assert seen["is_open"] == 0, "in Disorder or Loss"


@pytest.mark.parametrize(("experiment", "in_flight"), [("older", 1 + 2), ("all", 1)])
def test_a_timeout_spares_what_left_less_than_a_round_trip_ago(facts: Facts, experiment: str, in_flight: int) -> None:
    """Beside the head, which is sent again: 50 ms hold two segments 20 ms apart."""
    assert facts(f"timeout_marks_{experiment}")["in_flight_after_timeout"] == in_flight


# ---- D-SACK (RFC 2883) -----------------------------------------------------------------------------------


@pytest.mark.parametrize("experiment", ["late_original", "very_late_original"])
def test_a_recovery_for_a_late_segment_is_undone(facts: Facts, experiment: str) -> None:
    seen = facts(experiment)
    assert seen["window_reduced"] < 0.8
    assert seen["window_restored"] >= 1
    check_counts(seen, retransmitted=1, duplicates=1, reductions=1, undos=1)


def test_a_recovery_is_undone_before_its_end(facts: Facts) -> None:
    seen = facts("late_original_in_recovery")
    assert seen["undos_in_recovery"] >= 1
    assert seen["window_restored"] >= 1
    assert seen["undos"] == seen["reductions"]


def test_a_duplicate_of_the_probe_undoes_no_real_recovery(facts: Facts) -> None:
    check_counts(facts("duplicate_of_the_probe"), probes=1, retransmitted=2, dropped=1, duplicates=1, reductions=1)


# ---- the retransmission timer (RFC 6298) -----------------------------------------------------------------


def test_timeouts_in_a_row_double_up_to_120_s(facts: Facts) -> None:
    seen = facts("backoff")
    assert seen["gap_0_ms"] == pytest.approx(50 + 200)
    assert list(seen.values()) == pytest.approx([min(250 * 2**i, 120_000) for i in range(len(seen))])
    assert len(seen) > 10


@pytest.mark.parametrize(("experiment", "restarted_ms"), [("", 35), ("_of_ns3", 0)])
def test_a_sack_of_what_left_before_the_head_restarts_the_timer(
    facts: Facts, experiment: str, restarted_ms: float
) -> None:
    """The last original arrives 30 ms late, 34.5 ms after the head left again."""
    seen = facts(f"sack_before_timeout{experiment}")
    assert seen["gap_3_ms"] == pytest.approx(250 + restarted_ms, abs=1)
    assert (seen["timeouts"], seen["undelivered"]) == (2, 0)


def test_the_rtt_of_a_sack_ends_the_back_off(facts: Facts) -> None:
    """It comes 200 ms after the timeout, and restarts the timer without doubling it; the next timeout doubles it."""
    seen = facts("sack_after_timeout")
    rto_ms = seen["rto_ms"] / 2
    assert seen["gap_4_ms"] == pytest.approx(150 + rto_ms, abs=1)
    assert facts("sack_after_timeout_of_ns3")["gap_4_ms"] == pytest.approx(2 * 250, abs=1)


def test_an_ack_of_what_was_sent_again_keeps_the_back_off(facts: Facts) -> None:
    """As RFC 6298, 5.7, and Linux's tcp_ack_update_rtt: it tells no RTT, so the timer stays doubled."""
    seen = facts("back_off_after_retransmission")
    assert seen["rto_after_retransmission_ms"] == 2 * seen["rto_ms"]
    assert seen["rto_after_new_data_ms"] == seen["rto_ms"]
    assert seen["rto_ms"] == pytest.approx(250, abs=1)


def test_with_timestamps_an_ack_of_what_was_sent_again_ends_the_back_off(facts: Facts) -> None:
    """It echoes when the retransmission left, a round trip of 50 ms ago: tcp_rtt_tsopt_us."""
    seen = facts("back_off_after_retransmission_with_timestamps")
    assert seen["rto_after_retransmission_ms"] == pytest.approx(250, abs=1)


@pytest.mark.parametrize(("experiment", "start_ms"), [("", 300), ("_before_5_9", 0)])
def test_the_timer_begins_when_pacing_lets_a_segment_go(facts: Facts, experiment: str, start_ms: int) -> None:
    """A segment each 300 ms, of which none arrives any more: tcp_pacing_delay."""
    assert facts(f"paced_timeout{experiment}")["wait_ms"] == pytest.approx(start_ms + 250, abs=1)


def test_no_timeout_comes_before_200_ms(facts: Facts) -> None:
    seen = facts("short_rtt_timeout")
    assert seen["nth"] == 2
    assert 200 <= seen["gap_ms"] < 201


# ---- RACK (RFC 8985) -------------------------------------------------------------------------------------


def test_a_lost_retransmission_needs_no_timeout(facts: Facts) -> None:
    seen = facts("lost_retransmission")
    assert seen["lost_total"] == 3
    check_counts(seen, retransmitted=3, dropped=3, reductions=1)


@pytest.mark.parametrize(
    ("experiment", "lost", "deadline_ms", "counted"),
    [
        ("one_overtakes", 0, 127.125, 0),
        ("three_overtake", 1, -1, 0),
        ("one_overtakes_in_recovery", 1, -1, 0),
        ("one_overtakes_of_4_17", 0, 127.125, 0),
        ("three_overtake_of_4_17", 0, 127.325, 1),
        ("one_overtakes_in_recovery_of_4_17", 0, 103.1, 0),
        ("one_overtakes_of_4_11", 0, 127.125, 0),
        ("three_overtake_of_4_11", 0, 127.325, 1),
        ("one_overtakes_in_recovery_of_4_11", 0, 103.1, 0),
    ],
)
def test_rack_waits_as_its_generation(
    facts: Facts, experiment: str, lost: int, deadline_ms: float, counted: int
) -> None:
    """Its timer for 2 ms more. Before 4.18 at least for 1 ms, and three SACKed beyond a segment mark it too."""
    assert facts(experiment) == {"lost": lost, "deadline_ms": deadline_ms, "counted": counted}


@pytest.mark.parametrize(("experiment", "again_ms", "reported"), [("", 51, 2), ("_of_4_11", 53.9, 1)])
def test_a_loss_that_the_timer_finds_is_not_reported_to_the_algorithm(
    facts: Facts, experiment: str, again_ms: float, reported: int
) -> None:
    """Its rate samples count the losses of ACKs alone: BBR's window does not fall by those that 4.11's timer finds."""
    seen = facts(f"loss_before_last{experiment}")
    assert (seen["again_ms"], seen["reported"]) == (pytest.approx(again_ms), reported)
    check_counts(seen, retransmitted=2, dropped=2, reductions=1)


# ---- pacing and the application --------------------------------------------------------------------------


def test_every_segment_after_the_first_ten_is_paced(facts: Facts) -> None:
    seen = facts("pacing")
    assert seen["at_once"] == 10, "the tenth is the first that keeps the next one waiting"
    assert seen["shortest_gap_us"] == seen["longest_gap_us"] == 1000
    assert seen["retransmitted"] > 10, "retransmissions too"


@pytest.mark.parametrize(
    ("experiment", "segments"),
    [
        ("bursts_at_10_mbps", 2),  # 1/1024 s is less than two segments: tcp_min_tso_segs
        ("bursts_at_100_mbps", 12_500_000 // 1024 // 1250),
        ("bursts_at_1_gbps", 65_215 // 1250),
        ("bursts_of_three", 3),
        ("bursts_on_a_path_of_2_ms", (1_250_000 // 1024 + (65_215 >> (2000 >> 9))) // 1250),
    ],
)
def test_a_burst_leaves_at_once_and_the_next_one_when_its_bytes_are_paced(
    facts: Facts, experiment: str, segments: int
) -> None:
    rate_Bps = {"bursts_at_10_mbps": 1.25e6, "bursts_on_a_path_of_2_ms": 1.25e6, "bursts_at_1_gbps": 125e6}
    gap_us = segments * 1250 / rate_Bps.get(experiment, 12.5e6) * 1e6
    assert facts(experiment) == {"segments": segments, "gap_us": pytest.approx(gap_us, abs=0.001)}


def test_a_burst_ends_with_its_sk_buff(facts: Facts) -> None:
    seen = facts("bursts_in_skbs")
    assert seen["ends_of_seven"] > 10, "52 segments are five bursts of nine and one of seven"
    assert 5 * seen["ends_of_seven"] <= seen["nines_elsewhere"] + 2, "the first two leave at once"
    assert seen["ends_of_nine"] == seen["sevens_elsewhere"] == 0
    across = facts("bursts_across_skbs")
    assert across["ends_of_seven"] == across["sevens_elsewhere"] == 0
    assert across["ends_of_nine"] > 0


def test_a_pacer_that_waited_for_data_gives_half_a_gap_of_credit(facts: Facts) -> None:
    assert facts("credit") == {"first_gap_us": 1000, "second_gap_us": 2000}
    assert facts("no_credit") == {"first_gap_us": 2000, "second_gap_us": 2000}


def test_segments_that_left_and_were_lost_together_leave_together_again(facts: Facts) -> None:
    assert facts("burst_again") == {"apart_20_21_us": 0, "apart_23_24_us": 1000}


def test_samples_of_a_slow_application_are_marked(facts: Facts) -> None:
    seen = facts("app_limited")
    assert seen["samples_of_the_trickle"] == seen["limited_of_the_trickle"] > 50
    assert seen["is_limited_in_the_trickle"] == 1
    # The mark goes when what was out at the last write is acknowledged; what left before then bears it a round more.
    assert 50 < seen["limited_after_the_trickle_ms"] <= 2 * 50
    assert seen["is_limited_in_the_bulk"] == 0


# ---- growth of the window --------------------------------------------------------------------------------


def test_sacks_grow_the_window_once_the_path_is_known_to_reorder(facts: Facts) -> None:
    """Linux tcp_may_raise_cwnd: its reordering is above three after a segment that more than three overtook."""
    seen = facts("overtaken")
    assert seen["acks_in_order"] >= 2
    assert seen["growth_in_order"] == 0
    assert seen["growth_reordering"] == seen["acks_reordering"] > 40, "a packet each, in slow start"


@pytest.mark.parametrize(
    ("experiment", "kept"), [("short_pause", 1), ("pause", 1 / 4), ("long_pause", None), ("pause_of_ns3", 1)]
)
def test_a_pause_longer_than_a_timeout_halves_the_window(facts: Facts, experiment: str, kept: float | None) -> None:
    """Linux tcp_slow_start_after_idle: once for each timeout, down to the first window of 20."""
    seen = facts(experiment)
    if kept is None:
        assert seen["cwnd_pkts"] == 20
    else:
        assert seen["kept"] == pytest.approx(kept, abs=0.01)
    assert seen["undelivered"] == 0


@pytest.mark.parametrize(("experiment", "decays"), [("sparse", True), ("less_sparse", False), ("sparse_of_ns3", False)])
def test_a_window_not_used_for_a_timeout_falls_halfway(facts: Facts, experiment: str, decays: bool) -> None:
    """Linux tcp_cwnd_validate: ACKs and full windows count as use, and pauses longer than a timeout are idle time."""
    seen = facts(experiment)
    assert seen["packets_out"] == 2
    assert seen["kept"] == (seen["expected"] if decays else 1)
    assert seen["undelivered"] == 0


@pytest.mark.parametrize(("experiment", "cwnd_pkts"), [("held", 25), ("held_by_largest", 20)])
def test_slow_start_asks_what_the_window_held_or_the_largest_flight(
    facts: Facts, experiment: str, cwnd_pkts: int
) -> None:
    """Linux tcp_is_cwnd_limited: until 5.10 a window of twice the largest flight grows no more, though it was full."""
    seen = facts(experiment)
    assert 0 < seen["acked"] < 10
    assert seen["cwnd_pkts"] == cwnd_pkts


@pytest.mark.parametrize("seed", range(1, 9))
def test_laws(run_program, seed: int) -> None:
    assert "undos" in run_program("sender_laws", seed, 200)
