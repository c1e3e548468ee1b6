# SPDX-License-Identifier: GPL-2.0-only
"""BBRv3: the rules of an ACK, and google/bbr's traces."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from bbr3_replay import Replay
from driver import CWR, MSS_BYTES, OPEN, RECOVERY, STARTUP, random_events
from driver import Path as Ideal

from bbrgym import _cc

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT.parent / "shared" / "reference" / "bbr3"
DRAIN, PROBE_RTT, UP, DOWN, CRUISE, REFILL = 1, 2, 8, 9, 10, 11
UNSET = 2**32 - 1

# ---- the rules ----


def in_probe_bw(**settings: Any) -> Ideal:
    path = Ideal("bbr3", **settings)
    path.until_probe_bw()
    return path


def rounds(path: Ideal, count: int, **changes: Any) -> dict[str, Any]:
    """ACKs until so many rounds have begun."""
    end = path.state["round_count"] + count
    while path.state["round_count"] < end:
        state = path.ack(**changes)
    return state


def test_a_plateau_of_three_rounds_ends_startup_and_drain_sets_the_threshold() -> None:
    path = Ideal("bbr3")
    state = path.until(DRAIN, in_flight_pkts=10_000)
    assert state["full_bw_reached"]
    assert state["inflight_hi_pkts"] == UNSET
    assert state["pacing_gain_q16"] == 88 * 256
    assert state["ssthresh_pkts"] == 34


def test_a_sample_that_grew_by_a_quarter_restarts_the_count_within_a_round() -> None:
    path = Ideal("bbr3")
    rounds(path, 3)
    count = path.state["full_bw_count"]
    assert count > 0
    assert path.ack(sample_pkts=60, prior_delivered_pkts=0)["full_bw_count"] == 0


def test_six_lossy_acks_of_a_round_in_recovery_end_startup() -> None:
    path = Ideal("bbr3")
    rounds(path, 2)
    path.controller.on_loss_state(RECOVERY, 30)
    for _ in range(6):
        path.lose()
        path.ack(lost_pkts=0, ca_state=RECOVERY)
        path.controller.on_ack(
            _cc.Sample(now_us=path.now_us, lost_pkts=1, ca_state=RECOVERY, interval_us=-1, rtt_us=-1)
        )
    assert path.state["phase"] == STARTUP
    state = path.state
    while state["phase"] == STARTUP:
        state = path.ack(ca_state=RECOVERY, in_flight_pkts=1000, tx_in_flight_pkts=40, lost_since_pkts=6)
    assert state["phase"] == DRAIN
    assert state["inflight_hi_pkts"] == 34


def test_the_cycle_is_down_cruise_refill_up() -> None:
    path = in_probe_bw()
    seen: list[int] = []
    for _ in range(6000):
        phase = path.ack()["phase"]
        if not seen or seen[-1] != phase:
            seen.append(phase)
    assert (CRUISE, REFILL, UP) in zip(seen, seen[1:], seen[2:], strict=False)
    assert set(seen) <= {DOWN, CRUISE, REFILL, UP, PROBE_RTT}


def test_the_wait_for_a_probe_is_two_to_three_seconds() -> None:
    waits = [in_probe_bw(seed=seed).state["probe_wait_us"] for seed in range(200)]
    assert 2_000_000 <= min(waits) < 2_050_000
    assert 2_950_000 < max(waits) < 3_000_000


def test_losses_while_cruising_set_lower_bounds_and_a_probe_lifts_them() -> None:
    path = in_probe_bw()
    path.until(CRUISE)
    cwnd = path.state["cwnd_pkts"]
    path.lose()
    state = rounds(path, 2, lost_pkts=0, sample_pkts=5)
    assert state["inflight_lo_pkts"] == cwnd * 180 // 256
    assert state["bw_lo_Bps"] < state["max_bw_Bps"]
    assert state["bw_Bps"] == state["max_bw_Bps"], "what a tuned flow sees is the maximum"
    state = path.until(REFILL)
    assert state["inflight_lo_pkts"] == UNSET


def test_a_lossy_probe_sets_the_upper_bound_and_ends() -> None:
    path = in_probe_bw()
    path.until(UP)
    rounds(path, 1)
    path.lose(since=3, tx_in_flight_pkts=60)
    state = path.state
    assert state["phase"] == DOWN
    assert state["prev_probe_too_high"]
    assert state["inflight_hi_pkts"] == 59
    assert path.ack(lost_pkts=1)["cwnd_pkts"] <= state["inflight_hi_pkts"]


def test_an_application_limited_loss_leaves_the_upper_bound() -> None:
    path = in_probe_bw()
    path.until(UP)
    path.lose(tx_in_flight_pkts=10, is_app_limited=True)
    assert path.state["inflight_hi_pkts"] == UNSET
    assert path.state["phase"] == DOWN


def test_probe_rtt_comes_after_five_seconds_with_half_a_bdp() -> None:
    path = in_probe_bw()
    state = path.until(PROBE_RTT)
    assert path.now_us - 1_000_000 == pytest.approx(5_000_000, abs=10_000)
    assert state["cwnd_pkts"] == 17
    entered_us = path.now_us
    state = path.until(CRUISE, in_flight_pkts=10, prior_in_flight_pkts=10)
    assert 200_000 < path.now_us - entered_us < 300_000
    assert state["cwnd_pkts"] > 17


def test_a_timeout_remembers_the_window_and_leaving_loss_restores_it() -> None:
    path = in_probe_bw()
    path.until(CRUISE)
    cwnd = path.state["cwnd_pkts"]
    path.lose()
    path.controller.on_rto(30, 0, path.total_lost_pkts)
    assert path.state["cwnd_pkts"] == 1
    assert path.state["inflight_lo_pkts"] == cwnd
    path.controller.on_loss_state(OPEN, 0)
    assert path.state["cwnd_pkts"] == cwnd


def test_recovery_does_not_cut_the_window() -> None:
    path = in_probe_bw()
    path.until(CRUISE)
    cwnd = path.state["cwnd_pkts"]
    path.controller.on_loss_state(RECOVERY, 10)
    assert path.ack(ca_state=RECOVERY)["cwnd_pkts"] >= cwnd


def test_an_undo_restores_bounds_and_window() -> None:
    path = in_probe_bw()
    path.until(CRUISE)
    before = path.state
    path.controller.on_loss_state(RECOVERY, 10)
    path.lose()
    rounds(path, 2, ca_state=RECOVERY, sample_pkts=5)
    assert path.state["inflight_lo_pkts"] < before["cwnd_pkts"]
    path.controller.on_undo()
    assert path.state["inflight_lo_pkts"] == UNSET
    assert path.state["bw_lo_Bps"] == 2**64 - 1
    assert path.state["cwnd_pkts"] == before["cwnd_pkts"]


def test_marks_count_on_short_paths_only() -> None:
    for rtt_us, eligible in ((4000, True), (6000, False)):
        controller = _cc.Controller("bbr3", srtt_us=rtt_us, min_rtt_us=rtt_us, ecn_ok=True)
        sample = {"now_us": rtt_us, "sample_pkts": 5, "interval_us": rtt_us, "rtt_us": rtt_us, "acked_pkts": 5}
        controller.on_ack(_cc.Sample(**sample, delivered_pkts=5, total_ce_pkts=5, delivered_ce_pkts=5, is_ece=True))
        assert controller.state["ecn_eligible"] is eligible


def test_two_rounds_of_marks_end_startup() -> None:
    path = Ideal("bbr3", rtt_us=4000, bw_Bps=12_000_000)
    path.controller = _cc.Controller("bbr3", now_us=path.now_us, srtt_us=4000, min_rtt_us=4000, ecn_ok=True)
    for _ in range(200):
        marks = {"total_ce_pkts": path.delivered_pkts + 2, "delivered_ce_pkts": 2, "is_ece": True, "ca_state": CWR}
        state = path.ack(in_flight_pkts=10_000, **marks)
        if state["phase"] != STARTUP:
            break
    assert state["phase"] == DRAIN
    assert state["round_count"] <= 4
    assert state["inflight_hi_pkts"] < UNSET


# ---- constants of other implementations, as tunables ----


def test_the_least_window_is_a_tunable() -> None:
    for least_pkts in (4, 12):
        path = Ideal("bbr3", bw_Bps=62_500)  # a BDP of two packets
        path.controller.set_tunable("bbr3_min_cwnd", least_pkts)
        path.until_probe_bw()
        assert path.until(PROBE_RTT)["cwnd_pkts"] == least_pkts


# ---- a start from an earlier connection's window ----


def resumed(saved_cwnd: int = 200, saved_rtt_us: int = 0, **first: Any) -> Ideal:
    """A connection whose initial window of ten packets is acknowledged."""
    path = Ideal("bbr3")
    path.controller.set_tunable("bbr3_saved_cwnd", saved_cwnd)
    path.controller.set_tunable("bbr3_saved_rtt_us", saved_rtt_us)
    for _ in range(5):
        path.ack(prior_delivered_pkts=0, sample_pkts=path.delivered_pkts + 2, in_flight_pkts=12, **first)
    return path


def test_startup_jumps_to_half_of_a_saved_window() -> None:
    assert resumed(saved_cwnd=0).state["cwnd_pkts"] == 20
    state = resumed().state
    assert state["cwnd_pkts"] == 100
    assert state["pacing_Bps"] == 100 * MSS_BYTES * 25, "a window in a round trip of 40 ms"
    assert resumed(saved_cwnd=30).state["cwnd_pkts"] == 20, "half of it is what STARTUP has"


@pytest.mark.parametrize(("saved_rtt_us", "jumps"), [(3999, False), (4000, True), (79_000, True), (80_000, False)])
def test_an_rtt_of_another_path_has_no_jump(saved_rtt_us: int, jumps: bool) -> None:
    assert (resumed(saved_rtt_us=saved_rtt_us).state["cwnd_pkts"] == 100) is jumps


def test_a_loss_before_the_jump_prevents_it() -> None:
    assert resumed(lost_pkts=1).state["cwnd_pkts"] == 20


def test_an_ack_beyond_the_jump_leaves_what_is_in_flight() -> None:
    path = resumed()
    for _ in range(6):
        assert path.ack(in_flight_pkts=60)["cwnd_pkts"] == 100
    state = path.ack(in_flight_pkts=60)
    assert (state["cwnd_pkts"], state["phase"]) == (60, STARTUP)
    assert path.ack(in_flight_pkts=60, sample_pkts=100)["cwnd_pkts"] == 62, "and STARTUP goes on"


def test_a_loss_after_the_jump_halves_the_pipe_and_ends_startup() -> None:
    path = resumed()
    path.ack(in_flight_pkts=60)
    path.controller.on_loss_state(RECOVERY, 60)
    state = path.ack(in_flight_pkts=60, lost_pkts=1, ca_state=RECOVERY)
    assert state["cwnd_pkts"] == (12 + 4) // 2, "in flight before the jump, and two ACKs since"
    assert state["full_bw_reached"]
    for _ in range(28):
        state = path.ack(in_flight_pkts=60, ca_state=RECOVERY)
        assert state["cwnd_pkts"] <= (12 + 64) // 2
    assert path.ack()["phase"] != STARTUP


# ---- where the draft differs, a fact each ----


def test_the_draft_leaves_drain_after_three_rounds() -> None:
    queue = {"in_flight_pkts": 1000, "prior_in_flight_pkts": 1000}
    for fact, phase in ((0, DRAIN), (1, DOWN)):
        path = Ideal("bbr3", facts={"bbr3_drain_rounds": fact})
        path.until(DRAIN, **queue)
        assert rounds(path, 3, **queue)["phase"] == DRAIN
        assert rounds(path, 2, **queue)["phase"] == phase


def test_the_draft_looks_for_a_plateau_at_the_starts_of_rounds() -> None:
    for fact, count in ((0, 0), (1, 1)):
        path = Ideal("bbr3", facts={"bbr3_plateau": fact})
        while path.state["full_bw_count"] < 1:
            path.ack()
        assert path.ack(sample_pkts=60, prior_delivered_pkts=0)["full_bw_count"] == count


def test_the_draft_counts_what_is_in_flight_now() -> None:
    for fact, drains in ((0, False), (1, True)):
        path = Ideal("bbr3", facts={"bbr3_in_flight": fact})
        path.until(DRAIN, in_flight_pkts=10_000)
        assert (path.ack(in_flight_pkts=40, departure_wait_us=20_000)["phase"] == DRAIN) is drains


def test_the_draft_judges_losses_where_they_are_found() -> None:
    for fact, phase in ((0, DOWN), (1, UP)):
        path = in_probe_bw(facts={"bbr3_excess": fact})
        path.until(UP)
        assert path.ack(tx_in_flight_pkts=40, lost_since_pkts=5)["phase"] == phase


def test_the_draft_returns_to_the_state_that_spurious_losses_ended() -> None:
    for fact, phase in ((0, DOWN), (1, REFILL)):
        path = in_probe_bw(facts={"bbr3_undo": fact})
        path.until(UP)
        path.lose(since=3)
        path.controller.on_loss_state(RECOVERY, 10)
        assert path.state["phase"] == DOWN
        path.controller.on_undo()
        assert path.state["phase"] == phase
        assert path.state["inflight_hi_pkts"] == (UNSET if fact else 39)


def test_the_draft_restores_the_window_after_recovery_too() -> None:
    for fact in (0, 1):
        path = in_probe_bw(facts={"bbr3_restore": fact})
        path.until(CRUISE)
        before = path.state["cwnd_pkts"]
        path.controller.on_loss_state(RECOVERY, 10)
        path.lose()
        rounds(path, 2, ca_state=RECOVERY, sample_pkts=5)
        cut = path.state["cwnd_pkts"]
        assert cut < before
        path.controller.on_loss_state(OPEN, 10)
        assert path.state["cwnd_pkts"] == (before if fact else cut)


def test_the_draft_provides_for_bursts_of_a_millisecond() -> None:
    for fact, window in ((0, 135), (1, 6)):
        path = in_probe_bw(rtt_us=400, facts={"bbr3_burst": fact})
        path.until(CRUISE)
        rounds(path, 100)
        path.until(CRUISE)
        assert path.ack()["cwnd_pkts"] == window


def test_the_draft_grows_the_first_window_until_it_is_delivered() -> None:
    for fact, windows in ((0, [12, 14, 16, 18, 20, 20]), (1, [12, 14, 16, 18, 18, 18])):
        path = Ideal("bbr3", bw_Bps=2000, rtt_us=1_000_000, facts={"bbr3_first_growth": fact})
        assert [path.ack(prior_delivered_pkts=0, advance_us=1000)["cwnd_pkts"] for _ in range(6)] == windows


# ---- what the draft leaves open, a fact each ----


def test_probe_rtts_window_may_be_that_of_before_min_rtt_expired() -> None:
    for fact, window in ((0, 67), (1, 17)):
        path = Ideal("bbr3", facts={"bbr3_probe_rtt_window": fact})
        path.controller.set_tunable("bbr3_probe_rtt_interval_us", 10_000_000)
        path.until_probe_bw()
        state = path.until(PROBE_RTT, rtt_us=160_000)
        assert (state["min_rtt_us"], state["cwnd_pkts"]) == (160_000, window), "half a BDP by 160 ms, or by 40"


def test_inflight_lo_may_be_left_out() -> None:
    for fact in (0, 1):
        path = in_probe_bw(facts={"bbr3_inflight_lo": fact})
        path.until(CRUISE)
        path.lose()
        state = rounds(path, 2, lost_pkts=0, sample_pkts=20)
        assert state["bw_lo_Bps"] < state["max_bw_Bps"], "the rate falls in any case"
        assert (state["inflight_lo_pkts"] == UNSET) is bool(fact)
        path.controller.on_rto(30, 0, path.total_lost_pkts)
        assert (path.state["inflight_lo_pkts"] == UNSET) is bool(fact)


def test_a_first_down_may_take_drains_place() -> None:
    queue = {"in_flight_pkts": 100, "prior_in_flight_pkts": 100}
    for fact, phase in ((0, DRAIN), (1, DOWN)):
        path = Ideal("bbr3", facts={"bbr3_after_startup": fact})
        state = path.until(DRAIN, DOWN, **queue)
        assert (state["phase"], state["pacing_gain_q16"]) == (phase, 88 * 256)
        path.until(UP)
        assert path.until(DOWN)["pacing_gain_q16"] == 232 * 256, "later ones have their own gain"


# ---- bbr2, bbr3-mix ----


def test_bbr2_probes_until_a_quarter_of_a_bdp_queues() -> None:
    path = Ideal("bbr2")
    path.until(UP)
    begun_us = path.now_us
    while path.now_us < begun_us + 300_000:
        assert path.ack()["phase"] == UP, "no queue"
    assert path.ack(prior_in_flight_pkts=44)["phase"] == DOWN


def test_bbr3_mix_without_mechanisms_is_bbr3() -> None:
    lives = [list(random_events(Ideal(variant), 1, 5000)) for variant in ("bbr3-mix", "bbr3")]
    assert lives[0] == lives[1]


def test_bbr3_mix_has_the_mechanisms_that_fit() -> None:
    tunables = {row["name"]: set(row["tunables"]) for row in _cc.variants()}
    added = tunables["bbr3-mix"] - tunables["bbr3"]
    assert {name for name in added if name.startswith("use_")} == {
        "use_cwnd_cap",
        "use_path_change",
        "use_probe_cap",
        "use_random_probe_rtt",
    }
    assert tunables["bbr2"] == tunables["bbr3"]


# ---- traces of the kernel's code ----


@pytest.mark.parametrize("trace", ["deep", "shallow"])
def test_every_event_of_a_kernel_trace_is_equal(trace: str) -> None:
    path = TRACES / f"{trace}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there: the traces of google/bbr are not part of the repository")
    run = Replay()
    run.run(path)
    assert run.compared["ack"] > 9000
    assert run.differing == []
    assert run.equal == run.compared


def test_a_replay_finds_a_difference(tmp_path: Path) -> None:
    names = "kind,ack,t_us,delivered,prior_delivered,rs_delivered,interval_us,rtt_us,losses,acked,prior_in_flight"
    names += ",in_flight,ca_state,app_limited,tx_in_flight,rs_lost,is_cwnd_limited,phase,cwnd,pacing_Bps,max_bw_Bps"
    names += ",bw_lo_Bps,inflight_hi,inflight_lo,probe_wait_us\n"
    row = "ack,1,41200,1,0,1,41200,41200,0,1,10,9,0,0,1,0,1,STARTUP,{cwnd},964961,35213,-1,-1,-1,0\n"
    for cwnd, differing in ((11, 0), (12, 1)):
        path = tmp_path / f"{cwnd}.csv.gz"
        with gzip.open(path, "wt") as file:
            file.write(names + row.format(cwnd=cwnd))
        run = Replay()
        run.run(path)
        assert len(run.differing) == differing


def test_units_are_the_kernels() -> None:
    controller = _cc.Controller("bbr3", srtt_us=40_000, min_rtt_us=40_000)
    sample = {"now_us": 40_000, "delivered_pkts": 10, "sample_pkts": 10, "interval_us": 40_000, "rtt_us": 40_000}
    controller.on_ack(_cc.Sample(**sample, acked_pkts=10))
    assert controller.state["max_bw_Bps"] == round(4195 * MSS_BYTES * 1e6 / 2**24)
