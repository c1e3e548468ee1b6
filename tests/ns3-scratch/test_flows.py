# SPDX-License-Identifier: GPL-2.0-only
"""Applications, start and stop, and what is counted of a flow."""

import math

import numpy as np
import pytest
from native_simulation import FLOW_STATS, FLOW_SUMMARY, PACKET_BYTES, TUNABLES
from ns3_harness import flow, queue, scenario

from bbrgym import _cc, _ns3
from bbrgym.scenario.stack import SenderStack

OURS = [variant["name"] for variant in _cc.variants()]
STOCK = _ns3.stock_congestion_controls()
PAYLOAD_RATIO = 1448 / PACKET_BYTES


# ---- applications ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cc", ["bbr", "cubic", "ns3-bbr"])
def test_cbr_below_capacity_gets_its_rate(run, cc):
    summary = run(scenario(flow(cc=cc, app={"kind": "cbr", "rate_mbps": 3.0})))
    assert summary.flow("goodput_mbps") == pytest.approx(3, rel=0.005)
    assert summary.flow("dropped_pkts") == 0


def test_on_off_sends_while_on(simulate):
    app = {"kind": "onoff", "rate_mbps": 2.0, "on_s": 1.0, "off_s": 2.0, "random": False}
    simulation = simulate(scenario(flow(app=app, start_s=0.001), duration_s=9))
    sent = []
    for _ in range(9):
        simulation.advance(1)
        sent.append(simulation.flow("sent_pkts"))
    per_burst = 2e6 / 8 / 1448
    assert sent[0::3] == pytest.approx([per_burst] * 3, rel=0.02)
    assert sent[1::3] == pytest.approx([0] * 3, abs=3)  # the last packets of the burst, an RTT later
    assert sent[2::3] == [0] * 3


def test_random_on_off_has_its_mean_and_differs_between_seeds(run):
    app = {"kind": "onoff", "rate_mbps": 1.0, "on_s": 0.1, "off_s": 0.3, "random": True}
    flows = [flow(f"f{i}", app=app) for i in range(4)]
    first = run(scenario(*flows, duration_s=100))
    total = sum(first.flow("goodput_mbps", i) for i in range(4))
    assert total == pytest.approx(4 * 1.0 / 4, rel=0.2)  # about 1000 bursts: 4 standard deviations
    assert len({first.flow("sent_pkts", i) for i in range(4)}) > 1
    assert run(scenario(*flows, duration_s=100), seed=2).bytes() != first.bytes()


def test_a_bulk_flow_is_never_held_back_by_its_application(simulate):
    """Also right after ProbeRTT, when the window opens from 4 packets to hundreds at once."""
    simulation = simulate(
        scenario(flow(cc="bbr", rtt_ms=200.0), duration_s=14, rate_mbps=50.0, queue=queue(size_bytes=2_000_000))
    )
    phases = set()
    for _ in range(140):
        simulation.advance(0.1)
        phase = simulation.flow("phase")
        phases.add(phase)
        # BBR itself marks the samples of ProbeRTT, and the mark lasts while they are in flight.
        if simulation.now_s < 9.5:
            assert simulation.flow("app_limited") == 0
    assert 2 in phases
    assert simulation.flow("app_limited") == 0


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
    of_transfers = ["completed", "completion_s", "slowdown"]
    assert [name for name in FLOW_SUMMARY if math.isnan(summary.flow(name))] == of_transfers
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


# ---- counting --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cc", [*OURS, *STOCK])
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
    if cc in OURS and totals["rto_count"] == 0:
        # On a FIFO path nothing is taken for lost that was not.
        assert needless == pytest.approx(0, abs=1)
        assert totals["lost_pkts"] == totals["dropped_pkts"]
        assert totals["delivered_pkts"] == pytest.approx(delivered, abs=1)


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


# ---- tunables --------------------------------------------------------------------------------------------


def test_a_tunable_set_to_what_it_is_changes_nothing(run, simulate):
    resolved = scenario(flow(cc="bbq"))
    simulation = simulate(resolved)
    for _ in range(10):
        simulation.tunables[:] = simulation.tunables.copy()
        simulation.advance(1)
    touched = simulation.summary().bytes()
    assert run(resolved).bytes() == touched


@pytest.mark.parametrize(
    ("cc", "name", "value", "message"),
    [
        ("bbq", "bbq_alpha_us", 1e9, r"flow 'a': bbq_alpha_us = 1e\+09 is outside \[500, 50000\] us"),
        ("bbq", "bbq_alpha_us", np.nan, "flow 'a': bbq_alpha_us = nan is outside"),
        ("bbq", "plus_alpha", 0.9, "flow 'a': bbq has no tunable plus_alpha"),
        ("ns3-bbr", "bbr_up_gain", 1.2, "flow 'a': ns3-bbr has no tunable bbr_up_gain"),
        ("cubic", "bbr_up_gain", 1.2, "flow 'a': cubic has no tunable bbr_up_gain"),
    ],
)
def test_a_wrong_tunable_is_an_error_and_nothing_runs(simulate, cc, name, value, message):
    simulation = simulate(scenario(flow(cc=cc), flow("b", cc="bbr")))
    simulation.advance(1)
    simulation.tunables[1, TUNABLES.index("bbr_cwnd_gain")] = 3.0
    simulation.tunables[0, TUNABLES.index(name)] = value
    with pytest.raises(ValueError, match=message):
        simulation.advance(1)
    assert simulation.now_s == 1
