# SPDX-License-Identifier: GPL-2.0-only
"""The mechanisms as hooks into BBR v1, and bbr-mix as all of them."""

import pytest
from driver import OPEN, PROBE_BW, RECOVERY, Path, random_events

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
    assert list(random_events(alone, seed, 3000)) == list(random_events(mixed, seed, 3000))


def test_mix_with_all_switches_off_is_bbr_whatever_the_mechanisms_are_tuned_to() -> None:
    mixed = Path("bbr-mix", seed=3)
    for name, row in TUNABLES.items():
        if row["mechanism"] != "BBR" and row["unit"] != "switch":
            mixed.controller.set_tunable(name, row["high"] if row["default"] == row["low"] else row["low"])
    alike = set(mixed.state) - {"plus_srtt_us"}
    for a, b in zip(random_events(Path("bbr", seed=3), 3, 3000), random_events(mixed, 3, 3000), strict=True):
        assert {k: a[k] for k in alike} == {k: b[k] for k in alike}


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


def test_plus_own_average_reaches_a_steady_rtt_at_any_weight() -> None:
    for weight in (1 / 64, 0.125, 1.0):
        path = Path("bbr-plus")
        path.controller.set_tunable("plus_srtt_weight", weight)
        path.ack()
        for _ in range(2000):
            state = path.ack(rtt_us=path.rtt_us + 1000)
        assert state["plus_srtt_us"] == pytest.approx(path.rtt_us + 1000, abs=1)


# ---- BBR-ACD ----


def into_recovery(rtts_us: list[int]) -> dict:
    path = Path("bbr-acd")
    path.until_probe_bw()
    for rtt_us in rtts_us:
        path.ack(rtt_us=rtt_us)
    path.controller.on_loss_state(RECOVERY, 60)
    return path.ack(ca_state=RECOVERY, lost_pkts=2, rtt_us=-1, in_flight_pkts=60, prior_delivered_pkts=0)


def test_acd_halves_after_a_congestive_loss_and_only_deducts_a_random_one() -> None:
    congestive, random = into_recovery([50_000, 50_300, 50_100]), into_recovery([40_000, 40_000])
    assert (congestive["acd_congested"], congestive["packet_conservation"]) == (True, True)
    assert (random["acd_congested"], random["packet_conservation"]) == (False, False)
    assert congestive["cwnd_pkts"] <= 40 < 70 <= random["cwnd_pkts"]


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


def test_bbq_threshold_knows_data_from_handshake() -> None:
    """A handshake 2 ms faster than data is no queue, unless the literal formula is asked for."""
    for data_only, queue in ((1, False), (0, True)):
        path = Path("bbq", rtt_us=50_000)
        path.controller.set_tunable("bbq_data_min_rtt", data_only)
        for _ in range(10):
            state = path.ack(rtt_us=52_000)
        assert state["min_rtt_us"] == 50_000
        assert state["bbq_queue_seen"] is queue


def test_bbqs_first_cut_drains_to_one_bdp_without_budget() -> None:
    path = Path("bbq-first-cut")
    path.until_probe_bw()
    path.until(PROBE_BW + 1, prior_in_flight_pkts=10_000)
    for _ in range(100):
        assert path.ack(prior_in_flight_pkts=36)["phase"] == PROBE_BW + 1
    assert path.ack(prior_in_flight_pkts=33)["phase"] == PROBE_BW + 2


# ---- BBR-PG ----


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
    of_direct = {name for name in TUNABLES if name.startswith("direct_")}
    of_others = {"scaled_exponent", "switch_arm"}
    assert set(VARIANTS["bbr"]["tunables"]) == own
    assert set(VARIANTS["bbq"]["tunables"]) == own | {n for n in TUNABLES if n.startswith("bbq_")}
    assert set(VARIANTS["bbr-mix"]["tunables"]) == set(TUNABLES) - of_v3 - of_direct - of_others
    assert set(VARIANTS["direct"]["tunables"]) == of_direct
    assert VARIANTS["cubic-scaled"]["tunables"] == VARIANTS["bbr-scaled"]["tunables"] == ["scaled_exponent"]
    assert VARIANTS["switch"]["tunables"] == ["switch_arm"]
    assert set(VARIANTS["bbr3"]["tunables"]) == of_v3
    assert VARIANTS["cubic"]["tunables"] == VARIANTS["reno"]["tunables"] == []
    assert VARIANTS["bbr-pg-inv"]["preset"]["pg_gain_exponent"] == -1
