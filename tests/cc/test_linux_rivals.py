# SPDX-License-Identifier: GPL-2.0-only
"""``bic``, ``vegas`` and ``westwood`` against windows of Linux's, recorded in ``linux_rivals.json``.

Recorded from the functions of net/ipv4/tcp_bic.c (of today and before Linux 5.7), tcp_vegas.c and tcp_westwood.c,
compiled in user space over a stub of their socket at 1000 ticks a second, and driven by :class:`FluidPath` in place of
a controller. The stub reduces the window at once, as a controller without rate reduction. Every window is equal.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from driver import MSS_BYTES, OPEN, RECOVERY
from driver import Path as Ideal
from fluid_path import START_US, FluidPath
from hypothesis import given, settings
from hypothesis import strategies as st

from bbrgym import _cc

RECORDED = json.loads(Path(__file__).with_name("linux_rivals.json").read_text())


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
    assert FluidPath(controller, path, repairs=True).run() == RECORDED["windows"][name]


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
