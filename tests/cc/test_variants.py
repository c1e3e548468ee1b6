# SPDX-License-Identifier: GPL-2.0-only
"""The mechanisms as hooks into BBR v1, and bbr-mix as all of them."""

import itertools
import random

import pytest
from driver import OPEN, PROBE_BW, RECOVERY, Path

from bbrgym import _cc
from bbrgym.tunables import Tunable

VARIANTS = {row["name"]: row for row in _cc.variants()}
TUNABLES = {row["name"]: row for row in _cc.tunables()}
PRESETS = {
    "bbr": [],
    "bbr-plus": ["use_cwnd_cap"],
    "bbr-acd": ["use_congestion_detect"],
    "bbq": ["use_probe_cap"],
    "bbq-first-cut": ["use_forced_drain"],
    "bbr-pg": ["use_gain_scale", "use_random_probe_rtt"],
    "bbr-pg-inv": ["use_gain_scale", "use_random_probe_rtt"],
}


def random_life(path: Path, seed: int, steps: int) -> list[dict]:
    """A life of ACKs, losses, timeouts and silences; the same for the same seed."""
    draw = random.Random(seed)
    states = []
    ca_state = OPEN
    for _ in range(steps):
        event = draw.random()
        if event < 0.01:
            ca_state = OPEN if ca_state else RECOVERY
            path.controller.on_loss_state(ca_state, draw.randrange(100))
        elif event < 0.012:
            path.controller.on_rto(draw.randrange(100), 0, path.total_lost_pkts)
            ca_state = 4
        elif event < 0.014:
            path.controller.on_undo()
        elif event < 0.02:
            path.now_us += draw.randrange(3_000_000)
            path.controller.on_restart(path.now_us, draw.random() < 0.5)
        path.bw_Bps *= draw.choice([0.97, 1.0, 1.03])
        queue_us = draw.randrange(0, 30_000)
        states.append(
            path.ack(
                acked_pkts=draw.randrange(0, 4),
                lost_pkts=draw.choice([0, 0, 0, 1]),
                rtt_us=draw.choice([-1, path.rtt_us + queue_us]),
                srtt_us=path.rtt_us + queue_us,
                ca_state=ca_state,
                in_flight_pkts=draw.randrange(0, 120),
                prior_in_flight_pkts=draw.randrange(0, 120),
                advance_us=draw.randrange(1, 6000),
            )
        )
    return states


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("variant", PRESETS)
def test_mix_at_a_preset_is_the_variant_bit_for_bit(variant: str, seed: int) -> None:
    alone = Path(variant, seed=seed)
    mixed = Path("bbr-mix", seed=seed)
    for switch in PRESETS[variant]:
        mixed.controller.set_tunable(switch, 1)
    for name, value in VARIANTS[variant]["preset"].items():
        if TUNABLES[name]["unit"] != "switch":
            mixed.controller.set_tunable(name, value)
    assert random_life(alone, seed, 3000) == random_life(mixed, seed, 3000)


def test_mix_with_all_switches_off_is_bbr_whatever_the_mechanisms_are_tuned_to() -> None:
    mixed = Path("bbr-mix", seed=3)
    for name, row in TUNABLES.items():
        if row["mechanism"] != "BBR" and row["unit"] != "switch":
            mixed.controller.set_tunable(name, row["high"] if row["default"] == row["low"] else row["low"])
    alike = set(random_life(Path("bbr"), 0, 1)[0]) - {"plus_srtt_us"}
    for a, b in zip(random_life(Path("bbr", seed=3), 3, 3000), random_life(mixed, 3, 3000), strict=True):
        assert {k: a[k] for k in alike} == {k: b[k] for k in alike}


def test_the_variants_differ_from_bbr_and_each_other() -> None:
    lives = {variant: repr(random_life(Path(variant), 1, 6000)) for variant in PRESETS}
    assert len(set(lives.values())) == len(lives)


