# SPDX-License-Identifier: GPL-2.0-only
"""``cubic`` against windows of Linux's CUBIC, recorded in ``linux_cubic.json``.

Recorded from net/ipv4/tcp_cubic.c of Linux 6.5 with its defaults, compiled in user space over a stub of its socket at
1000 ticks a second, unpaced, and driven by :class:`FluidPath` in place of a controller. What may differ is named in
``cc/cubic.h``: Linux's cube root is off by up to 0.15 %, so that the curve arrives a little earlier or later. With an
exact root in the recorded program every window is equal, over 6 million ACKs with losses, timeouts and silences.
"""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from driver import MSS_BYTES
from fluid_path import START_US, FluidPath

from bbrgym import _cc

RECORDED = json.loads(Path(__file__).with_name("linux_cubic.json").read_text())
CASES = RECORDED["cases"]


@functools.cache
def played(name: str, variant: str = "cubic") -> dict[str, Any]:
    """Return the window 60 times at equal distances, that at the end of slow start (0: it lasts), and the losses."""
    path = CASES[name]["path"]
    controller = _cc.Controller(
        variant,
        now_us=START_US,
        mss_bytes=MSS_BYTES,
        initial_cwnd_pkts=path["initial_cwnd_pkts"],
        facts={"hystart_rounds": 0},  # as 6.5 has it: from a window of 16 packets on
    )
    fluid = FluidPath(controller, path, repairs=False)
    windows = fluid.run()
    return {"cwnd_pkts": windows, "slow_start_end_pkts": fluid.slow_start_end_pkts, "losses": fluid.losses}


@pytest.mark.parametrize("name", CASES)
def test_the_windows_are_linuxs(name: str) -> None:
    ours, linux = played(name), CASES[name]["linux"]
    assert ours["slow_start_end_pkts"] == linux["slow_start_end_pkts"]
    assert ours["losses"] == linux["losses"]
    for i, (window, expected) in enumerate(zip(ours["cwnd_pkts"], linux["cwnd_pkts"], strict=True)):
        assert window == pytest.approx(expected, abs=1 + expected * CASES[name]["tolerance"]), f"sample {i}"


def test_hystart_ends_slow_start_before_a_loss() -> None:
    """833 packets/s, 40 ms, a queue of 8 BDP."""
    linux, rfc = played("hystart by delay"), played("hystart by delay", "cubic-rfc9438")
    assert linux["slow_start_end_pkts"] < 100 < 300 < rfc["slow_start_end_pkts"]


def test_linuxs_reno_friendly_rule_is_slower_past_the_old_maximum() -> None:
    """W_max 20, 10 ms, 12 s: RFC 9438 adds a whole packet a round trip past W_max, Linux about 0.53."""
    linux, rfc = played("reno-friendly"), played("reno-friendly", "cubic-rfc9438")
    assert rfc["cwnd_pkts"][-1] / linux["cwnd_pkts"][-1] == pytest.approx(1.85, abs=0.1)
