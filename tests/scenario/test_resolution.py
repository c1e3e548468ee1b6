# SPDX-License-Identifier: GPL-2.0-only
"""From what people write to what worlds read."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bbrgym
from bbrgym.scenario.families import buffer_bdp, families_of
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario

SIMPLE: dict[str, Any] = {
    "name": "simple",
    "duration_s": 20.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 2.0}},
    "flows": [{"name": "a", "rtt_ms": 40.0}, {"name": "b", "rtt_ms": 20.0}],
}


def load(**changes: Any) -> Scenario:
    return bbrgym.load_scenario({**copy.deepcopy(SIMPLE), **changes})


def test_only_plain_values_remain() -> None:
    plain = json.loads(load().resolved_json())
    assert set(plain) == {"name", "duration_s", "warmup_s", "mss_bytes", "link", "flows"}
    behind = {"loss", "jitter", "acks", "changes", "last_hop"}
    assert set(plain["link"]) == {"rate_mbps", "trace", "delay_ms", "policer", "queue", *behind}
    marks = {"ecn", "ecn_threshold_bytes", "ecn_threshold_packets", "ecn_threshold_ms"}
    sizes = {"size_bytes", "size_packets", "quantum_bytes"}
    assert set(plain["link"]["queue"]) == {"kind", "red", "codel", *sizes, *marks}
    assert set(plain["flows"][0]) == {"name", "cc", "role", "rtt_ms", "start_s", "stop_s", "app", "stack", "tunables"}


def test_fair_queues_are_as_in_linux_unless_said() -> None:
    cake = load(link={"rate_mbps": 10.0, "queue": {"kind": "cake", "size_bdp": 2.0}}).resolved().link.queue
    assert cake.cake is not None
    assert (cake.cake.rtt_ms, cake.ecn) == (100.0, True)
    queue = load(link={"rate_mbps": 10.0, "queue": {"kind": "fq_codel", "size_bdp": 2.0}}).resolved().link.queue
    assert queue.codel is not None
    assert (queue.codel.target_ms, queue.codel.interval_ms) == (5.0, 100.0)
    assert (queue.quantum_bytes, queue.ecn) == (1488, True)
    for kind in ("droptail", "codel"):
        assert (
            load(link={"rate_mbps": 10.0, "queue": {"kind": kind, "size_bdp": 2.0}}).resolved().link.queue.ecn is False
        )


def test_bdp_is_that_of_the_longest_rtt_unless_said() -> None:
    assert load().resolved().link.queue.size_bytes == 2 * 50_000
    link = {"rate_mbps": 10.0, "queue": {"size_bdp": 2.0, "bdp_rtt_ms": 20.0}}
    assert load(link=link).resolved().link.queue.size_bytes == 2 * 25_000


@pytest.mark.parametrize(("duration_s", "warmup_s"), [(20.0, 5.0), (120.0, 30.0), (300.0, 30.0)])
def test_warm_up_is_a_quarter_and_at_most_30_s(duration_s: float, warmup_s: float) -> None:
    assert load(duration_s=duration_s).resolved().warmup_s == warmup_s


def test_a_flow_stops_with_the_scenario() -> None:
    flows = [{"name": "a", "rtt_ms": 40.0}, {"name": "b", "rtt_ms": 40.0, "stop_s": 110.0}]
    assert [flow.stop_s for flow in load(flows=flows).resolved().flows] == [20.0, 20.0]


def test_count_makes_that_many_alike() -> None:
    flows = [{"name": "a", "rtt_ms": 40.0, "count": 3}, {"name": "b", "rtt_ms": 20.0}]
    assert [flow.name for flow in load(flows=flows).resolved().flows] == ["a-0", "a-1", "a-2", "b"]


def test_numpy_s_numbers_and_whole_floats_are_numbers() -> None:
    link = {"rate_mbps": np.float32(10.0), "queue": {"size_bytes": 2e6}}
    scenario = load(link=link, mss_bytes=np.int64(1000), duration_s=np.int32(5))
    assert (scenario.link.rate_mbps, scenario.link.queue.size_bytes) == (10.0, 2_000_000)
    assert (scenario.mss_bytes, scenario.duration_s) == (1000, 5.0)
    assert type(scenario.mss_bytes) is int


def test_a_file_names_its_scenario_and_its_trace_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "my.down").write_text("1\n5\n5\n10\n")
    path = tmp_path / "mine.yaml"
    path.write_text(
        "duration_s: 2\nlink: {trace_path: my.down, queue: {size_packets: 50}}\nflows: [{name: a, rtt_ms: 40}]\n"
    )
    scenario = bbrgym.load_scenario(path).resolved()
    assert scenario.name == "mine"
    assert scenario.link.trace is not None
    assert scenario.link.trace.times_ms == (1, 5, 5, 10)
    assert scenario.link.trace.period_ms == 10
    assert bbrgym.load_scenario(str(path)).resolved_json() == scenario.resolved_json()


def test_json_is_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "steady.json"
    path.write_text(bbrgym.load_scenario("steady").resolved_json())
    assert bbrgym.load_scenario(path).resolved_json() == bbrgym.load_scenario("steady").resolved_json()


@pytest.mark.parametrize("role", [None, "tuned", "fixed", "background"])
@pytest.mark.parametrize("cc", [None, "bbr", "cubic"])
def test_a_flow_that_names_its_cc_keeps_it_unless_its_role_says_otherwise(cc: str | None, role: str | None) -> None:
    named = {"name": "a", "cc": cc, "role": role, "rtt_ms": 20.0}
    fields = {field: value for field, value in named.items() if value is not None}
    scenario = load(flows=[fields])
    expected = role or ("fixed" if cc else "tuned")
    assert scenario.flows[0].role == expected
    assert load(**scenario.model_dump(exclude_none=True)) == scenario
    assert with_variant(scenario, "bbq").flows[0].cc == ("bbq" if expected == "tuned" else cc or "bbr")


def test_a_variant_and_its_tunables_go_to_the_tuned_flows() -> None:
    flows = [
        {"name": "l", "cc": "bbr", "role": "tuned", "rtt_ms": 40.0, "tunables": {"bbr_up_gain": 1.1}},
        {"name": "b", "cc": "cubic", "rtt_ms": 20.0, "role": "background"},
    ]
    changed = with_variant(load(flows=flows), "bbq", {"bbq_beta": 0.1}).flows
    assert [(flow.cc, dict(flow.tunables)) for flow in changed] == [("bbq", {"bbq_beta": 0.1}), ("cubic", {})]
    with pytest.raises(bbrgym.ScenarioError, match=r"flows\[0\].tunables.bbq_beta"):
        with_variant(load(), "bbr", {"bbq_beta": 0.1})


# ---- shipped scenarios ------------------------------------------------------------------------------------


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


# ---- families ---------------------------------------------------------------------------------------------


def scenario(flows: list[dict[str, Any]] | None = None, **link: Any) -> bbrgym.Scenario:
    return bbrgym.load_scenario(
        {
            "duration_s": 10.0,
            "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 2.0}, **link},
            "flows": flows or [{"name": "a", "rtt_ms": 40.0}],
        }
    )


CUBIC = {"name": "c", "cc": "cubic", "role": "fixed", "rtt_ms": 40.0}


@pytest.mark.parametrize(
    ("drawn", "families"),
    [
        (scenario(), {"alone"}),
        (scenario([{"name": "a", "rtt_ms": 40.0}, CUBIC]), {"with CUBIC"}),
        (scenario([{"name": "a", "rtt_ms": 40.0}, {**CUBIC, "cc": "reno"}]), {"with Reno"}),
        (scenario([{"name": "a", "rtt_ms": 40.0}, {**CUBIC, "cc": "bbr3"}]), {"with BBR"}),
        (scenario([{"name": "a", "rtt_ms": 40.0, "count": 2}]), {"several"}),
        (scenario([{"name": "a", "cc": "cubic", "role": "tuned", "rtt_ms": 40.0, "count": 2}]), {"several"}),
        (scenario([{"name": "a", "rtt_ms": 10.0}, {**CUBIC, "rtt_ms": 30.1}]), {"with CUBIC", "uneven RTTs"}),
        (scenario([{"name": "a", "rtt_ms": 10.0}, {**CUBIC, "rtt_ms": 30.0}]), {"with CUBIC"}),
        (scenario(queue={"size_bdp": 0.9}), {"alone", "shallow"}),
        (scenario(queue={"size_bdp": 3.1}), {"alone", "deep"}),
        (scenario(queue={"size_packets": 200}), {"alone", "deep"}),  # of 1488 bytes: 6 BDP
        (scenario(loss={"kind": "bernoulli", "rate": 0.01}), {"alone", "lossy"}),
        (scenario(changes=[{"at_s": 2.0, "loss_rate": 0.01}]), {"alone", "lossy"}),
        (scenario(changes=[{"at_s": 2.0, "rate_mbps": 5.0}]), {"alone", "capacity steps"}),
        (scenario(changes=[{"at_s": 2.0, "delay_ms": 5.0}]), {"alone", "leo"}),
    ],
)
def test_families(drawn: bbrgym.Scenario, families: set[str]) -> None:
    assert set(families_of(drawn)) == families


@pytest.mark.parametrize("size_bdp", [0.5, 2.0, 7.5])
def test_the_buffer_is_measured_as_it_is_written(size_bdp: float) -> None:
    uneven = [{"name": "a", "rtt_ms": 40.0}, {"name": "b", "rtt_ms": 90.0}]
    assert buffer_bdp(scenario(uneven, queue={"size_bdp": size_bdp})) == pytest.approx(size_bdp, rel=1e-4)


def test_a_trace_changes_capacity_and_has_its_mean_rate() -> None:
    trace = {"times_ms": [0.0, 1.0, 5.0, 9.0], "period_ms": 10.0}  # 4 * 1500 bytes in 10 ms: 4.8 Mbit/s
    drawn = scenario(rate_mbps=None, trace=trace, queue={"size_bytes": 24_000})
    assert buffer_bdp(drawn) == pytest.approx(1.0)
    assert set(families_of(drawn)) == {"alone", "capacity steps"}
