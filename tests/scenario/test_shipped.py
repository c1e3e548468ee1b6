# SPDX-License-Identifier: GPL-2.0-only
"""The shipped scenarios: valid, stable under resolution, and what their papers say."""

import json

import pytest

import bbrgym
from bbrgym.scenario.model import Scenario


@pytest.mark.parametrize("name", bbrgym.scenario_names())
def test_resolution_is_a_fixed_point(name: str) -> None:
    resolved = bbrgym.load_scenario(name).resolved_json()
    assert bbrgym.load_scenario(json.loads(resolved)).resolved_json() == resolved
    assert bbrgym.load_scenario(name).name == name


@pytest.mark.parametrize("name", bbrgym.scenario_names())
def test_every_world_takes_it(name: str) -> None:
    with bbrgym.make_world("ns3", name) as world:
        world.advance(0.01)
        assert world.now_s == pytest.approx(0.01)


CATALOGUE = [name for name in bbrgym.scenario_names() if name.startswith(("nsperf_", "rfc9743_", "policer"))]


def test_the_catalogue_has_checks_and_no_other_scenario_has() -> None:
    assert len(CATALOGUE) >= 24
    assert [name for name in bbrgym.scenario_names() if bbrgym.load_scenario(name).checks] == CATALOGUE


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_s_checks_are_measured(name: str) -> None:
    """A short run in the twin measures them; nothing is said of whether they pass."""
    fields = bbrgym.load_scenario(name).model_dump(exclude_none=True)
    fields |= {"duration_s": 2.5, "warmup_s": 0.0}
    fields["link"]["changes"] = []
    fields["link"]["rate_mbps"] = min(fields["link"].get("rate_mbps", 10.0), 10.0)
    fields["link"].pop("trace_path", None)
    for flow in fields["flows"]:
        start_s = min(flow["start_s"], 0.1)
        flow |= {"start_s": start_s, "stop_s": 2.5, "app": {**flow["app"], **within(flow["app"])}}
    summary = bbrgym.evaluate(fields, "cubic", world="twin")
    assert 0 <= summary["checks_passed"][0] <= 1


def within(app: dict[str, object]) -> dict[str, object]:
    return {"within_s": 0.5} if app["kind"] == "flows" else {}


def resolved(name: str) -> Scenario:
    return bbrgym.load_scenario(name).resolved()


def test_rtt_fairness_is_bbq_13() -> None:
    scenario = resolved("rtt_fairness")
    assert (scenario.link.rate_mbps, scenario.link.queue.size_bytes, scenario.duration_s) == (100.0, 2_000_000, 120.0)
    short, long = scenario.flows
    assert (short.rtt_ms, short.start_s, short.stop_s) == (10.0, 0.0, 110.0)
    assert (long.rtt_ms, long.stop_s) == (50.0, 120.0)
    assert 0.0 < long.start_s < 5.0


def test_deep_buffer_is_bp_3() -> None:
    scenario = resolved("deep_buffer")
    assert scenario.link.rate_mbps == 10.0
    assert scenario.link.queue.size_bytes == 8 * 50_000  # 10 Mbit/s times 40 ms
    assert [(flow.cc, flow.role, flow.rtt_ms) for flow in scenario.flows] == [
        ("bbr", "tuned", 40.0),
        ("cubic", "background", 40.0),
    ]


def test_congested_is_acd_s1() -> None:
    scenario = resolved("congested")
    assert scenario.link.rate_mbps == 2**20 / 1e6
    assert (scenario.mss_bytes, scenario.link.delay_ms, scenario.duration_s) == (500, 50.0, 300.0)
    assert [flow.name for flow in scenario.flows] == [f"flow-{i}" for i in range(7)]
    assert {flow.rtt_ms for flow in scenario.flows} == {120.0}
    assert scenario.link.queue.size_bytes == 15_000


def test_lossy_is_re_f8() -> None:
    scenario = resolved("lossy")
    assert (scenario.link.rate_mbps, scenario.flows[0].rtt_ms, scenario.duration_s) == (100.0, 100.0, 60.0)
    assert scenario.link.loss.kind == "bernoulli"


def test_cellular_follows_the_synthetic_trace() -> None:
    scenario = resolved("cellular")
    trace = scenario.link.trace
    assert trace is not None
    assert scenario.link.rate_mbps is None
    mean_mbps = len(trace.times_ms) * trace.opportunity_bytes * 8 / trace.period_ms / 1e3
    assert scenario.link.mean_rate_mbps == pytest.approx(mean_mbps)
    assert 4.0 < mean_mbps < 8.0  # about the 5.96 Mbit/s of the paper's


def test_crowd_is_bbq_16() -> None:
    rtts = sorted(flow.rtt_ms for flow in resolved("crowd").flows)
    assert rtts == [10.0] * 20 + [50.0]
