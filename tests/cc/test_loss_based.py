# SPDX-License-Identifier: GPL-2.0-only
"""Reno (RFC 5681) and CUBIC (RFC 9438): closed forms of the window."""

import math

import pytest
from driver import LOSS, MSS_BYTES, OPEN, RECOVERY, Path

from bbrgym import _cc


def round_trip(path: Path, **changes: object) -> dict:
    """Acknowledges one window, two packets an ACK, over one RTT."""
    window = path.state["cwnd_pkts"]
    acks = max(1, window // 2)
    for i in range(acks):
        state = path.ack(
            acked_pkts=2 if i < acks - 1 else window - 2 * (acks - 1), advance_us=path.rtt_us // acks, **changes
        )
    return state


@pytest.mark.parametrize("variant", ["reno", "cubic"])
def test_slow_start_doubles_each_round_trip(variant: str) -> None:
    path = Path(variant)
    assert [round_trip(path)["cwnd_pkts"] for _ in range(5)] == [20, 40, 80, 160, 320]


def test_reno_adds_a_packet_each_round_trip_after_halving() -> None:
    path = Path("reno", initial_cwnd_pkts=100)
    path.controller.on_loss_state(RECOVERY, 100)
    assert path.state["cwnd_pkts"] == path.state["ssthresh_pkts"] == 50
    for _ in range(4):
        assert path.ack(ca_state=RECOVERY)["cwnd_pkts"] == 50, "recovery keeps the window"
    path.controller.on_loss_state(OPEN, 40)
    assert [round_trip(path)["cwnd_pkts"] for _ in range(6)] == [51, 52, 53, 54, 55, 56]


@pytest.mark.parametrize("variant", ["reno", "cubic"])
def test_a_window_that_is_not_used_does_not_grow(variant: str) -> None:
    path = Path(variant)
    assert round_trip(path, is_cwnd_limited=False)["cwnd_pkts"] == 10


def test_timeouts_halve_the_threshold_once_an_episode() -> None:
    path = Path("reno", initial_cwnd_pkts=100)
    path.controller.on_rto(80, 0, 80)
    assert (path.state["cwnd_pkts"], path.state["ssthresh_pkts"]) == (1, 40)
    path.controller.on_rto(1, 0, 81)
    assert path.state["ssthresh_pkts"] == 40
    for _ in range(30):
        state = path.ack(ca_state=LOSS)
    assert state["cwnd_pkts"] >= 40, "slow start up to the threshold while the holes are filled"


def test_cubic_reduces_by_three_tenths_and_comes_back_after_k() -> None:
    path = Path("cubic", initial_cwnd_pkts=1000, rtt_us=200_000, bw_Bps=1000 * MSS_BYTES / 0.2)
    path.controller.on_loss_state(RECOVERY, 1000)
    assert path.state["cwnd_pkts"] == 700
    path.controller.on_loss_state(OPEN, 600)
    start_us = path.now_us
    while path.state["cwnd_pkts"] < 990:
        path.ack()
    k_s = math.cbrt(1000 * 0.3 / 0.4) - math.cbrt(10 / 0.4)  # 10 packets below the plateau
    assert (path.now_us - start_us) / 1e6 == pytest.approx(k_s, rel=0.06)


def test_cubic_is_flat_around_its_old_maximum() -> None:
    path = Path("cubic", initial_cwnd_pkts=1000, rtt_us=200_000, bw_Bps=1000 * MSS_BYTES / 0.2)
    path.controller.on_loss_state(RECOVERY, 1000)
    path.controller.on_loss_state(OPEN, 600)
    while path.state["cwnd_pkts"] < 999:
        path.ack()
    at_plateau_us = path.now_us
    while path.now_us < at_plateau_us + 1_000_000:
        state = path.ack()
    assert state["cwnd_pkts"] <= 1003


def test_cubic_makes_room_when_it_peaks_lower() -> None:
    path = Path("cubic", initial_cwnd_pkts=1000)
    path.controller.on_loss_state(RECOVERY, 1000)
    path.controller.on_loss_state(OPEN, 600)
    path.controller.on_loss_state(RECOVERY, 600)
    assert path.state["cubic_w_max_pkts"] == pytest.approx(0.85 * 700, abs=1)


def test_cubic_on_a_short_path_is_at_least_reno() -> None:
    """RFC 9438, 4.3: with small BDP the window follows the Reno estimate, 9/17 packets a round trip."""
    path = Path("cubic", initial_cwnd_pkts=20, rtt_us=1000, bw_Bps=30e6)
    path.controller.on_loss_state(RECOVERY, 20)
    path.controller.on_loss_state(OPEN, 10)
    start = path.state["cwnd_pkts"]
    for _ in range(12):
        state = round_trip(path)
    assert state["cwnd_pkts"] - start == pytest.approx(12 * 9 / 17, abs=2)


def test_cubic_after_a_timeout_starts_its_curve_where_avoidance_begins() -> None:
    """RFC 9438, 4.8: K = 0, so the window never waits at the old maximum."""
    path = Path("cubic", initial_cwnd_pkts=1000, rtt_us=100_000, bw_Bps=1000 * MSS_BYTES / 0.1)
    path.controller.on_rto(1000, 0, 1000)
    assert (path.state["cwnd_pkts"], path.state["ssthresh_pkts"]) == (1, 700)
    while path.state["cwnd_pkts"] < 700:
        path.ack(ca_state=LOSS)
    path.controller.on_loss_state(OPEN, 700)
    start_us = path.now_us
    while path.now_us < start_us + 10_000_000:
        state = path.ack()
    assert state["cubic_k_ms"] == 0
    assert state["cwnd_pkts"] == pytest.approx(700 + 0.4 * 10.1**3, rel=0.02)


def test_cubic_grows_a_large_window_by_fractions_of_a_packet() -> None:
    """1 Gbit/s, 1.2 s: W_est adds 9/17 of a packet a round trip, half a millionth of one each ACK."""
    path = Path("cubic", initial_cwnd_pkts=100_000, rtt_us=1000, bw_Bps=100_000 * MSS_BYTES / 0.001)
    path.controller.on_loss_state(RECOVERY, 100_000)
    path.controller.on_loss_state(OPEN, 70_000)
    for _ in range(70_000 // 2):
        state = path.ack(advance_us=0)
    assert state["cubic_w_est_micro_pkts"] == pytest.approx(70_000e6 + 529_412, abs=40_000)


@pytest.mark.parametrize("variant", ["reno", "cubic"])
def test_undo_takes_a_spurious_reduction_back(variant: str) -> None:
    path = Path(variant, initial_cwnd_pkts=100)
    before = path.state
    path.controller.on_loss_state(RECOVERY, 100)
    assert path.state["cwnd_pkts"] < 100
    path.controller.on_undo()
    for name in ("cwnd_pkts", "ssthresh_pkts", "cubic_w_max_pkts"):
        assert path.state[name] == before[name]
    path.controller.on_undo()
    assert path.state["cwnd_pkts"] == 100, "only once"


@pytest.mark.parametrize("x", [0, 1, 7, 8, 26, 27, 10**9, 10**18, 2**63, 2**64 - 1])
def test_cube_root_is_exact(x: int) -> None:
    root = _cc.cubic_root(x)
    assert root**3 <= x < (root + 1) ** 3
