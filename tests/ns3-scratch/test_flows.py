# SPDX-License-Identifier: GPL-2.0-only
"""Start and stop, what is counted of a flow, and the flows of ns-3's own sockets.

The twin equals this world bit for bit (tests/twin/test_differential.py), so what link and applications do to our own
sockets stands there and in tests/world; no twin has ns-3's sockets.
"""

import math

import numpy as np
import pytest
from native_simulation import FLOW_STATS, FLOW_SUMMARY, PACKET_BYTES
from ns3_harness import flow, queue, scenario

from bbrgym import _ns3
from bbrgym.scenario.stack import SenderStack

STOCK = _ns3.stock_congestion_controls()
PAYLOAD_RATIO = 1448 / PACKET_BYTES


# ---- ns-3's own sockets ----------------------------------------------------------------------------------


def cbr(rate_mbps, **changes):
    return flow(app={"kind": "cbr", "rate_mbps": rate_mbps}, **changes)


def test_a_lone_flow_fills_the_link_and_no_more(run):
    summary = run(scenario(flow(cc="ns3-cubic"), duration_s=20, warmup_s=5))
    assert 0.97 < summary.link("utilisation") <= 1
    assert summary.flow("goodput_mbps") == pytest.approx(summary.flow("throughput_mbps") * PAYLOAD_RATIO, rel=0.01)


@pytest.mark.parametrize("rtt_ms", [1.0, 1.5, 10.0, 300.0])
def test_base_rtt_is_the_scenarios_plus_one_serialisation(run, rtt_ms):
    summary = run(scenario(cbr(1.0, cc="ns3-cubic", rtt_ms=rtt_ms), delay_ms=min(1.0, rtt_ms / 2)))
    assert summary.flow("rtt_min_ms") == pytest.approx(rtt_ms + PACKET_BYTES * 8 / 10e3, abs=0.001)
    assert summary.flow("queue_delay_mean_ms") == 0


def test_cbr_below_capacity_gets_its_rate(run):
    summary = run(scenario(cbr(3.0, cc="ns3-bbr")))
    assert summary.flow("goodput_mbps") == pytest.approx(3, rel=0.005)
    assert summary.flow("dropped_pkts") == 0


@pytest.mark.parametrize(
    ("fact", "segment_bytes"),
    [("send_buffer_bytes", 1448 + 896), ("receive_buffer_bytes", 2304)],  # memory of a segment on linux-6
)
def test_the_buffers_of_the_stack_hold_ns3_s_own_sockets(simulate, fact, segment_bytes):
    stack = SenderStack(preset="linux-6", **{fact: 100_000}).over(None).model_dump()
    sender = flow(cc="ns3-linux-reno", rtt_ms=40.0, stack=stack)
    simulation = simulate(scenario(sender, rate_mbps=100.0, queue=queue(size_bytes=2_000_000)))
    held_pkts = 200_000 / segment_bytes  # setsockopt doubles
    for _ in range(20):
        simulation.advance(0.5)
        assert simulation.flow("in_flight_pkts") <= held_pkts + 1
    assert simulation.flow("goodput_mbps") == pytest.approx(held_pkts * 1448 * 8 / 40e3, rel=0.1)


# ---- start and stop --------------------------------------------------------------------------------------


def test_start_and_stop_are_exact_and_little_is_sent_after_the_stop(simulate):
    flows = [flow("a"), flow("b", start_s=2.5, stop_s=6.0, rtt_ms=20.0)]
    simulation = simulate(scenario(*flows, warmup_s=1))
    active, sent = [], []
    for _ in range(20):
        simulation.advance(0.5)
        active.append(simulation.flow("active", 1))
        sent.append(simulation.flow("sent_pkts", 1))
    assert active == [0] * 5 + [1] * 7 + [0] * 8
    assert sent[:5] == [0] * 5
    assert all(count > 0 for count in sent[5:12])
    assert sum(sent[13:]) == 0
    summary = simulation.summary()
    assert (summary.flow("start_s", 1), summary.flow("stop_s", 1)) == (2.5, 6.0)
    assert (summary.flow("start_s", 0), summary.flow("stop_s", 0)) == (1.0, 10.0)


def test_a_flow_that_never_runs_in_the_window_has_no_summary(run):
    summary = run(scenario(flow("a"), flow("b", stop_s=1.0), warmup_s=2))
    assert np.all(np.isnan(summary.flows[1]))
    of_apps = ["completed", "completion_s", "slowdown", "frame_delay_p50_ms", "frame_delay_p99_ms", "late_frame_share"]
    assert [name for name in FLOW_SUMMARY if math.isnan(summary.flow(name))] == of_apps
    assert summary.link("jain") == 1


def test_fair_share_is_the_time_mean_over_the_flows_present(run):
    flows = [flow("a"), flow("b", start_s=4.0, stop_s=8.0)]
    summary = run(scenario(*flows, warmup_s=2.0, duration_s=10.0))
    payload = 10 * PAYLOAD_RATIO
    assert summary.flow("fair_share_mbps", 0) == pytest.approx((4 * payload + 4 * payload / 2) / 8)
    assert summary.flow("fair_share_mbps", 1) == pytest.approx(payload / 2)
    assert 0 < summary.flow("share", 1) < 1


