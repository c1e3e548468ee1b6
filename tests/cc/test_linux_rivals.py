# SPDX-License-Identifier: GPL-2.0-only
"""``bic``, ``vegas`` and ``westwood`` against windows of Linux's, recorded in ``linux_rivals.json``.

Recorded from the functions of net/ipv4/tcp_bic.c (of today and before Linux 5.7), tcp_vegas.c and tcp_westwood.c,
compiled in user space over a stub of their socket at 1000 ticks a second, and driven by :func:`play` in place of a
controller. The stub reduces the window at once, as a controller without rate reduction. Every window is equal.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from driver import LOSS, MSS_BYTES, OPEN, RECOVERY
from driver import Path as Ideal
from hypothesis import given, settings
from hypothesis import strategies as st

from bbrgym import _cc

RECORDED = json.loads(Path(__file__).with_name("linux_rivals.json").read_text())
START_US = 5_000_000
RIVALS = ["bic", "vegas", "westwood"]


class Play:
    """A fluid path of one queue, and what a world would tell a controller of it.

    Attributes:
        path: ``initial_cwnd_pkts``, ``acked_pkts`` of an ACK, ``rtt_us``, ``rate_pps``, ``limit_pkts`` (a larger window
            loses a packet), ``losses_us`` (of a packet), ``timeouts_us``, ``idle_us`` (two seconds' silence; 0: none),
            ``slow_us`` (from then on the path is 20 ms longer; 0: never) and ``duration_us``, times from the start.
    """

    def __init__(self, controller: Any, path: dict[str, Any]) -> None:
        self.controller, self.path = controller, path
        self.now_us, self.una, self.delivered, self.sent = START_US, 0, 0, 0
        self.cwnd = path["initial_cwnd_pkts"]
        self.ca_state, self.recovery_end = OPEN, 0
        self.round_end, self.round_start_us = self.cwnd, START_US
        self.losses = [START_US + at for at in path["losses_us"]]
        self.timeouts = [START_US + at for at in path["timeouts_us"]]
        self.idle_us = START_US + path["idle_us"] if path["idle_us"] else None
        own_us = {"srtt_us": path["rtt_us"], "min_rtt_us": path["rtt_us"]}
        self.sample = _cc.Sample(sample_pkts=-1, interval_us=-1, is_cwnd_limited=True, **own_us)
        controller.on_restart(START_US, True)  # the first packet leaves

    def run(self, samples: int = 60) -> list[int]:
        """Return the windows ``samples`` times at equal distances."""
        windows: list[int] = []
        while len(windows) < samples:
            self.ack()
            while (
                len(windows) < samples
                and self.now_us >= START_US + self.path["duration_us"] * (len(windows) + 1) // samples
            ):
                windows.append(self.cwnd)
        return windows

    def ack(self) -> None:
        """One ACK, and the timeout or the silence that is due after it."""
        acked = 1 if self.ca_state == RECOVERY else self.path["acked_pkts"]
        self.now_us += max(1, acked * 1_000_000 // self.path["rate_pps"])
        base_us = self.path["rtt_us"]
        if self.path["slow_us"] and self.now_us >= START_US + self.path["slow_us"]:
            base_us += 20_000
        if self.delivered >= self.round_end:
            self.now_us = max(self.now_us, self.round_start_us + base_us)
            self.round_start_us, self.round_end = self.now_us, self.delivered + self.cwnd
        self.delivered += acked
        self.sent = max(self.sent, self.delivered + self.cwnd)
        is_lost = bool(self.losses) and self.now_us >= self.losses[0]
        if self.ca_state == OPEN and (is_lost or self.cwnd > self.path["limit_pkts"]):
            self.losses = [at for at in self.losses if at > self.now_us]
            self.change(RECOVERY)
            self.recovery_end = self.delivered + self.cwnd
        elif self.ca_state != OPEN and self.delivered >= self.recovery_end:
            self.change(OPEN)
        stalls = self.ca_state == RECOVERY
        if not stalls:
            self.una = self.delivered
        rtt_us = max(base_us, self.cwnd * 1_000_000 // self.path["rate_pps"])
        self.tell(acked, -1 if self.ca_state == LOSS else rtt_us, stalls)
        if self.timeouts and self.now_us >= self.timeouts[0]:
            del self.timeouts[0]
            self.controller.on_rto(self.cwnd, 0, self.cwnd)
            self.ca_state, self.recovery_end = LOSS, self.sent
            self.controller.on_restart(self.now_us, False)  # the first retransmission leaves
        elif self.idle_us is not None and self.now_us >= self.idle_us and self.ca_state == OPEN:
            self.idle_us = None
            self.una = self.delivered = self.sent
            self.tell(1, rtt_us, False)
            self.now_us += 2_000_000
            self.controller.on_restart(self.now_us, True)
        self.cwnd = self.controller.cwnd_pkts

    def change(self, state: int) -> None:
        self.ca_state = state
        self.controller.on_loss_state(state, self.cwnd)

    def tell(self, acked: int, rtt_us: int, stalls: bool) -> None:
        sample = self.sample
        sample.now_us = sample.delivered_time_us = self.now_us
        sample.delivered_pkts = self.delivered
        sample.rtt_us = rtt_us
        sample.una_pkts = self.una
        sample.next_pkts = self.sent
        sample.acked_pkts = acked
        sample.in_flight_pkts = self.sent - self.delivered
        sample.ca_state = self.ca_state
        sample.has_sack = stalls
        self.controller.on_ack(sample)


def controller_of(variant: str, initial_cwnd_pkts: int, stack: str = "linux-6") -> Any:
    return _cc.Controller(
        variant, now_us=START_US, mss_bytes=MSS_BYTES, initial_cwnd_pkts=initial_cwnd_pkts, stack=stack
    )


#: Of the two kernels' BIC, whose code differs in one line, one path shows the older one's.
OLDER = [name for name in RECORDED["windows"] if name.startswith("bic before 5.7") and not name.endswith("one loss")]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in OLDER else ()) for name in RECORDED["windows"]],
)
def test_the_windows_are_linuxs(name: str) -> None:
    algorithm, path_name = name.split(", ")
    variant, stack = ("bic", "linux-4.11") if algorithm == "bic before 5.7" else (algorithm, "linux-6")
    path = RECORDED["paths"][path_name]
    controller = controller_of(variant, path["initial_cwnd_pkts"], stack)
    assert Play(controller, path).run() == RECORDED["windows"][name]


def reduced(variant: str, cwnd_pkts: int, **changes: Any) -> Ideal:
    path = Ideal(variant, initial_cwnd_pkts=cwnd_pkts, **changes)
    path.controller.on_loss_state(RECOVERY, cwnd_pkts)
    return path


# ---- laws ----


@given(cwnd_pkts=st.integers(4, 100_000))
@settings(max_examples=60, deadline=None)
def test_a_loss_leaves_linuxs_share_of_the_window(cwnd_pkts: int) -> None:
    bic = cwnd_pkts // 2 if cwnd_pkts <= 14 else cwnd_pkts * 819 // 1024
    for variant, share in (("bic", bic), ("vegas", cwnd_pkts // 2), ("westwood", cwnd_pkts // 2)):
        state = reduced(variant, cwnd_pkts).state
        assert state["cwnd_pkts"] == state["ssthresh_pkts"] == share


@given(rtt_ms=st.integers(2, 300), queued_pkts=st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_vegas_keeps_two_to_four_packets_in_the_queue(rtt_ms: int, queued_pkts: int) -> None:
    cwnd_pkts = 100
    bw_Bps = cwnd_pkts * MSS_BYTES * 1000 / rtt_ms
    path = reduced("vegas", 2 * cwnd_pkts, rtt_us=rtt_ms * 1000, bw_Bps=bw_Bps)
    path.controller.on_loss_state(OPEN, 1)
    path.ack()  # tells the path's RTT, and where the round trip ends
    # base_rtt is the RTT and a microsecond more; the product is rounded down to whole packets.
    extra_us = -(-queued_pkts * (rtt_ms * 1000 + 1) // cwnd_pkts)
    rtts = 0
    while path.state["vegas_rtt_count"] >= rtts:
        rtts = path.state["vegas_rtt_count"]
        path.ack(rtt_us=rtt_ms * 1000 + extra_us)
    assert rtts > 40, "a window, two packets an ACK"
    assert path.state["cwnd_pkts"] - cwnd_pkts == (1 if queued_pkts < 2 else -1 if queued_pkts > 4 else 0)


def test_vegas_leaves_slow_start_at_the_rate_that_comes_back() -> None:
    path = Ideal("vegas", initial_cwnd_pkts=40, rtt_us=40_000)
    path.controller.on_restart(path.now_us, True)
    path.ack(next_pkts=2)
    for _ in range(4):
        path.ack(rtt_us=50_000, next_pkts=100)
    cwnd = path.state["cwnd_pkts"]
    while path.state["phase"] == 16:
        cwnd = path.state["cwnd_pkts"]
        path.ack(rtt_us=50_000)
    assert path.state["cwnd_pkts"] == cwnd * 40_001 // 50_001 + 1


def test_vegas_forgets_the_path_after_a_timeout_and_after_idle_time() -> None:
    for leave in ("timeout", "idle"):
        path = Ideal("vegas", rtt_us=40_000)
        path.ack()
        assert path.state["vegas_base_rtt_us"] == 40_001
        if leave == "timeout":
            path.controller.on_rto(10, 0, 10)
            assert not path.state["vegas_is_on"]
        path.controller.on_restart(path.now_us, leave == "idle")
        assert path.state["vegas_is_on"]
        path.ack(rtt_us=60_000)
        assert path.state["vegas_base_rtt_us"] == 60_001


@pytest.mark.parametrize("variant", RIVALS)
def test_the_window_stays_where_no_ack_advances(variant: str) -> None:
    path = Ideal(variant, initial_cwnd_pkts=20)
    path.ack(una_pkts=2)
    before = path.state["cwnd_pkts"]
    for _ in range(30):
        state = path.ack(una_pkts=2, has_sack=True, ca_state=1)
    assert state["cwnd_pkts"] == before


def test_westwood_ends_a_recovery_at_the_bandwidth_delay_product() -> None:
    """A steady 1 205 000 bytes/s and 40 ms are 33 packets; what is behind the queue does not count."""
    path = Ideal("westwood", initial_cwnd_pkts=60, rtt_us=40_000)
    for _ in range(3000):
        path.ack(rtt_us=40_000, is_cwnd_limited=False)
    path.controller.on_loss_state(RECOVERY, 60)
    assert path.state["cwnd_pkts"] == 30
    path.controller.on_loss_state(OPEN, 30)
    state = path.ack(is_cwnd_limited=False)
    assert state["westwood_bw_Bpms"] == pytest.approx(1205, rel=0.02)
    assert state["cwnd_pkts"] == state["ssthresh_pkts"] == state["westwood_bw_Bpms"] * 40 // MSS_BYTES


def test_westwoods_min_rtt_begins_anew_after_a_timeout() -> None:
    path = Ideal("westwood", rtt_us=40_000)
    for rtt_us in (40_000, 90_500):
        path.ack(rtt_us=rtt_us)
    assert path.state["westwood_min_rtt_ms"] == 40
    path.controller.on_rto(10, 0, 10)
    assert path.ack(rtt_us=-1)["westwood_min_rtt_ms"] == 91


@pytest.mark.parametrize("variant", RIVALS)
def test_undo_takes_a_spurious_reduction_back(variant: str) -> None:
    path = reduced(variant, 100)
    path.controller.on_undo()
    assert path.state["cwnd_pkts"] == 100


def test_bic_forgets_its_maximum_after_a_timeout() -> None:
    path = reduced("bic", 1000)
    assert path.state["bic_w_max_pkts"] == 1000
    path.controller.on_loss_state(OPEN, 800)
    path.controller.on_rto(800, 0, 800)
    state = path.state
    assert (state["cwnd_pkts"], state["ssthresh_pkts"], state["bic_w_max_pkts"]) == (1, 799 * 819 // 1024, 0)
