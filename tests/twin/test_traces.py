# SPDX-License-Identifier: GPL-2.0-only
"""The twin against ns-3, ACK by ACK: with every stack both worlds show the same numbers, bit for bit.

Every column of every ACK's record, every interval's table and the summaries are compared.
"""

from __future__ import annotations

from typing import Any

import pytest
from equal_worlds import Columns, compared
from native_simulation import TUNABLES
from random_scenarios import VARIANTS, random_scenario_on_a_beat
from twin_harness import Mapping, flow, scenario

import bbrgym
from bbrgym.conformance.setup import DRAFT_FACTS
from bbrgym.scenario.stack import STACK_FACTS, STACK_PRESETS

ACKS = 6_000


def assert_equal(mapping: Mapping, seed: int = 1, step_s: float = 0.1, changes: Mapping | None = None) -> Columns:
    columns, difference = compared(mapping, seed, step_s, changes)
    assert difference is None, difference
    return columns


def acks(columns: Columns, index: int = 0) -> int:
    return len(columns[f"flow {index}, ACKs' time_us"])


def marked_lost(columns: Columns, index: int = 0) -> float:
    return float(columns[f"flow {index}, lost_pkts"].sum())


def like_ns3(*flows: Mapping, rate_mbps: float = 20.0, duration_s: float = 8.0, **link: Any) -> Mapping:
    rate = {} if "trace" in link else {"rate_mbps": rate_mbps}
    return scenario(*flows, duration_s=duration_s, stack="ns3", **rate, **link)


def two(**of_both: Any) -> list[Mapping]:
    return [flow("near", rtt_ms=20.0, **of_both), flow("far", rtt_ms=80.0, **of_both)]


def marking(queue: Mapping, cc: str, precise: bool = False, **link: Any) -> Mapping:
    """Two ECN-capable flows, and one that is not."""
    flows = [*two(cc=cc, stack={"ecn": True, "ecn_precise": precise}), flow("plain", cc=cc, rtt_ms=50.0)]
    return like_ns3(*flows, queue=queue, **link)


# ---- one flow ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cc", VARIANTS)
def test_one_flow_on_a_deep_queue(cc: str) -> None:
    columns = assert_equal(like_ns3(flow(cc=cc), rate_mbps=15.0, duration_s=11.0))
    assert acks(columns) > ACKS


@pytest.mark.parametrize("cc", VARIANTS)
def test_one_flow_on_a_queue_that_overflows(cc: str) -> None:
    shallow = {"size_bdp": 0.1}
    # Vegas fills it once, and then no more.
    loss = {"kind": "bernoulli", "rate": 0.001 if cc == "vegas" else 0.0}
    columns = assert_equal(like_ns3(flow(cc=cc), rate_mbps=15.0, duration_s=11.0, queue=shallow, loss=loss))
    assert acks(columns) > ACKS / 2
    assert marked_lost(columns) > 10


@pytest.mark.parametrize(
    ("rate_mbps", "rtt_ms", "mss_bytes"),
    [(0.2, 40.0, 1448), (20.0, 1.0, 1448), (20.0, 1000.0, 1448), (5.0, 20.0, 200), (50.0, 20.0, 8960)],
)
@pytest.mark.parametrize("cc", ["bbr", "cubic"])
def test_one_flow_elsewhere(cc: str, rate_mbps: float, rtt_ms: float, mss_bytes: int) -> None:
    mapping = like_ns3(
        flow(cc=cc, rtt_ms=rtt_ms), rate_mbps=rate_mbps, delay_ms=0.25, queue={"size_packets": 40}, duration_s=5.0
    )
    assert_equal({**mapping, "mss_bytes": mss_bytes})


@pytest.mark.parametrize("stack", [stack for stack in STACK_PRESETS if stack != "ns3"])
@pytest.mark.parametrize("cc", ["bbr", "bbr-pg", "cubic"])
def test_each_generations_algorithm_is_the_same_in_both_worlds(cc: str, stack: str) -> None:
    facts = {fact.name: fact.presets[stack] for fact in STACK_FACTS.values() if fact.layer == "algorithm"}
    loss = {"kind": "bernoulli", "rate": 0.002}
    mapping = like_ns3(*two(cc=cc), rate_mbps=10.0, loss=loss, duration_s=14.0)
    columns = assert_equal({**mapping, "stack": {"preset": "ns3", **facts}})
    assert acks(columns) > 500


# ---- several flows ----------------------------------------------------------------------------------------

