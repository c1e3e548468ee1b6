# SPDX-License-Identifier: GPL-2.0-only
"""Reno (RFC 5681) and CUBIC (RFC 9438) as Linux has them: closed forms of the window."""

import math

import pytest
from driver import DISORDER, LOSS, MSS_BYTES, OPEN, RECOVERY, Path

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


def test_slow_start_doubles_each_round_trip() -> None:
    path = Path("reno")
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
    assert (path.state["cwnd_pkts"], path.state["ssthresh_pkts"]) == (1, 50)
    path.controller.on_rto(1, 0, 81, is_new_episode=False)
    assert path.state["ssthresh_pkts"] == 50
    for _ in range(30):
        state = path.ack(ca_state=LOSS)
    assert state["cwnd_pkts"] >= 50, "slow start up to the threshold while the holes are filled"


@pytest.mark.parametrize(
    ("stack", "ssthresh_pkts"), [("linux-6", 50), ("linux-4.9", 50), ("ns3", 30), ("ns3-3.28", 30)]
)
def test_linuxs_reno_halves_its_window_and_ns3s_what_is_in_flight(stack: str, ssthresh_pkts: int) -> None:
    path = Path("reno", initial_cwnd_pkts=100, stack=stack)
    path.controller.on_loss_state(RECOVERY, 60)
    assert path.state["cwnd_pkts"] == path.state["ssthresh_pkts"] == ssthresh_pkts


LINUX_LOSS_BASED = ["reno", "cubic", "bic", "vegas", "westwood"]


@pytest.mark.parametrize("ca_state", [OPEN, DISORDER, LOSS])
@pytest.mark.parametrize("variant", LINUX_LOSS_BASED)
def test_sacks_alone_grow_no_window_but_on_a_path_that_reorders(variant: str, ca_state: int) -> None:
    """Linux tcp_may_raise_cwnd: the window grows on an ACK that advances, for what that delivers."""
    path = Path(variant, facts={"hystart": 0})
    path.ack()
    una, start = path.delivered_pkts, path.state["cwnd_pkts"]
    for _ in range(3):
        state = path.ack(una_pkts=una, ca_state=ca_state, has_sack=True)
    assert state["cwnd_pkts"] == start
    state = path.ack(una_pkts=path.delivered_pkts + 1, acked_pkts=1, ca_state=OPEN)
    assert state["cwnd_pkts"] == start + 1, "the gap's segment, not those SACKed before"
    state = path.ack(una_pkts=path.delivered_pkts, ca_state=ca_state, has_sack=True, is_reordering=True)
    assert state["cwnd_pkts"] == start + 3


@pytest.mark.parametrize("variant", ["reno", "cubic", "bic"])
def test_on_ns3s_stack_a_filled_gap_counts_what_was_sacked_behind_it(variant: str) -> None:
    path = Path(variant, stack="ns3", facts={"hystart": 0})
    path.ack()
    una, start = path.delivered_pkts, path.state["cwnd_pkts"]
    for _ in range(3):
        state = path.ack(una_pkts=una, ca_state=DISORDER, has_sack=True, is_reordering=True)
    assert state["cwnd_pkts"] == start
    state = path.ack(una_pkts=path.delivered_pkts + 1, acked_pkts=1)
    assert state["cwnd_pkts"] == start + 7


@pytest.mark.parametrize(
    ("idle_ms", "cwnd_pkts"), [(200, 100), (201, 50), (401, 25), (601, 12), (801, 10), (10**6, 10)]
)
def test_a_pause_halves_a_loss_based_window_for_each_timeout(idle_ms: int, cwnd_pkts: int) -> None:
    """Linux tcp_cwnd_restart, which is asked of a pause longer than one; the first window stays."""
    path = Path("reno", initial_cwnd_pkts=10)
    while path.state["cwnd_pkts"] < 100:
        path.ack()
    path.controller.on_idle(idle_ms * 1000, 200_000)
    assert path.state["cwnd_pkts"] == cwnd_pkts


@pytest.mark.parametrize(("used_pkts", "cwnd_pkts"), [(1, 55), (40, 70), (99, 99), (100, 100)])
def test_an_unused_window_falls_halfway_to_what_was_used(used_pkts: int, cwnd_pkts: int) -> None:
    """Linux tcp_cwnd_application_limited; the first window of 10 counts as used."""
    path = Path("reno", initial_cwnd_pkts=10)
    path.controller.on_rto(0, 0, 0)
    while path.state["cwnd_pkts"] < 100:
        path.ack()
    ssthresh_pkts = path.state["ssthresh_pkts"]
    path.controller.on_cwnd_underused(used_pkts)
    assert path.state["cwnd_pkts"] == cwnd_pkts
    assert path.state["ssthresh_pkts"] == (max(75, ssthresh_pkts) if used_pkts < 100 else ssthresh_pkts)


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


def test_cubic_on_a_short_path_is_at_least_reno() -> None:
    """RFC 9438, 4.3: with small BDP the window follows the Reno estimate, 9/17 packets a round trip."""
    path = Path("cubic", initial_cwnd_pkts=20, rtt_us=20_000, bw_Bps=1.5e6)
    path.controller.on_loss_state(RECOVERY, 20)
    path.controller.on_loss_state(OPEN, 10)
    start = path.state["cwnd_pkts"]
    for _ in range(12):
        state = round_trip(path)
    assert state["cwnd_pkts"] - start == pytest.approx(12 * 9 / 17, abs=2)


@pytest.mark.parametrize(
    ("variant", "restored"),
    [
        ("reno", ("cwnd_pkts", "ssthresh_pkts")),
        ("cubic", ("cwnd_pkts", "ssthresh_pkts")),  # Linux's keeps its W_max
        *((variant, ("cwnd_pkts",)) for variant in ("bic", "vegas", "westwood")),
    ],
)
def test_undo_takes_a_spurious_reduction_back(variant: str, restored: tuple[str, ...]) -> None:
    path = Path(variant, initial_cwnd_pkts=100)
    before = path.state
    path.controller.on_loss_state(RECOVERY, 100)
    assert path.state["cwnd_pkts"] < 100
    path.controller.on_undo()
    for name in restored:
        assert path.state[name] == before[name]
    path.controller.on_undo()
    assert path.state["cwnd_pkts"] == 100, "only once"


@pytest.mark.parametrize("x", [0, 1, 7, 8, 26, 27, 10**9, 10**18, 2**63, 2**64 - 1])
def test_cube_root_is_exact(x: int) -> None:
    root = _cc.cube_root(x)
    assert root**3 <= x < (root + 1) ** 3
