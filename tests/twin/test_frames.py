# SPDX-License-Identifier: GPL-2.0-only
"""The delays of a media source's frames, on paper."""

import math
from typing import Any

import pytest
from equal_worlds import compared
from native_simulation import MSS_BYTES, PACKET_BYTES, Summary
from twin_harness import Simulation, flow, scenario

PACKET_MS = PACKET_BYTES * 8 / 10e3  # on 10 Mbit/s
ONE_WAY_MS = 20.0


def media(pkts: float, fps: float = 10.0, rate_mbps: float = 10.0, **app: Any) -> Summary:
    """Frames of so many packets in the mean, by Reno: it leaves them to the link as they are."""
    source = {"kind": "frames", "fps": fps, "rate_mbps": pkts * fps * MSS_BYTES * 8e-6, "key_ratio": 1.0, "spread": 0.0}
    mapping = scenario(flow(cc="reno", app=source | app), duration_s=60.0, rate_mbps=rate_mbps)
    simulation = Simulation({**mapping, "warmup_s": 5.0})
    simulation.advance()
    return simulation.summary()


@pytest.mark.parametrize("pkts", [1, 2, 7])
def test_a_frame_takes_the_way_and_its_packets(pkts: int) -> None:
    delay_ms = ONE_WAY_MS + pkts * PACKET_MS
    summary = media(pkts, late_after_ms=delay_ms + 0.01)
    for percentile in ("p50", "p99"):
        assert summary.flow(f"frame_delay_{percentile}_ms") == pytest.approx(delay_ms, rel=0.004)
    assert summary.flow("late_frame_share") == 0
    assert media(pkts, late_after_ms=delay_ms - 0.01).flow("late_frame_share") == 1


def test_one_frame_in_key_every_is_larger() -> None:
    """Of ten frames, nine have 2 packets and one 12."""
    summary = media(3, key_every=10, key_ratio=6.0, late_after_ms=ONE_WAY_MS + 5 * PACKET_MS)
    assert summary.flow("frame_delay_p50_ms") == pytest.approx(ONE_WAY_MS + 2 * PACKET_MS, rel=0.004)
    assert summary.flow("late_frame_share") == pytest.approx(0.1, abs=0.01)
    assert summary.flow("goodput_mbps") == pytest.approx(3 * 10 * MSS_BYTES * 8e-6, rel=0.01)


def test_sizes_that_vary_have_their_mean() -> None:
    summary = media(5.5, fps=60.0, key_every=30, key_ratio=4.0, spread=0.5)
    assert summary.flow("goodput_mbps") == pytest.approx(5.5 * 60 * MSS_BYTES * 8e-6, rel=0.02)
    assert summary.flow("frame_delay_p99_ms") > 1.1 * summary.flow("frame_delay_p50_ms")


def test_what_a_link_cannot_carry_is_late() -> None:
    summary = media(10, fps=30.0, rate_mbps=1.0)
    assert summary.flow("late_frame_share") > 0.99
    assert summary.flow("frame_delay_p50_ms") > 1000


def test_a_full_send_buffer_takes_the_same_frames_in_ns3() -> None:
    """It holds the windows of the algorithm that a switch runs: three of BBR, two of others."""
    app = {"kind": "frames", "rate_mbps": 2.0}
    media = flow(cc="switch", tunables={"switch_arm": 2.0}, app=app, stack={"send_buffer_bytes": "auto"})
    assert compared(scenario(media, duration_s=5.0, rate_mbps=1.0))[1] is None


def test_other_sources_have_no_frames() -> None:
    simulation = Simulation(scenario(flow(), duration_s=1.0))
    simulation.advance()
    names = ("frame_delay_p50_ms", "frame_delay_p99_ms", "late_frame_share", "completed")
    assert all(math.isnan(simulation.summary().flow(name)) for name in names)
