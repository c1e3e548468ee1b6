# SPDX-License-Identifier: GPL-2.0-only
"""The bottleneck and the paths around it, against what can be worked out on paper; more laws are in tests/twin.

The twin shows the same, bit for bit (tests/twin/test_differential.py), so a law of our own sockets stands in one place.
"""

import math

import numpy as np
import pytest
from native_simulation import PACKET_BYTES
from ns3_harness import change, flow, queue, scenario

PACKET_MS = PACKET_BYTES * 8 / 10e6 * 1e3  # on a link of 10 Mbit/s
PAYLOAD_RATIO = 1448 / PACKET_BYTES


def cbr(rate_mbps: float, **changes):
    return flow(app={"kind": "cbr", "rate_mbps": rate_mbps}, **changes)


# ---- rate and delay --------------------------------------------------------------------------------------


def test_a_lone_flow_of_ns3s_own_fills_the_link_and_no_more(run):
    summary = run(scenario(flow(cc="ns3-cubic"), duration_s=20, warmup_s=5))
    assert 0.97 < summary.link("utilisation") <= 1
    assert summary.flow("goodput_mbps") == pytest.approx(summary.flow("throughput_mbps") * PAYLOAD_RATIO, rel=0.01)
    assert summary.link("capacity_mbps") == pytest.approx(10)
    assert summary.flow("fair_share_mbps") == pytest.approx(10 * PAYLOAD_RATIO)


@pytest.mark.parametrize("rtt_ms", [1.0, 1.5, 10.0, 300.0])
@pytest.mark.parametrize("cc", ["reno", "ns3-cubic"])
def test_base_rtt_is_the_scenarios_plus_one_serialisation(run, cc, rtt_ms):
    summary = run(scenario(cbr(1.0, cc=cc, rtt_ms=rtt_ms), delay_ms=min(1.0, rtt_ms / 2)))
    assert summary.flow("rtt_min_ms") == pytest.approx(rtt_ms + PACKET_MS, abs=0.001)
    assert summary.flow("queue_delay_mean_ms") == 0


def test_a_rate_change_is_followed_and_its_capacity_exact(simulate):
    changes = [change(4.25, rate_mbps=5.0), change(6.0, rate_mbps=20.0)]
    simulation = simulate(scenario(changes=changes))
    rates = []
    for _ in range(10):
        simulation.advance(1.0)
        rates.append(simulation.link("rate_mbps"))
        assert simulation.flow("throughput_mbps") <= rates[-1] * (1 + 1e-9)
    assert rates == pytest.approx([10] * 4 + [0.25 * 10 + 0.75 * 5, 5] + [20] * 4)
    assert simulation.flow("throughput_mbps") > 15


def test_a_longer_delay_adds_to_the_rtt_and_a_shorter_one_never_reorders(run, simulate):
    longer = scenario(cbr(1.0), changes=[change(1.0, delay_ms=31.0)])
    assert run(longer).flow("rtt_min_ms") == pytest.approx(40 + 30 + PACKET_MS, abs=0.001)
    # Were packets to overtake each other, their holes would be taken for losses.
    shorter = scenario(flow(), delay_ms=20.0, queue=queue(size_bytes=10**9), changes=[change(3.0, delay_ms=1.0)])
    simulation = simulate(shorter)
    simulation.advance(10)
    assert simulation.flow("retransmitted_pkts") == simulation.flow("dropped_pkts") == 0


# ---- queue -----------------------------------------------------------------------------------------------


def test_a_limit_in_bytes_is_the_same_as_in_that_many_full_packets(run):
    in_packets = run(scenario(queue=queue(size_packets=30)))
    in_bytes = run(scenario(queue=queue(size_bytes=30 * PACKET_BYTES)))
    assert in_packets.bytes() == in_bytes.bytes()
    smaller = run(scenario(queue=queue(size_bytes=30 * PACKET_BYTES - 1)))
    assert smaller.bytes() != in_bytes.bytes()


def test_codel_keeps_the_delay_of_a_deep_buffer_short(run):
    codel = {"target_ms": 5.0, "interval_ms": 100.0}
    deep = queue(size_bytes=500_000)
    held = run(scenario(queue={**deep, "kind": "codel", "codel": codel}, duration_s=30, warmup_s=10))
    tail = run(scenario(queue=deep, duration_s=30, warmup_s=10))
    assert held.link("queue_dropped_pkts") > 0
    assert held.link("queue_delay_mean_ms") < 20 < 100 < tail.link("queue_delay_mean_ms")
    assert held.link("utilisation") > 0.8


# ---- random loss -----------------------------------------------------------------------------------------


