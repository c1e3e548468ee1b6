# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of a run by closed cases."""

import math

import polars as pl
import pytest

from bbrgym.evaluate.records import SUMMARY_SCHEMA
from bbrgym.papers.metrics import METRICS, MeasuredRun, jain, measure


def record(series: dict[str, list[tuple[float, float]]], step_s: float = 1.0, rate_mbps: float = 10.0) -> MeasuredRun:
    """A run with (goodput, sent packets) of each flow by interval; a goodput of -1 stands for an inactive flow."""
    rows = [
        dict(zip(("scenario", "world", "variant", "agent"), "swva", strict=True))
        | {"seed": 1, "time_s": (index + 1) * step_s, "flow": flow, "active": float(goodput >= 0)}
        | dict.fromkeys(("goodput_mbps", "throughput_mbps"), max(goodput, 0.0))
        | {"link_rate_mbps": rate_mbps, "rtt_mean_ms": 10.0 * (index + 1), "rto_count": 0.0}
        | {"sent_pkts": sent, "retransmitted_pkts": sent / 10, "dropped_pkts": sent / 20}
        | {"in_flight_pkts": 3.0, "cwnd_pkts": 4.0, "in_order_arrival_mbps": max(goodput, 0.0) / 2}
        for flow, values in series.items()
        for index, (goodput, sent) in enumerate(values)
    ]
    flows = [
        {**dict.fromkeys(SUMMARY_SCHEMA), "scenario": "s", "seed": 1, "flow": flow, "share": 1 / len(series)}
        | {"goodput_mbps": sum(max(goodput, 0.0) for goodput, _ in values) / len(values)}
        for flow, values in series.items()
    ]
    return MeasuredRun(pl.DataFrame(flows, schema=SUMMARY_SCHEMA), pl.DataFrame(rows), 1250)


TWO = record({"a-0": [(4, 100), (6, 100)], "a-1": [(2, 50), (2, 50)], "b": [(1, 10), (1, 30)]})


@pytest.mark.parametrize(
    ("metric", "flow", "expected"),
    [
        ("goodput_mbps", None, 8.0),
        ("goodput_mbps", "a", 7.0),
        ("goodput_mbps", "a-1", 2.0),
        ("share", "a", 2 / 3),
        ("sent_pkts", "b", 40.0),
        ("retransmitted_pkts", None, 34.0),
        ("retransmit_rate", None, 0.1),
        ("drop_rate", "b", 0.05),
        ("rtt_highest_ms", "b", 20.0),
        ("in_flight_pkts", "a", 3.0),
        ("window_use", None, 0.75),
        ("in_order_arrival_mbps", "a", 3.5),
        ("arrived_pkts", "b", 38.0),
        ("arrival_mbps", "a-0", 190 * 1250 * 8 / 1e6 / 2),
        ("out_of_order_arrivals", "a-0", 1 - 5 * 100 / 190),  # 5 Mbit in packets of 1250 bytes
        ("jain", "a", 49 / (2 * 29)),
    ],
)
def test_a_metric_counts_its_flows(metric: str, flow: str | None, expected: float) -> None:
    assert measure(TWO, metric, flow) == pytest.approx(expected)


def test_the_queue_is_filled_by_waiting_packets() -> None:
    waits = TWO.summary.with_columns(throughput_mbps=pl.lit(4.0), queue_delay_mean_ms=pl.lit(5.0), completion_s=3.0)
    run = MeasuredRun(waits, TWO.timeseries, 1250, queue_bytes=10_000)
    assert measure(run, "queue_share", "b") == 0.25  # 4 Mbit/s for 5 ms are 2,500 bytes
    assert measure(run, "queue_share") == 0.75
    assert measure(run, "completion_s", "b") == 3.0


def test_a_flow_that_is_not_there_has_no_metric() -> None:
    assert all(math.isnan(measure(TWO, metric, "c")) for metric in METRICS)


def test_jain() -> None:
    assert jain([1.0, 1.0]) == 1.0
    assert jain([1.0, 0.0]) == 0.5
    assert math.isnan(jain([0.0, 0.0]))


def test_equilibrium_is_where_rates_stay_fair() -> None:
    unfair, fair = [(9.0, 1.0)] * 10, [(5.0, 1.0)] * 20
    run = record({"a": unfair + fair, "b": [(1.0, 1.0)] * 10 + fair})
    # 5-s means: of 5 rows two fair ones give 7.4 against 2.6, index 0.81; three give 6.6 against 3.4, index 0.907.
    assert measure(run, "equilibrium_s") == 13.0 - 1.0
    never = record({"a": [(9.0, 1.0)] * 30, "b": [(1.0, 1.0)] * 30})
    assert measure(never, "equilibrium_s") == 30.0 - 1.0


def test_refill_is_counted_from_the_other_flows_end() -> None:
    leaving = [(5.0, 1.0)] * 3 + [(-1.0, 0.0)] * 3
    run = record({"a": leaving, "b": [(5.0, 1.0)] * 4 + [(9.6, 1.0)] * 2})
    assert measure(run, "refill_s", "b") == 2.0
    never = record({"a": leaving, "b": [(5.0, 1.0)] * 6})
    assert math.isnan(measure(never, "refill_s", "b"))
