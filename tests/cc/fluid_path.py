# SPDX-License-Identifier: GPL-2.0-only
"""A fluid path on which Linux's loss-based controllers were recorded, and ours are played."""

from typing import Any

from driver import LOSS, OPEN, RECOVERY

from bbrgym import _cc

START_US = 5_000_000


class FluidPath:
    """A fluid path of one queue, and what a world would tell a controller of it.

    A window's ACKs come at the bottleneck's rate, then none until the round trip is over; the RTT is the longer of the
    path's and of the window at the bottleneck's rate. A recovery lasts a round trip.

    Attributes:
        path: ``initial_cwnd_pkts``, ``acked_pkts`` of an ACK, ``rtt_us``, ``rate_pps``, ``limit_pkts`` (a larger window
            loses a packet), ``losses_us`` (of a packet), ``timeouts_us``, ``idle_us`` (two seconds' silence; 0: none),
            ``slow_us`` (from then on the path is 20 ms longer; 0: never) and ``duration_us``, times from the start.
        repairs: whether a recovery's ACKs come one by one and advance nothing, a silence begins with an empty path, and
            the controller hears of the first packet, and of the first one after a timeout.
        losses: at the limit, up to now.
    """

    def __init__(self, controller: Any, path: dict[str, Any], *, repairs: bool) -> None:
        self.controller, self.path, self.repairs = controller, path, repairs
        self.losses = self.slow_start_end_pkts = 0
        self.now_us, self.una, self.delivered, self.sent = START_US, 0, 0, 0
        self.cwnd = path["initial_cwnd_pkts"]
        self.ca_state, self.recovery_end = OPEN, 0
        self.round_end, self.round_start_us = self.cwnd, START_US
        self.losses_due_us = [START_US + at for at in path["losses_us"]]
        self.timeouts_due_us = [START_US + at for at in path["timeouts_us"]]
        self.idle_us = START_US + path["idle_us"] if path["idle_us"] else None
        own_us = {"srtt_us": path["rtt_us"], "min_rtt_us": path["rtt_us"]}
        self.sample = _cc.Sample(sample_pkts=-1, interval_us=-1, is_cwnd_limited=True, **own_us)
        if repairs:
            controller.on_restart(START_US, True)

    def run(self, samples: int = 60) -> list[int]:
        """Return the windows ``samples`` times at equal distances."""
        at_us = [START_US + self.path["duration_us"] * count // samples for count in range(1, samples + 1)]
        windows: list[int] = []
        while len(windows) < samples:
            self.ack()
            while len(windows) < samples and self.now_us >= at_us[len(windows)]:
                windows.append(self.cwnd)
        return windows

    def ack(self) -> None:
        """One ACK, and the timeout or the silence that is due after it."""
        acked = 1 if self.repairs and self.ca_state == RECOVERY else self.path["acked_pkts"]
        self.now_us += max(1, acked * 1_000_000 // self.path["rate_pps"])
        base_us = self.path["rtt_us"]
        if self.path["slow_us"] and self.now_us >= START_US + self.path["slow_us"]:
            base_us += 20_000
        if self.delivered >= self.round_end:
            self.now_us = max(self.now_us, self.round_start_us + base_us)
            self.round_start_us, self.round_end = self.now_us, self.delivered + self.cwnd
        self.delivered += acked
        self.sent = max(self.sent, self.delivered + self.cwnd)
        is_lost = bool(self.losses_due_us) and self.now_us >= self.losses_due_us[0]
        if self.ca_state == OPEN and (is_lost or self.cwnd > self.path["limit_pkts"]):
            self.losses_due_us = [at for at in self.losses_due_us if at > self.now_us]
            self.losses += not is_lost
            self.change(RECOVERY)
            self.recovery_end = self.delivered + self.cwnd
        elif self.ca_state != OPEN and self.delivered >= self.recovery_end:
            self.change(OPEN)
        stalls = self.repairs and self.ca_state == RECOVERY
        if not stalls:
            self.una = self.delivered
        rtt_us = max(base_us, self.cwnd * 1_000_000 // self.path["rate_pps"])
        self.tell(acked, -1 if self.ca_state == LOSS else rtt_us, stalls)
        if self.timeouts_due_us and self.now_us >= self.timeouts_due_us[0]:
            del self.timeouts_due_us[0]
            self.controller.on_rto(self.cwnd, 0, self.cwnd)
            self.ca_state, self.recovery_end = LOSS, self.sent
            if self.repairs:
                self.controller.on_restart(self.now_us, False)
        elif self.idle_us is not None and self.now_us >= self.idle_us and self.ca_state == OPEN:
            self.idle_us = None
            if self.repairs:
                self.una = self.delivered = self.sent
                self.tell(1, rtt_us, False)
            self.now_us += 2_000_000
            self.controller.on_restart(self.now_us, True)
        before, self.cwnd = self.cwnd, self.controller.cwnd_pkts
        if not self.slow_start_end_pkts and self.cwnd >= self.controller.ssthresh_pkts:
            self.slow_start_end_pkts = self.cwnd if self.ca_state == OPEN else before

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