def test_switching_on_random_probe_rtt_leaves_the_phase_draws_alone() -> None:
    plain, drawn = Path("bbr", seed=5), Path("bbr-mix", seed=5)
    drawn.controller.set_tunable("use_random_probe_rtt", 1)
    assert plain.until_probe_bw()["phase"] == drawn.until_probe_bw()["phase"]


# ---- BBR+ ----


def test_plus_shrinks_a_standing_queue_to_its_fixed_point() -> None:
    """w <- 0.98 w + q settles at min(50 q, 2 BDP) and never decays to nothing."""
    path = Path("bbr-plus", stack="linux-4.9")
    state = path.until_probe_bw()
    for _ in range(10_000):
        cwnd = state["cwnd_pkts"]
        srtt_us = max(path.rtt_us, round(cwnd * path.rtt_us / path.model()))
        path.srtt_us = srtt_us
        state = path.ack(srtt_us=srtt_us, prior_in_flight_pkts=cwnd)
    assert path.model() <= state["cwnd_pkts"] <= 80


def plus_target(srtt_us: int, **tunables: float) -> int:
    path = Path("bbr-plus")
    for name, value in tunables.items():
        path.controller.set_tunable(name, value)
    path.until_probe_bw()
    for _ in range(600):
        state = path.ack(srtt_us=srtt_us, rtt_us=path.rtt_us + 10_000, acked_pkts=10, prior_in_flight_pkts=10_000)
        if state["phase"] == PROBE_BW + 5:
            return int(state["cwnd_pkts"])
    raise AssertionError("no cruise phase")


def test_plus_takes_the_connections_srtt_unless_told_to_keep_its_own() -> None:
    assert plus_target(40_000) < plus_target(70_000), "the connection's"
    assert plus_target(40_000, plus_srtt_weight=1.0) == plus_target(70_000, plus_srtt_weight=1.0), "the latest RTT"


def test_plus_own_average_reaches_a_steady_rtt_at_any_weight() -> None:
    for weight in (1 / 64, 0.125, 1.0):
        path = Path("bbr-plus")
        path.controller.set_tunable("plus_srtt_weight", weight)
        path.ack()
        for _ in range(2000):
            state = path.ack(rtt_us=path.rtt_us + 1000)
        assert state["plus_srtt_us"] == pytest.approx(path.rtt_us + 1000, abs=1)


def test_plus_leaves_the_aggregation_bonus_out_unless_asked() -> None:
    assert plus_target(40_000) < plus_target(40_000, plus_bonus=1)


# ---- BBR-ACD ----


def into_recovery(rtts_us: list[int]) -> dict:
    path = Path("bbr-acd")
    path.until_probe_bw()
    for rtt_us in rtts_us:
        path.ack(rtt_us=rtt_us)
    path.controller.on_loss_state(RECOVERY, 60)
    return path.ack(ca_state=RECOVERY, lost_pkts=2, rtt_us=-1, in_flight_pkts=60, prior_delivered_pkts=0)


def test_acd_congestive_loss_halves() -> None:
    state = into_recovery([50_000, 50_300, 50_100])
    assert state["acd_congested"]
    assert state["packet_conservation"]
    assert state["cwnd_pkts"] <= 40


def test_acd_random_loss_only_deducts() -> None:
    state = into_recovery([40_000, 40_000])
    assert not state["acd_congested"]
    assert not state["packet_conservation"]
    assert state["cwnd_pkts"] >= 70


def test_acd_acks_without_rtt_neither_count_nor_reset() -> None:
    path = Path("bbr-acd")
    path.until_probe_bw()
    for rtt_us in (50_000, -1, 50_300, -1, -1, 50_100):
        state = path.ack(rtt_us=rtt_us)
    assert state["acd_same_count"] == 2
    assert state["acd_congested"]


def halvings(mode: int) -> list[int]:
    path = Path("bbr-acd")
    path.controller.set_tunable("acd_halve_mode", mode)
    path.until_probe_bw()
    path.controller.on_loss_state(RECOVERY, 60)
    return [
        path.ack(ca_state=RECOVERY, rtt_us=90_000, in_flight_pkts=20, prior_delivered_pkts=0)["cwnd_pkts"]
        for _ in range(4)
    ]