def sent_and_lost(run, loss, seed=1):
    summary = run(scenario(flow(cc="bbr"), duration_s=20, warmup_s=0, loss=loss), seed)
    assert summary.flow("dropped_pkts") == summary.link("random_lost_pkts") + summary.link("queue_dropped_pkts")
    return summary.flow("sent_pkts"), summary.link("random_lost_pkts")


def test_gilbert_elliott_loss_has_its_mean_and_comes_in_bursts(run):
    states = {"good_to_bad": 0.01, "bad_to_good": 0.2, "loss_good": 0.001, "loss_bad": 0.5, "clock": "packet"}
    sent, lost = sent_and_lost(run, {"kind": "gilbert_elliott", **states})
    bad = 0.01 / (0.01 + 0.2)
    mean = bad * 0.5 + (1 - bad) * 0.001
    # Losses of the same stay in the bad state go together: variance up by about 1 + 2 * 0.5 / 0.21.
    assert abs(lost - sent * mean) < 4.5 * math.sqrt(sent * mean * (1 + 2 * 0.5 / 0.21))
    frozen = {"good_to_bad": 0.0, "bad_to_good": 0.0, "loss_good": 0.0, "loss_bad": 1.0, "clock": "time"}
    assert sent_and_lost(run, {"kind": "gilbert_elliott", **frozen})[1] == 0


def test_flows_come_up_through_heavy_loss(run):
    """SYNs are lost as well: each is tried again after 1, 2, 4, ... s, and the RTT is taken from none of them."""
    single = {**flow()["stack"], "gso_max_segs": 1}  # segments of a burst are lost and sent again one by one
    flows = [flow(f"f{i}", cc="bbr", rtt_ms=20.0, stack=single) for i in range(12)]
    summary = run(scenario(*flows, duration_s=40, warmup_s=20, loss={"kind": "bernoulli", "rate": 0.3}))
    for index in range(len(flows)):
        assert summary.flow("goodput_mbps", index) > 0.05
        assert 20 < summary.flow("rtt_min_ms", index) < 100


def test_loss_comes_after_the_departure_is_counted(run):
    summary = run(scenario(flow(cc="bbr"), loss={"kind": "bernoulli", "rate": 0.1}))
    delivered = summary.flow("throughput_mbps") * 0.9 * PAYLOAD_RATIO
    assert summary.flow("goodput_mbps") == pytest.approx(delivered, rel=0.03)


def test_a_loss_change_applies_from_its_time_on(simulate):
    simulation = simulate(scenario(flow(cc="bbr"), changes=[change(5.0, loss_rate=0.05)]))
    simulation.advance(5.0)
    assert simulation.link("random_lost_pkts") == 0
    simulation.advance(5.0)
    assert simulation.link("random_lost_pkts") > 50


# ---- trace -----------------------------------------------------------------------------------------------


def trace(times_ms, period_ms):
    return {"times_ms": times_ms, "period_ms": period_ms, "opportunity_bytes": 1500}


def test_a_trace_link_carries_its_opportunities_and_repeats(run):
    # 0.5 s at 24 Mbit/s, 0.5 s at 6 Mbit/s, again and again.
    times = [t for t in range(1, 501) for _ in range(2)] + [t for t in range(501, 1001) if t % 2]
    summary = run(scenario(trace=trace(times, 1001.0), duration_s=20.02, warmup_s=2.002))
    assert summary.link("capacity_mbps") == pytest.approx(1250 * 1500 * 8 / 1.001 / 1e6, rel=1e-3)
    assert 0.6 < summary.link("utilisation") <= 1.0


def test_a_packet_waits_for_the_next_opportunity_and_unused_ones_are_lost(simulate):
    # One packet each 100 ms, an opportunity at each 10 ms: never a queue, never two opportunities for a packet.
    lone = cbr(1448 * 8 / 0.1 / 1e6, rtt_ms=40.0)
    simulation = simulate(scenario(lone, trace=trace([10.0], 10.0)))
    simulation.advance(1)
    simulation.native.trace_acks(0, 0, 1000)
    simulation.advance(9)
    rtt_us = simulation.native.ack_trace(0, 0)["rtt_us"]
    # A lone segment doubles the ACKs' delay, up to the handshake's round trip, which waits for an opportunity too.
    path_us = 40_000 + 10_000
    assert len(rtt_us) == 90
    assert np.all(rtt_us <= path_us + path_us)
    assert simulation.link("utilisation") == pytest.approx(PACKET_BYTES / 15_000, rel=0.01)
    assert simulation.link("queue_mean_bytes") <= PACKET_BYTES * 10 / 100
