# SPDX-License-Identifier: GPL-2.0-only
"""The twin against ns-3, ACK by ACK, where random scenarios (test_differential.py) do not come.

Every column of every ACK's record, every interval's table and the summaries are equal, bit for bit.
"""

from typing import Any

import pytest
from equal_worlds import Columns, compared
from random_scenarios import VARIANTS, random_scenario_on_a_beat
from twin_harness import Mapping, flow, scenario

import bbrgym
from bbrgym.conformance.setup import DRAFT_FACTS


def assert_equal(mapping: Mapping, seed: int = 1, step_s: float = 0.1) -> Columns:
    columns, difference = compared(mapping, seed, step_s)
    assert difference is None, difference
    return columns


def like_ns3(*flows: Mapping, rate_mbps: float = 20.0, duration_s: float = 8.0, **link: Any) -> Mapping:
    rate = {} if "trace" in link else {"rate_mbps": rate_mbps}
    return scenario(*flows, duration_s=duration_s, stack="ns3", **rate, **link)


def two(**of_both: Any) -> list[Mapping]:
    return [flow("near", rtt_ms=20.0, **of_both), flow("far", rtt_ms=80.0, **of_both)]


@pytest.mark.parametrize("cc", VARIANTS)
def test_thousands_of_round_trips_on_a_queue_that_overflows(cc: str) -> None:
    # Vegas fills it once, and then no more.
    loss = {"kind": "bernoulli", "rate": 0.001 if cc == "vegas" else 0.0}
    columns = assert_equal(like_ns3(flow(cc=cc), rate_mbps=15.0, duration_s=11.0, queue={"size_bdp": 0.1}, loss=loss))
    assert len(columns["flow 0, ACKs' time_us"]) > 3000
    assert columns["flow 0, lost_pkts"].sum() > 10


def test_more_than_four_gibibytes() -> None:
    """Sequence numbers of ns-3's headers wrap there."""
    long = like_ns3(flow(rtt_ms=10.0), rate_mbps=10e3, delay_ms=2.0, duration_s=4.0)
    columns = assert_equal({**long, "mss_bytes": 60_000})
    assert columns["flow 0, ACKs' delivered_pkts"][-1] * 60_000 > 1.1 * 2**32


MIXED_CC = ["bbr", "cubic", "bbq", "reno", "bbr-pg", "bbr-acd", "bbr-plus", "bbr-mix", "bbr-pg-inv", "bbr"]
PRECISE = {"ecn": True, "ecn_precise": True}
OTHERS = {
    "ten BDP of queue": like_ns3(*two(), queue={"size_bdp": 10.0}),
    "bbr3, draft": like_ns3(flow(cc="bbr3", stack=DRAFT_FACTS), queue={"size_packets": 12}),
    **{
        f"marks of each packet, {stack}": {
            **like_ns3(
                *two(cc="bbr3", stack=PRECISE),
                flow("plain", cc="bbr3", rtt_ms=50.0),
                queue={"size_packets": 100, "ecn_threshold_packets": 8},
            ),
            "stack": stack,
        }
        for stack in ("ns3", "linux-6")
    },
    "ten flows": like_ns3(*[flow(f"f{i}", cc, 20.0 + 10 * i) for i, cc in enumerate(MIXED_CC)], rate_mbps=40.0),
    "100 Gbit/s": like_ns3(*two(cc="cubic"), rate_mbps=100e3, duration_s=0.2, queue={"size_packets": 50}),
    "cellular": like_ns3(
        flow("a"),
        flow("b", cc="cubic", rtt_ms=60.0),
        trace=bbrgym.load_scenario("cellular").resolved().model_dump()["link"]["trace"],
        queue={"size_bytes": 100_000},
        loss={"kind": "bernoulli", "rate": 0.001},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_several_flows(name: str) -> None:
    columns = assert_equal(OTHERS[name], seed=2)
    assert (columns["flow 0, ecn_marked_pkts"].sum() > 0) == ("marks" in name)


def test_steps_of_a_millisecond() -> None:
    assert_equal(like_ns3(*two(), duration_s=4.0), step_s=0.001)


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 10))])
def test_random_scenarios_on_a_beat(seed: int) -> None:
    """Events that are due at the same time happen in the order in which they were scheduled."""
    assert_equal(random_scenario_on_a_beat(seed), seed)