def test_acd_halves_on_every_ack_or_once_an_episode() -> None:
    every, once = halvings(0), halvings(1)
    assert every[0] == once[0]
    assert all(b == max(a // 2, 4) for a, b in itertools.pairwise(every))
    assert all(cwnd >= 22 for cwnd in once)


def capped_windows(stays: int) -> list[int]:
    """The last window of each state after a congestive loss in PROBE_BW, until the ProbeRTT that follows is over."""
    path = Path("bbr-acd", facts={"aggregation_bonus": 0})
    path.controller.set_tunable("acd_cap_stays", stays)
    path.until_probe_bw()
    path.controller.on_loss_state(RECOVERY, 60)
    path.ack(ca_state=RECOVERY, lost_pkts=2, rtt_us=90_000, in_flight_pkts=60, prior_delivered_pkts=0)
    path.controller.on_loss_state(OPEN, 60)
    path.ack()
    windows = []
    for phases in (range(8, 16), range(2, 3), range(8, 16)):
        window = 0
        for _ in range(10_000):
            state = path.ack(rtt_us=41_000, in_flight_pkts=4)
            if state["phase"] not in phases:
                break
            window = state["cwnd_pkts"]
        windows.append(window)
    return windows


def test_acds_class_cuts_in_every_recovery_to_its_end() -> None:
    for verdict, cut in ((0, False), (1, True)):
        path = Path("bbr-acd")
        path.controller.set_tunable("acd_verdict", verdict)
        path.until_probe_bw()
        path.controller.on_loss_state(RECOVERY, 60)
        for _ in range(3):  # rounds without a queue
            state = path.ack(ca_state=RECOVERY, in_flight_pkts=10, prior_delivered_pkts=path.delivered_pkts)
        assert (state["cwnd_pkts"] < 20) is cut
        path.controller.on_loss_state(OPEN, 60)
        assert path.ack()["cwnd_pkts"] >= 40, "restored, up to the cap"


@pytest.mark.parametrize(("in_flight_of", "from_pkts"), [(0, 40), (1, 50)])
def test_acds_class_halves_what_is_in_flight_if_that_is_more_than_the_window(in_flight_of: int, from_pkts: int) -> None:
    path = Path("bbr-acd", facts={"in_flight_of": in_flight_of})
    path.controller.set_tunable("acd_verdict", 1)
    path.until_probe_bw()
    path.controller.on_loss_state(RECOVERY, 60)
    for _ in range(8):
        state = path.ack(ca_state=RECOVERY, in_flight_pkts=38, prior_in_flight_pkts=48)
    assert state["cwnd_pkts"] == from_pkts // 2


def test_acd_cap_stays_until_the_next_state() -> None:
    capped, text = capped_windows(1), capped_windows(0)
    assert capped[0] <= 48 < 70 <= text[0], "a BDP of 33 and its budget, or two"
    assert capped[2] >= 70 <= text[2], "after ProbeRTT the gain is BBR's"


# ---- BBQ ----


def probe_length_us(queue_us: int, **tunables: float) -> int:
    path = Path("bbq", rtt_us=50_000)
    for name, value in tunables.items():
        path.controller.set_tunable(name, value)
    path.until_probe_bw()
    path.until(PROBE_BW + 0, rtt_us=50_000 + queue_us)
    start_us = path.now_us
    for _ in range(500):
        if path.ack(rtt_us=50_000 + queue_us, advance_us=500, prior_in_flight_pkts=10)["phase"] != PROBE_BW:
            break
    return path.now_us - start_us


def test_bbq_with_a_queue_ends_the_probe_after_alpha() -> None:
    assert 3000 < probe_length_us(10_000) <= 3500
    assert 8000 < probe_length_us(10_000, bbq_alpha_us=8000) <= 8500


def test_bbq_without_a_queue_probes_as_bbr() -> None:
    assert probe_length_us(300) >= 250_000, "0.6 % of queue is below beta: until 1.25 BDP are in flight"
    assert probe_length_us(500) <= 3500, "equality counts as a queue"
    assert probe_length_us(500, bbq_slack_us=1000) >= 250_000


def test_bbq_latch_judges_the_queue_at_the_probes_start() -> None:
    """A queue that appears during the probe: with the latch the probe goes on as BBR's."""
    for latch, ends in ((0, True), (1, False)):
        path = Path("bbq", rtt_us=50_000)
        path.controller.set_tunable("bbq_latch", latch)
        path.until_probe_bw()
        path.until(PROBE_BW + 0)
        for _ in range(20):
            state = path.ack(rtt_us=60_000, advance_us=500, prior_in_flight_pkts=10)
        assert (state["phase"] != PROBE_BW + 0) is ends


def test_bbq_threshold_knows_data_from_handshake() -> None:
    """A handshake 2 ms faster than data is no queue, unless the literal formula is asked for."""
    for data_only, queue in ((1, False), (0, True)):
        path = Path("bbq", rtt_us=50_000)
        path.controller.set_tunable("bbq_data_min_rtt", data_only)
        for _ in range(10):
            state = path.ack(rtt_us=52_000)
        assert state["min_rtt_us"] == 50_000
        assert state["bbq_queue_seen"] is queue


def test_bbq_min_rtt_of_data_is_renewed_with_min_rtt() -> None:
    path = Path("bbq", rtt_us=50_000)
    path.until_probe_bw()
    for _ in range(5):
        state = path.ack(rtt_us=80_000)
    assert state["bbq_queue_seen"]
    path.ack(rtt_us=80_000, advance_us=11_000_000)
    assert path.state["min_rtt_us"] == 80_000
    assert not path.ack(rtt_us=80_100)["bbq_queue_seen"]


def test_bbqs_first_cut_drains_to_one_bdp_without_budget() -> None:
    path = Path("bbq-first-cut")
    path.until_probe_bw()
    path.until(PROBE_BW + 1, prior_in_flight_pkts=10_000)
    for _ in range(100):
        assert path.ack(prior_in_flight_pkts=36)["phase"] == PROBE_BW + 1
    assert path.ack(prior_in_flight_pkts=33)["phase"] == PROBE_BW + 2


# ---- BBR-PG ----


def test_pg_window_follows_srtt_from_round_to_round() -> None:
    path = Path("bbr-pg", rtt_us=10_000)
    path.until_probe_bw()
    rounds = path.state["round_count"]
    while path.state["round_count"] < rounds + 2:
        state = path.ack(srtt_us=20_000)
    assert state["bw_window_rounds"] == 180 // 20 + 4
    state = path.ack(srtt_us=60_000, prior_delivered_pkts=0)
    assert not state["round_start"]
    assert state["bw_window_rounds"] == 13, "not within a round"
    state = path.ack(srtt_us=60_000, prior_delivered_pkts=path.delivered_pkts)
    assert state["round_start"]
    assert state["bw_window_rounds"] == 180 // 60 + 4


@pytest.mark.parametrize(("cap", "expected"), [(64, 125.0), (3, 3.75), (1, 1.25)])
def test_pg_gamma_is_capped_only_when_asked(cap: float, expected: float) -> None:
    path = Path("bbr-pg", rtt_us=1000)
    path.controller.set_tunable("pg_gamma_cap", cap)
    path.until_probe_bw()
    path.until(PROBE_BW + 0, prior_in_flight_pkts=10_000)
    assert path.ack(srtt_us=100_000, prior_in_flight_pkts=1)["pacing_gain_q16"] / 65536 == expected


def test_pg_end_test_is_at_the_unscaled_gain_unless_asked() -> None:
    """BDP 33: 1.25 BDP and budget is below 60 in flight, with gamma 2 it is above."""
    for mode, ends in ((0, True), (1, False)):
        path = Path("bbr-pg", rtt_us=40_000, srtt_us=80_000)
        path.controller.set_tunable("pg_end_test", mode)
        path.until_probe_bw()
        path.until(PROBE_BW + 0, prior_in_flight_pkts=10_000)
        for _ in range(60):
            state = path.ack(prior_in_flight_pkts=60)
            if state["phase"] != PROBE_BW + 0:
                break
        assert (state["phase"] != PROBE_BW + 0) is ends


def test_pg_probe_interval_is_whole_seconds_between_its_bounds() -> None:
    drawn = set()
    for seed in range(300):
        path = Path("bbr-pg", seed=seed)
        drawn.add(path.ack()["probe_rtt_interval_us"])
    assert drawn == {s * 1_000_000 for s in range(5, 16)}


def test_pg_crossed_bounds_are_taken_the_right_way_round() -> None:
    path = Path("bbr-pg")
    path.controller.set_tunable("pg_trand_low_us", 10e6)
    path.controller.set_tunable("pg_trand_high_us", 8e6)
    assert 8e6 <= path.ack()["probe_rtt_interval_us"] <= 10e6


def test_pg_cruise_phases_last_a_sixth_of_tinterval() -> None:
    path = Path("bbr-pg", rtt_us=100_000)
    path.until_probe_bw()
    path.until(PROBE_BW + 2, prior_in_flight_pkts=10_000, advance_us=1000)
    start_us = path.now_us
    path.until(PROBE_BW + 3, advance_us=1000)
    assert 30_000 < path.now_us - start_us <= 32_000


def test_pg_a_gain_scaled_below_one_does_not_hold_the_flow_in_probe_up() -> None:
    path = Path("bbr-pg-inv", rtt_us=10_000, srtt_us=30_000)
    path.until_probe_bw()
    path.until(PROBE_BW + 0, prior_in_flight_pkts=10_000)
    assert path.state["pacing_gain_q16"] < 65536
    for _ in range(20):
        state = path.ack(prior_in_flight_pkts=1000)
    assert state["phase"] != PROBE_BW + 0


# ---- the table ----


@pytest.mark.parametrize("name", TUNABLES)
def test_defaults_lie_within_bounds_and_bounds_are_held(name: str) -> None:
    row = TUNABLES[name]
    assert row["low"] <= row["default"] <= row["high"]
    controller = _cc.Controller("bbr-mix")
    for value in (row["low"], row["high"], row["default"]):
        controller.set_tunable(name, value)
        assert controller.get_tunable(name) == pytest.approx(value, abs=1e-5)
    for value in (row["high"] * 1.01 + 1, row["low"] - 1, float("nan")):
        with pytest.raises(ValueError, match=rf"{name} = .* is outside \["):
            controller.set_tunable(name, value)


@pytest.mark.parametrize(("scale", "low", "high"), [("log", 0.0, 1.0), ("linear", 1.0, 1.0), ("linear", 2.0, 1.0)])
def test_a_tunable_without_a_range_is_refused(scale: str, low: float, high: float) -> None:
    with pytest.raises(ValueError, match=rf"tunable mine: low {low:g}, high {high:g}, expected .*low < high"):
        Tunable("mine", "m", "ratio", high, low, high, scale, "BBR", "a mistake")


def test_variants_have_their_own_tunables_and_mix_has_all() -> None:
    own = {name for name in TUNABLES if name.startswith("bbr_")}
    of_v3 = {name for name in TUNABLES if name.startswith("bbr3_")}
    assert set(VARIANTS["bbr"]["tunables"]) == own
    assert set(VARIANTS["bbq"]["tunables"]) == own | {n for n in TUNABLES if n.startswith("bbq_")}
    assert set(VARIANTS["bbr-mix"]["tunables"]) == set(TUNABLES) - of_v3
    assert set(VARIANTS["bbr3"]["tunables"]) == of_v3
    assert VARIANTS["cubic"]["tunables"] == VARIANTS["reno"]["tunables"] == []
    assert VARIANTS["bbr-pg-inv"]["preset"]["pg_gain_exponent"] == -1