MIXED_CC = ["bbr", "cubic", "bbq", "reno", "bbr-pg", "bbr-acd", "bbr-plus", "bbr-mix", "bbr-pg-inv", "bbr"]
ON_OFF = {"kind": "onoff", "rate_mbps": 15.0, "on_s": 0.3, "off_s": 0.2}
CHANGES = [
    {"at_s": 2.0, "rate_mbps": 5.0},
    {"at_s": 4.0, "rate_mbps": 30.0, "delay_ms": 30.0},
    {"at_s": 5.0, "delay_ms": 2.0},
    {"at_s": 6.0, "loss_rate": 0.02},
]
OUTAGES = [
    {"at_s": 1.0001, "rate_mbps": 0.0},
    {"at_s": 1.5, "rate_mbps": 7.3},
    {"at_s": 2.0, "rate_mbps": 0.0},
    {"at_s": 2.0, "delay_ms": 5.0},
    {"at_s": 4.5, "rate_mbps": 20.0},
    {"at_s": 6.0003, "rate_mbps": 0.001},
    {"at_s": 6.3, "rate_mbps": 20.0},
]

LADDER = {
    "two flows": like_ns3(*two()),
    "cubic against bbr": like_ns3(flow("a", cc="cubic"), flow("b")),
    "reno against bbq": like_ns3(flow("a", cc="reno", rtt_ms=25.0), flow("b", cc="bbq")),
    "one packet of queue": like_ns3(*two(), queue={"size_packets": 1}),
    "five packets of queue": like_ns3(*two(), queue={"size_packets": 5}),
    "ten BDP of queue": like_ns3(*two(), queue={"size_bdp": 10.0}),
    "cbr": like_ns3(flow("a", app={"kind": "cbr", "rate_mbps": 5.0}), flow("b", cc="cubic")),
    "on and off": like_ns3(flow("a", app=ON_OFF), flow("b", cc="cubic")),
    "stops beside a flow that goes on": like_ns3(
        flow("a", start_s=1.0, stop_s=5.0),
        flow("b", cc="cubic", start_s=0.5),
        flow("c", cc="bbr-pg", start_s=2.0, stop_s=6.0),
        queue={"size_bdp": 2.0},
    ),
    "a stop in silence": like_ns3(flow("a", rtt_ms=20.0, app=ON_OFF, stop_s=3.4), flow("b", cc="cubic")),
    "rate and delay change": like_ns3(*two(), changes=CHANGES[:3]),
    "codel": like_ns3(*two(), queue={"kind": "codel", "size_bdp": 4.0}),
    "codel, loss-based": like_ns3(flow("a", cc="cubic"), flow("b", cc="reno"), queue={"kind": "codel", "size_bdp": 4}),
    "fq_codel": like_ns3(*two(), queue={"kind": "fq_codel", "size_packets": 300}),
    "fq_codel that overflows": like_ns3(*two(cc="cubic"), queue={"kind": "fq_codel", "size_packets": 12}),
    "policer": like_ns3(*two(), policer={"rate_mbps": 12.0, "burst_bytes": 30_000}),
    "ACKs in slots": like_ns3(*two(), acks={"kind": "slots", "every_ms": 15.0}),
    "ACKs in bursts": like_ns3(*two(), acks={"kind": "bursts", "packets": 8, "timeout_ms": 10.0}),
    "marks of CoDel": marking({"kind": "codel", "size_bdp": 8.0, "ecn": True}, cc="cubic"),
    "marks of fq_codel": marking({"kind": "fq_codel", "size_packets": 300}, cc="reno"),
    "marks of a threshold": marking({"size_bdp": 4.0, "ecn_threshold_packets": 20}, cc="cubic"),
    "marks of a threshold of time": marking({"size_bdp": 4.0, "ecn_threshold_ms": 10.0}, cc="reno"),
    "marks and drops": marking({"size_packets": 25, "ecn_threshold_packets": 10}, cc="cubic"),
    "marks that bbr ignores": marking({"size_bdp": 4.0, "ecn_threshold_packets": 20}, cc="bbr"),
    "bbr3, draft": like_ns3(flow(cc="bbr3", stack=DRAFT_FACTS), queue={"size_packets": 12}),
    "bbr3 with mechanisms": like_ns3(
        flow(cc="bbr3-mix", tunables={"use_probe_cap": 1, "use_cwnd_cap": 1, "use_random_probe_rtt": 1}),
        queue={"size_packets": 12},
    ),
    "marks of each packet": marking({"size_packets": 100, "ecn_threshold_packets": 8}, cc="bbr3", precise=True),
    "ten flows": like_ns3(*[flow(f"f{i}", cc, 20.0 + 10 * i) for i, cc in enumerate(MIXED_CC)], rate_mbps=40.0),
}

