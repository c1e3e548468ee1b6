# SPDX-License-Identifier: GPL-2.0-only
"""``cubic``, ``bic``, ``vegas`` and ``westwood`` against windows of Linux's, recorded in ``linux_*.json``.

Recorded from the functions of net/ipv4/tcp_*.c, compiled in user space over a stub of their socket at 1000 ticks a
second, unpaced, and driven by :class:`FluidPath` in place of a controller; tcp_bic.c of today and before Linux 5.7. The
stub reduces the window at once, as a controller without rate reduction. Every window is equal, but CUBIC's (Linux 6.5):
Linux's cube root is off by up to 0.15 %, so that the curve arrives a little earlier or later. With an exact root in the
recorded program those are equal too, over 6 million ACKs with losses, timeouts and silences.
"""

import functools
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
CUBIC = json.loads(Path(__file__).with_name("linux_cubic.json").read_text())["cases"]


def fluid_path(variant: str, path: dict[str, Any], *, repairs: bool, **how: Any) -> FluidPath:
    initial = {"now_us": START_US, "mss_bytes": MSS_BYTES, "initial_cwnd_pkts": path["initial_cwnd_pkts"]}
    return FluidPath(_cc.Controller(variant, **initial, **how), path, repairs=repairs)


#: Of the two kernels' BIC, whose code differs in one line, one path shows the older one's.
OLDER = [name for name in RECORDED["windows"] if name.startswith("bic before 5.7") and not name.endswith("one loss")]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in OLDER else ()) for name in RECORDED["windows"]]
)
def test_the_windows_are_linuxs(name: str) -> None:
    algorithm, path_name = name.split(", ")
    variant, stack = ("bic", "linux-4.11") if algorithm == "bic before 5.7" else (algorithm, "linux-6")
    path = RECORDED["paths"][path_name]
    assert fluid_path(variant, path, repairs=True, stack=stack).run() == RECORDED["windows"][name]


@functools.cache
def played(name: str, **facts: int) -> dict[str, Any]:
    """Return the window 60 times at equal distances, that at the end of slow start (0: it lasts), and the losses."""
    of_6_5 = {"hystart_rounds": 0}  # from a window of 16 packets on
    fluid = fluid_path("cubic", CUBIC[name]["path"], repairs=False, facts=of_6_5 | facts)
    return {"cwnd_pkts": fluid.run(), "slow_start_end_pkts": fluid.slow_start_end_pkts, "losses": fluid.losses}


@pytest.mark.parametrize("name", CUBIC)
def test_the_windows_of_cubic_are_linuxs(name: str) -> None:
    ours, linux = played(name), CUBIC[name]["linux"]
    assert ours["slow_start_end_pkts"] == linux["slow_start_end_pkts"]
    assert ours["losses"] == linux["losses"]
    for i, (window, expected) in enumerate(zip(ours["cwnd_pkts"], linux["cwnd_pkts"], strict=True)):
        assert window == pytest.approx(expected, abs=1 + expected * CUBIC[name]["tolerance"]), f"sample {i}"


def test_hystart_ends_slow_start_before_a_loss() -> None:
    """833 packets/s, 40 ms, a queue of 8 BDP."""
    linux, without = played("hystart by delay"), played("hystart by delay", hystart=0)
    assert linux["slow_start_end_pkts"] < 100 < 300 < without["slow_start_end_pkts"]


def test_linuxs_reno_friendly_rule_is_slower_past_the_old_maximum() -> None:
    """W_max 20, 10 ms, 12 s: RFC 9438 adds a whole packet a round trip past W_max, Linux about 0.53."""
    linux, rfc = played("reno-friendly"), played("reno-friendly", reno_friendly_rule=1)
    assert rfc["cwnd_pkts"][-1] / linux["cwnd_pkts"][-1] == pytest.approx(1.85, abs=0.1)


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
