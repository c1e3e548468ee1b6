# SPDX-License-Identifier: GPL-2.0-only
"""ACKs that queue and are lost, against closed forms."""

from itertools import pairwise
from typing import Any

import pytest
from native_simulation import MSS_BYTES, PACKET_BYTES
from twin_harness import Mapping, Simulation, flow, scenario

NARROW_MBPS = 0.1


def reverse(rate_mbps: float = 100.0, **changes: Any) -> Mapping:
    return {"rate_mbps": rate_mbps, "delay_ms": 5.0, "queue": {"size_packets": 1000}, **changes}


def run(*flows: Mapping, back: Mapping | None = None, **changes: Any) -> Simulation:
    link = {} if back is None else {"reverse": back}
    simulation = Simulation(scenario(*flows, **link, **changes))
    simulation.advance()
    return simulation


@pytest.mark.parametrize(("timestamps", "ack_bytes"), [(False, 40), (True, 52)])
@pytest.mark.parametrize("per_ack", [1, 2])
def test_a_narrow_link_of_the_acks_bounds_the_data(per_ack: int, timestamps: bool, ack_bytes: int) -> None:
    """With a window that stays below the queue of the ACKs, each of which is of so many segments."""
    facts = {"timestamps": timestamps, "delayed_ack_segments": per_ack, "delayed_ack_ms": 500}
    window = {"receive_buffer_bytes": 100_000, "adaptive_delayed_acks": False}
    sender = flow(cc="cubic", stack={"preset": "linux-6", **facts, **window})
    result = run(sender, back=reverse(NARROW_MBPS), duration_s=30.0).summary()
    acks_per_s = NARROW_MBPS * 1e6 / 8 / ack_bytes
    assert result.flow("dropped_pkts") == 0
    assert result.flow("goodput_mbps") == pytest.approx(acks_per_s * per_ack * MSS_BYTES * 8e-6, rel=0.001)


@pytest.mark.parametrize("cc", ["bbr", "bbr3", "cubic"])
def test_acks_are_cumulative_so_that_most_may_be_lost(cc: str) -> None:
    """A later ACK says what a lost one said, so a window above the path's is as good as without loss."""
    changes = {"queue": {"size_bdp": 20.0}, "duration_s": 30.0}
    whole, lossy = (
        run(flow(cc=cc), back=reverse(loss={"kind": "bernoulli", "rate": rate}), **changes).summary()
        for rate in (0.0, 0.5)
    )
    assert lossy.flow("goodput_mbps") == pytest.approx(whole.flow("goodput_mbps"), rel=0.02)


def test_without_acks_timeouts_back_off() -> None:
    """RFC 6298: each waits twice as long as the one before, so their number grows with the logarithm of the time."""
    changes = [{"at_s": 5.0, "loss_rate": 1.0}]
    simulation = Simulation(scenario(flow(cc="cubic"), reverse=reverse(changes=changes), duration_s=100.0))
    simulation.advance(5.0)
    timeouts_s = []
    for _ in range(9500):
        simulation.advance(0.01)
        timeouts_s += [simulation.now_s] * int(simulation.flow("rto_count"))
    gaps_s = [later - earlier for earlier, later in pairwise(timeouts_s)]
    assert len(gaps_s) >= 6
    assert [later / earlier for earlier, later in pairwise(gaps_s)] == pytest.approx(
        [2.0] * (len(gaps_s) - 1), rel=0.06
    )


def test_without_acks_from_the_start_nothing_is_sent() -> None:
    result = run(flow(), back=reverse(loss={"kind": "bernoulli", "rate": 1.0})).summary()
    assert (result.flow("sent_pkts"), result.flow("goodput_mbps")) == (0, 0)


def test_a_wide_link_back_adds_its_transmission_alone() -> None:
    narrow, wide = (run(flow(cc="cubic"), back=back).summary() for back in (None, reverse(400e3)))
    assert wide.flow("goodput_mbps") == pytest.approx(narrow.flow("goodput_mbps"), rel=0.001)
    assert wide.flow("rtt_min_ms") == pytest.approx(narrow.flow("rtt_min_ms"), abs=0.001)


def test_data_of_both_directions_share_neither_link() -> None:
    """ACKs of a flow take 40 bytes of the other link for two packets."""
    flows = (flow("there", "cubic"), flow("back", "cubic", direction="reverse"))
    queue = {"kind": "fq_codel", "size_packets": 100}
    result = run(*flows, back=reverse(5.0, delay_ms=10.0, queue=queue), queue=queue, duration_s=60.0).summary()
    of_payload = MSS_BYTES / PACKET_BYTES
    assert result.flow("fair_share_mbps", 0) == pytest.approx(10.0 * of_payload)
    assert result.flow("fair_share_mbps", 1) == pytest.approx(5.0 * of_payload)
    for index, rate_mbps in enumerate((10.0, 5.0)):
        assert 0.9 < result.flow("goodput_mbps", index) / (rate_mbps * of_payload) < 1.0


def test_data_hold_up_the_acks_of_the_other_direction() -> None:
    """Behind a standing queue of data that drains in 120 ms, each ACK waits as long."""
    queue = {"size_packets": 100}
    flows = [flow("there", "bbr"), flow("back", "cubic", direction="reverse")]
    back = reverse(10.0, delay_ms=10.0, queue=queue)
    alone, beside = (run(*some, back=back, queue=queue, duration_s=60.0).summary() for some in (flows[:1], flows))
    added_ms = beside.flow("rtt_mean_ms") - alone.flow("rtt_mean_ms")
    assert added_ms > 0.5 * 100 * PACKET_BYTES * 8e-3 / 10.0
