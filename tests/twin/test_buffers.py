# SPDX-License-Identifier: GPL-2.0-only
"""Senders behind buffers that are full, receive windows, and senders without pacing."""

from typing import Any

import pytest
from native_simulation import Summary
from twin_harness import Mapping, Simulation, flow, scenario

MSS_BYTES = 1448


def ended(mapping: Mapping) -> Summary:
    simulation = Simulation(mapping)
    simulation.advance()
    return simulation.summary()


def behind(stack: Mapping, loss: float = 0.0, **changes: Any) -> Mapping:
    """100 Mbit/s and 100 ms, an endless queue and a bulk flow of Linux 4.11."""
    mapping = scenario(
        flow(**{"rtt_ms": 100.0, **changes}),
        duration_s=20.0,
        rate_mbps=100.0,
        delay_ms=50.0,
        queue={"size_bytes": 200_000_000},
        loss={"kind": "bernoulli", "rate": loss} if loss else {"kind": "none"},
    )
    return {**mapping, "stack": {"preset": "linux-4.11", **stack}}


def most_in_flight(mapping: Mapping) -> float:
    simulation = Simulation(mapping)
    simulation.native.trace_acks(0, 0, 10**6)
    simulation.advance()
    return float(simulation.native.ack_trace(0, 0)["in_flight_pkts"].max())


@pytest.mark.parametrize("cc", ["bbr", "reno"])
def test_what_is_in_flight_fits_the_window_announced(cc: str) -> None:
    limited = most_in_flight(behind({"receive_buffer_bytes": 500_000}, cc=cc))
    assert limited * MSS_BYTES <= 500_000, "half of a buffer that setsockopt doubled"
    assert limited * MSS_BYTES > 0.98 * 500_000
    assert most_in_flight(behind({}, cc=cc)) > 2 * limited


def test_what_is_in_flight_fits_the_send_buffer() -> None:
    limited = most_in_flight(behind({"send_buffer_bytes": 500_000}, cc="reno"))
    assert limited * MSS_BYTES <= 1_000_000


def test_the_time_held_by_each_buffer_is_told() -> None:
    free = ended(behind({}))
    assert free.flow("busy_share") > 0.98
    assert free.flow("rwnd_limited_share") == free.flow("sndbuf_limited_share") == 0
    received = ended(behind({"receive_buffer_bytes": 500_000}))
    assert 0.5 < received.flow("rwnd_limited_share") <= received.flow("busy_share")
    assert received.flow("sndbuf_limited_share") == 0
    sent = ended(behind({"send_buffer_bytes": 300_000}))
    assert 0.5 < sent.flow("sndbuf_limited_share") <= sent.flow("busy_share")
    assert sent.flow("rwnd_limited_share") == 0


def test_a_window_follows_the_bandwidth_delay_product() -> None:
    rate_mbps = ended(behind({"receive_buffer_bytes": 300_000})).flow("goodput_mbps")
    assert rate_mbps == pytest.approx(300_000 * 8 / 0.1 / 1e6, rel=0.05)


def test_automatic_buffers_grow_with_the_flow() -> None:
    automatic = ended(behind({"send_buffer_bytes": "auto", "receive_buffer_bytes": "auto"}))
    assert automatic.flow("goodput_mbps") > 60
    fixed = ended(behind({"send_buffer_bytes": 65_536, "receive_buffer_bytes": 65_536}))
    assert fixed.flow("goodput_mbps") < 10


def test_unpaced_bbr_holds_its_rate_up_to_half_lost() -> None:
    """Held by its window alone, it sends 2 (1 - p) of what was delivered: no less than before up to p = 0.5."""
    unpaced = {loss: ended(behind({}, loss)).flow("throughput_mbps") for loss in (0.3, 0.4)}
    paced = {loss: ended(behind({"pacing": "internal"}, loss)).flow("throughput_mbps") for loss in (0.3, 0.4)}
    assert min(unpaced.values()) > 80
    assert max(paced.values()) < 5, "1.25 (1 - p) is below 1 there"


def test_fq_counts_the_headers() -> None:
    """A frame is 54 bytes longer than its payload, so the same pacing rate gives that much less."""
    slow = {"rate_mbps": 1000.0, "rtt_ms": 20.0}
    mapping = scenario(flow(rtt_ms=20.0), duration_s=5.0, rate_mbps=slow["rate_mbps"], queue={"size_bdp": 4.0})
    sent = {
        pacing: ended({**mapping, "duration_s": 0.5, "stack": {"pacing": pacing}}).flow("sent_pkts")
        for pacing in ("internal", "fq")
    }
    assert sent["fq"] < sent["internal"]


def test_an_arrival_behind_a_gap_is_out_of_order() -> None:
    clean = ended(behind({}))
    assert clean.flow("out_of_order_rate") < 0.15, "what is under way at the end has not arrived"
    lossy = ended(behind({}, 0.01))
    assert lossy.flow("out_of_order_rate") > 0.3 > lossy.flow("loss_rate")
    assert lossy.flow("in_order_arrival_mbps") < lossy.flow("goodput_mbps")


@pytest.mark.parametrize("prr", ["none", "retransmission_acked", "una_advanced"])
def test_a_rate_reduction_ends_where_the_window_falls_at_once(prr: str) -> None:
    simulation = Simulation({**scenario(flow(cc="reno"), duration_s=20.0), "stack": {"prr": prr}})
    simulation.native.trace_acks(0, 0, 10**6)
    simulation.advance()
    trace = simulation.native.ack_trace(0, 0)
    in_recovery = trace["ca_state"] == 3
    assert in_recovery.any()
    left = (~in_recovery[1:]) & in_recovery[:-1]
    assert (trace["in_flight_pkts"][1:][left] <= trace["cwnd_pkts"][1:][left] + 1).all()


# ---- slow readers -----------------------------------------------------------------------------------------


def reading(read_mbps: float | None, cc: str = "cubic", **changes: Any) -> Mapping:
    """10 Mbit/s, a buffer of 200 kB and a queue that holds the window."""
    app = {"kind": "bulk"} | ({} if read_mbps is None else {"read_mbps": read_mbps})
    stack = {"receive_buffer_bytes": 200_000}
    return {**scenario(flow(cc=cc, app=app, stack=stack), duration_s=40.0, queue={"size_packets": 500}), **changes}


@pytest.mark.parametrize("cc", ["bbr", "cubic"])
@pytest.mark.parametrize("read_mbps", [0.05, 2.0])
def test_a_slow_reader_holds_its_sender_back(cc: str, read_mbps: float) -> None:
    simulation = Simulation(reading(read_mbps, cc, warmup_s=10.0))
    in_flight_pkts = []
    while not simulation.done:
        simulation.advance(0.1)
        in_flight_pkts.append(simulation.flow("in_flight_pkts"))
    summary = simulation.summary()
    a_window_mbps = 200_000 * 8e-6 / 30.0  # of which windows are told, at most
    assert summary.flow("goodput_mbps") == pytest.approx(read_mbps, rel=0.01, abs=a_window_mbps)
    assert summary.flow("rwnd_limited_share") > (0.4 if cc == "bbr" else 0.8)  # BBR paces at the rate that it measures
    assert summary.link("queue_dropped_pkts") == 0
    assert max(in_flight_pkts) * MSS_BYTES <= 200_000


def test_a_fast_reader_reads_at_once() -> None:
    assert ended(reading(1000.0)).bytes() == ended(reading(None)).bytes()