def test_fair_share_of_an_interval_is_by_the_flows_active_in_it(simulate):
    simulation = simulate(scenario(flow("a", stop_s=7.5), flow("b", start_s=4.0, stop_s=6.0)))
    shares = []
    for _ in range(10):
        simulation.advance(1.0)
        shares.append(simulation.flow("fair_share_mbps"))
        assert simulation.flow("fair_share_mbps", 1) == shares[-1]
    payload = 10 * PAYLOAD_RATIO
    assert shares == pytest.approx([*[payload] * 4, *[payload / 2] * 2, *[payload] * 2, 0.0, 0.0])


def test_shares_add_up_and_jain_is_that_of_the_goodputs(run):
    flows = [flow(f"f{i}", rtt_ms=10.0 + 20 * i) for i in range(3)]
    summary = run(scenario(*flows))
    goodput = np.array([summary.flow("goodput_mbps", i) for i in range(3)])
    assert sum(summary.flow("share", i) for i in range(3)) == pytest.approx(1)
    assert summary.link("jain") == pytest.approx(goodput.sum() ** 2 / (3 * (goodput**2).sum()))


@pytest.mark.parametrize("cc", STOCK)
def test_every_packet_is_delivered_or_dropped(simulate, cc):
    """After a flow has drained: sent = first deliveries + drops + needless repetitions."""
    simulation = simulate(scenario(flow(cc=cc, stop_s=8.0), duration_s=12, warmup_s=0, queue=queue(size_bytes=20_000)))
    totals = dict.fromkeys(FLOW_STATS, 0.0)
    goodput_bytes = 0.0
    for _ in range(12):
        simulation.advance(1)
        assert not np.any(np.isnan(simulation.flow_stats))
        assert not np.any(np.isnan(simulation.link_stats))
        for name in FLOW_STATS:
            totals[name] += simulation.flow(name)
        goodput_bytes += simulation.flow("goodput_mbps") * 1e6 / 8
    delivered = goodput_bytes / 1448
    needless = totals["sent_pkts"] - totals["dropped_pkts"] - delivered
    assert totals["sent_pkts"] > 1000
    assert -1e-6 <= needless <= totals["retransmitted_pkts"]
    # The last segment may be shorter, so the sender's count may be one above that of full packets.
    assert totals["sent_pkts"] - totals["retransmitted_pkts"] == pytest.approx(delivered, abs=1)


# ---- counting --------------------------------------------------------------------------------------------


def test_intervals_add_up_to_the_summary(simulate):
    simulation = simulate(scenario(flow("a"), flow("b", cc="bbr"), warmup_s=2, duration_s=10))
    simulation.advance(2)
    sums = np.zeros_like(simulation.flow_stats)
    while not simulation.done:
        simulation.advance(0.25)
        sums += simulation.flow_stats
    summary = simulation.summary()
    for index in range(2):
        for count in ("sent_pkts", "retransmitted_pkts", "lost_pkts", "dropped_pkts", "rto_count"):
            assert sums[index, FLOW_STATS.index(count)] == summary.flow(count, index), count
        for rate in ("goodput_mbps", "throughput_mbps"):
            mean = sums[index, FLOW_STATS.index(rate)] * 0.25 / 8
            assert mean == pytest.approx(summary.flow(rate, index))


def test_rtt_without_a_sample_repeats_the_last(simulate):
    simulation = simulate(scenario(flow(stop_s=3.0), duration_s=8, warmup_s=1))
    assert simulation.flow("rtt_mean_ms") == 0
    simulation.advance(5.0)
    simulation.advance(1.0)
    last = [simulation.flow(name) for name in ("rtt_mean_ms", "rtt_p95_ms", "rtt_min_ms")]
    assert simulation.flow("rtt_samples") == 0
    assert len(set(last)) == 1
    assert last[0] > 40


def test_percentile_and_mean_are_those_of_the_acks(simulate):
    simulation = simulate(scenario())
    simulation.advance(2)
    simulation.native.trace_acks(0, 0, 10**6)
    simulation.advance(8)
    rtt_us = simulation.native.ack_trace(0, 0)["rtt_us"]
    rtt_ms = rtt_us[rtt_us >= 0] / 1e3
    assert simulation.flow("rtt_samples") == len(rtt_ms)
    assert simulation.flow("rtt_mean_ms") == pytest.approx(rtt_ms.mean())
    assert simulation.flow("rtt_min_ms") == pytest.approx(rtt_ms.min())
    exact = np.sort(rtt_ms)[int(np.ceil(0.95 * len(rtt_ms))) - 1]
    assert simulation.flow("rtt_p95_ms") == pytest.approx(exact, rel=0.004)
    assert simulation.summary().flow("rtt_mean_ms") == pytest.approx(rtt_ms.mean())