# Both worlds draw these from the same streams.
RED = {"min_bytes": 20_000, "max_bytes": 60_000, "max_probability": 0.1}
RANDOM = {
    "marks of RED": marking({"kind": "red", "size_bytes": 100_000, "red": RED, "ecn": True}, cc="cubic"),
    "marks, loss and reordering": marking(
        {"size_bdp": 4.0, "ecn_threshold_packets": 20},
        cc="reno",
        loss={"kind": "bernoulli", "rate": 0.01},
        jitter={"share": 0.02, "delay_ms": 5.0, "reorder": True},
    ),
    "red": like_ns3(*two(cc="cubic"), queue={"kind": "red", "size_bytes": 100_000, "red": RED}),
    "jitter": like_ns3(*two(), jitter={"share": 0.05, "delay_ms": 4.0}),
    "jitter that reorders": like_ns3(*two(), jitter={"share": 0.05, "delay_ms": 4.0, "reorder": True}),
    "bernoulli": like_ns3(*two(), loss={"kind": "bernoulli", "rate": 0.02}),
    "bernoulli, loss-based": like_ns3(*two(cc="cubic"), loss={"kind": "bernoulli", "rate": 0.005}),
    "every third lost": like_ns3(*two(), loss={"kind": "bernoulli", "rate": 0.33}),
    "gilbert-elliott": like_ns3(
        *two(),
        loss={"kind": "gilbert_elliott", "good_to_bad": 0.005, "bad_to_good": 0.2, "loss_good": 0.0, "loss_bad": 0.5},
    ),
    "gilbert-elliott in time": like_ns3(
        *two(cc="cubic"),
        loss={"kind": "gilbert_elliott", "good_to_bad": 0.001, "bad_to_good": 0.02, "loss_bad": 0.7, "clock": "time"},
    ),
    "outages": like_ns3(*two(cc="cubic"), changes=OUTAGES),
    "outages, paced": like_ns3(*two(), changes=OUTAGES),
    "100 Gbit/s": like_ns3(*two(cc="cubic"), rate_mbps=100e3, duration_s=0.2, queue={"size_packets": 50}),
    "loss changes": like_ns3(*two(), changes=CHANGES),
    "random on and off": like_ns3(flow("a", app={**ON_OFF, "random": True}), flow("b", cc="cubic")),
    "cellular": like_ns3(
        flow("a"),
        flow("b", cc="cubic", rtt_ms=60.0),
        trace=bbrgym.load_scenario("cellular").resolved().model_dump()["link"]["trace"],
        queue={"size_bytes": 100_000},
        loss={"kind": "bernoulli", "rate": 0.001},
    ),
}


@pytest.mark.parametrize("name", LADDER)
def test_several_flows(name: str) -> None:
    columns = assert_equal(LADDER[name])
    marked = [columns[f"flow {index}, ecn_marked_pkts"].sum() for index in range(len(LADDER[name]["flows"]))]
    assert marked[0] > 0 if "marks" in name else not any(marked)


@pytest.mark.parametrize("stack", ["linux-6", "linux-4.9"])
@pytest.mark.parametrize("name", ["marks of CoDel", "marks of a threshold", "marks and drops", "marks of each packet"])
def test_marks_and_linux_receivers(name: str, stack: str) -> None:
    assert_equal({**LADDER[name], "stack": stack})


@pytest.mark.parametrize("name", RANDOM)
def test_random_draws_of_the_same_streams(name: str) -> None:
    assert_equal(RANDOM[name], seed=2)


@pytest.mark.parametrize("step_s", [0.001, 8.0])
def test_the_size_of_the_steps(step_s: float) -> None:
    assert_equal(LADDER["two flows"], step_s=step_s)


def test_tunables_that_change_on_the_way() -> None:
    changes = {
        5: {"bbr_cwnd_gain": 1.2},
        20: {"bbr_up_gain": 1.5, "use_probe_cap": 1.0},
        40: {"use_random_probe_rtt": 1.0, "pg_trand_low_us": 2e6, "pg_trand_high_us": 1e7, "bbr_cwnd_gain": 2.5},
    }
    assert {name for values in changes.values() for name in values} <= set(TUNABLES)
    assert_equal(like_ns3(flow("a", cc="bbr-mix"), flow("b", rtt_ms=80.0)), changes=changes)


# ---- on a beat --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 10))])
def test_random_scenarios_on_a_beat(seed: int) -> None:
    """Events that are due at the same time happen in the order in which they were scheduled."""
    assert_equal(random_scenario_on_a_beat(seed), seed)
