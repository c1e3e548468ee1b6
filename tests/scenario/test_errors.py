# SPDX-License-Identifier: GPL-2.0-only
"""Each mistake is one sentence: the field's path, the value, what is allowed."""

import copy
import json
import math
import pickle
from typing import Any

import pytest

import bbrgym
from bbrgym.evaluate.records import SUMMARY_SCHEMA
from bbrgym.scenario.checks import FLOW_METRICS, RUN_METRICS, ScenarioCheck

GOOD: dict[str, Any] = {
    "name": "good",
    "duration_s": 20.0,
    "link": {"rate_mbps": 10.0, "delay_ms": 1.0, "queue": {"size_bytes": 100_000}},
    "flows": [{"name": "a", "rtt_ms": 40.0}],
}
FLOW = {"name": "a", "rtt_ms": 40.0}

NAN = float("nan")

# Where, what is put there, what the message must say; one mistake may need several fields.
MISTAKES: list[tuple[str, Any, str]] = [
    ("link.rate_mbps", -5, "link.rate_mbps: is -5, expected a number >= 0.001"),
    ("link.rate_mbps", True, "link.rate_mbps: is True, expected a number"),
    ("link.rate_mbps", NAN, "link.rate_mbps: is nan, expected a finite number"),
    ("link.rate_mbps", 10**400, "link.rate_mbps: is 1000"),
    ("link.rate_mbps", None, "link: has none, expected exactly one of rate_mbps, trace_path and trace"),
    (
        "link.rate_mps",
        5,
        "link.rate_mps: is not a field; did you mean rate_mbps? help(bbrgym.scenario.model.Link) shows all 14",
    ),
    ("link.trace_path", "x.down", "link: has rate_mbps and trace_path, expected exactly one of"),
    ("link.delay_ms", 30.0, "flows[0].rtt_ms: is 40.0, expected at least twice link.delay_ms = 30.0"),
    ("link.last_hop", {"kind": "5g"}, "link.last_hop.kind: is '5g', expected one of 'wifi', 'lte'"),
    ("link.last_hop", {"kind": "wifi", "width_mhz": 30}, "link.last_hop.width_mhz: is 30, expected"),
    (
        "link.last_hop",
        {"kind": "wifi", "standard": "n", "width_mhz": 80},
        "link.last_hop.width_mhz: is 80, expected 20 or 40 for standard n",
    ),
    ("link.last_hop", {"kind": "wifi", "mcs": 9}, "link.last_hop.mcs: is 9, expected at most 8 for standard ac on 20"),
    ("link.reverse", {}, "link.reverse.queue: is missing"),
    (
        "link.reverse",
        {"queue": {"size_packets": 9}},
        "link.reverse: has none, expected exactly one of rate_mbps, trace_path and trace",
    ),
    (
        "link.reverse",
        {"rate_mbps": 1.0, "queue": {"size_bytes": 1000}},
        "link.reverse.queue.size_bytes: is 1000, which holds 1000 bytes, expected at least one packet of 1488 bytes",
    ),
    (
        "link.reverse",
        {"rate_mbps": 1.0, "delay_ms": 21.0, "queue": {"size_packets": 9}},
        "flows[0].rtt_ms: is 40.0, expected at least twice link.reverse.delay_ms = 21.0",
    ),
    (
        "link.reverse",
        {"rate_mbps": 1.0, "queue": {"size_packets": 9}, "jitter": {"share": 0.1, "delay_ms": 1.0}},
        "link.reverse.jitter: is not a field",
    ),
    (
        "link.last_hop link.reverse",
        ({"kind": "wifi"}, {"rate_mbps": 1.0, "queue": {"size_packets": 9}}),
        "link.reverse: is given, expected none beside last_hop, which has a return path of its own",
    ),
    ("flows.0.direction", "back", "flows[0].direction: is 'back', expected one of 'forward' or 'reverse'"),
    ("flows.0.direction", "reverse", "flows[0].direction: is 'reverse', expected 'forward' without link.reverse"),
    (
        "flows.0.direction link.jitter link.reverse",
        (
            "reverse",
            {"share": 0.1, "delay_ms": 1.0, "reorder": True},
            {"rate_mbps": 1.0, "queue": {"size_packets": 9}},
        ),
        "flows[0].direction: is 'reverse', expected 'forward' with link.jitter.reorder, which would reorder its ACKs",
    ),
    ("link.queue", {}, "link.queue: has no size, expected exactly one of size_bytes, size_packets and size_bdp"),
    ("link.queue.size_packets", 5, "link.queue: has size_bytes = 100000 and size_packets = 5, expected exactly one"),
    ("link.queue.size_bytes", 2.5, "link.queue.size_bytes: is 2.5, expected a whole number"),
    ("link.queue.size_bytes", 100, "holds 100 bytes, expected at least one packet of 1488 bytes"),
    ("link.queue", {"size_bdp": 1e6}, "link.queue.size_bdp: is 1000000.0, which holds 50000000000 bytes"),
    (
        "link.queue.kind",
        "fifo",
        "link.queue.kind: is 'fifo', expected one of 'droptail', 'red', 'codel', 'fq_codel', 'pie' or 'cake'",
    ),
    ("link.queue.kind", "red", "link.queue.red: is missing, expected min_bytes, max_bytes and max_probability"),
    ("link.queue.codel", {}, "link.queue.codel: is given, expected only with kinds codel and fq_codel"),
    ("link.queue.quantum_bytes", 300, "link.queue.quantum_bytes: is 300, expected only with kind fq_codel; kind is"),
    (
        "link.queue.ecn",
        True,
        "link.queue.ecn: is true, expected only with kinds red, codel, fq_codel, pie and cake; kind",
    ),
    ("link.queue.pie", {}, "link.queue.pie: is given, expected only with kind pie; kind is droptail"),
    ("link.queue.cake", {}, "link.queue.cake: is given, expected only with kind cake; kind is droptail"),
    (
        "link.queue",
        {"kind": "cake", "size_bytes": 9000, "cake": {"rtt_ms": 0}},
        "link.queue.cake.rtt_ms: is 0, expected a number >= 0.01",
    ),
    (
        "link.loss",
        {"kind": "bernoulli", "rate": 0.1, "unit": "gso"},
        "link.loss.unit: is 'gso', expected one of 'packet' or 'skb'",
    ),
    (
        "flows.0.app",
        {"kind": "bulk", "read_mbps": 1.0},
        "flows[0].app.read_mbps: is 1.0, expected stack.receive_buffer_bytes",
    ),
    (
        "link.queue",
        {"size_bytes": 9000, "ecn_threshold_bytes": 3000, "ecn_threshold_ms": 1.0},
        "link.queue: has ecn_threshold_bytes = 3000 and ecn_threshold_ms = 1.0, expected at most one of",
    ),
    (
        "link.policer",
        {"rate_mbps": 5.0, "burst_bytes": 1487},
        "link.policer.burst_bytes: is 1487, expected at least one packet of 1488 bytes",
    ),
    ("link.changes", [{"at_s": 1.0, "rate_mbps": 5e-4}], "link.changes[0].rate_mbps: is 0.0005, expected a number >="),
    (
        "link.changes",
        [{"at_s": 0, "rate_mbps": 0}, {"at_s": 20.0, "rate_mbps": 5}],
        "link.changes: leave the rate at 0 from start to end, expected a rate at some time",
    ),
    ("link.queue.bdp_rtt_ms", 10, "link.queue.bdp_rtt_ms: is 10.0, expected only beside size_bdp"),
    (
        "link.queue",
        {"kind": "red", "size_bytes": 9000, "red": {"min_bytes": 3000, "max_bytes": 9500, "max_probability": 0.02}},
        "link.queue.red.max_bytes: is 9500, expected at most the",
    ),
    (
        "link.queue",
        {"kind": "red", "size_bytes": 9000, "red": {"min_bytes": 3000, "max_bytes": 2000, "max_probability": 0.02}},
        "link.queue.red.max_bytes: is 2000, expected more than",
    ),
    ("link.loss", {"rate": 0.1}, "link.loss.kind: is missing"),
    ("link.loss", {"kind": "none", "rate": 0.1}, "link.loss.rate: is not a field"),
    ("link.changes", [{"at_s": 1.0}], "link.changes[0]: changes nothing, expected rate_mbps, delay_ms or loss_rate"),
    (
        "link.changes",
        [{"at_s": 2.0, "rate_mbps": 5}, {"at_s": 1.0, "rate_mbps": 9}],
        "link.changes[1].at_s: is 1.0, expected times in ascending order",
    ),
    ("flows", [], "flows: has 0 flows, expected 1 to 1000"),
    ("flows", [{**FLOW, "count": 600}, {**FLOW, "name": "b", "count": 600}], "flows: has 1200 flows, expected 1 to"),
    ("flows", {"a": 1}, "flows: is {'a': 1}, expected a list"),
    ("flows", [FLOW, FLOW], "flows[1].name: gives 'a' a second time, expected unique names"),
    ("flows", [{**FLOW, "count": 2}, {**FLOW, "name": "a-1"}], "flows[1].name: gives 'a-1' a second time"),
    ("flows.0", 3, "flows[0]: is 3, expected a mapping of fields"),
    ("flows.0", {"name": "a"}, "flows[0].rtt_ms: is missing"),
    ("flows.0.name", "a b", "flows[0].name: is 'a b', expected letters, digits"),
    (
        "flows.0.cc",
        "bbr1",
        f"flows[0].cc: is 'bbr1'; did you mean bbr, bbr3 or bbr2? bbrgym list shows all {len(bbrgym.VARIANTS)}",
    ),
    ("flows.0.role", "lerner", "flows[0].role: is 'lerner', expected one of 'tuned', 'fixed' or 'background'"),
    ("flows.0.start_s", 20.0, "flows[0].start_s: is 20.0, expected less than duration_s = 20.0"),
    ("flows.0.stop_s", 0.0, "flows[0].stop_s: is 0.0, expected more than start_s = 0.0"),
    ("flows.0.app", {"kind": "cbr", "rate_mbps": 1, "on_s": 1}, "flows[0].app.on_s: is not a field"),
    ("flows.0.tunables", {"bbq_alpha_us": 3000}, "flows[0].tunables.bbq_alpha_us: is not a tunable of bbr; "),
    ("flows.0.tunables", {"bbr_up_gain": 9}, "flows[0].tunables.bbr_up_gain: is 9, expected 1.02 to 2 (ratio)"),
    ("warmup_s", 20.0, "warmup_s: is 20.0, expected less than duration_s = 20.0"),
    ("name", "../evil", "name: is '../evil', expected letters"),
    ("seed", 1, "seed: is not a field; allowed are name, duration_s, warmup_s, mss_bytes, stack, link, links, flows"),
    (
        "mss_bytes link.last_hop",
        [8960, {"kind": "lte", "queue_packets": 5}],
        "link.last_hop.queue_packets: is 5, which holds 7500 bytes, expected at least one packet of 9000 bytes",
    ),
    (
        "mss_bytes link.last_hop",
        [2257, {"kind": "wifi"}],
        "mss_bytes: is 2257, expected at most 2256 with a wifi last_hop",
    ),
    ("link.rate_mbps flows.0.rtt_ms", [4e5, 1e4], "link: 400000 Mbit/s times an RTT of 10000 ms is 5e+11 bytes"),
    (
        "flows.0.cc flows.0.tunables",
        ["bbr-acd", {"acd_identical_count": 2.5}],
        "acd_identical_count: is 2.5, expected a whole number",
    ),
    ("checks", [{"metric": "utilization", "at_least": 0.9}], "checks[0].metric: is 'utilization'; did you mean util"),
    ("checks", [{"metric": "jain"}], "checks[0]: has no bound, expected at_least, at_most or both"),
    (
        "checks",
        [{"metric": "jain", "at_least": 2, "at_most": 1}],
        "checks[0].at_least: is 2, expected at most at_most = 1",
    ),
    ("checks", [{"metric": "jain", "flow": "a", "at_least": 1}], "checks[0].flow: is 'a', expected none"),
    ("checks", [{"metric": "jain", "across": "sum", "at_least": 1}], "checks[0].across: is 'sum', expected none"),
    ("checks", [{"metric": "share", "flow": "aa", "at_least": 1}], "checks[0].flow: is 'aa'; did you mean a"),
    ("checks", [{"metric": "share", "across": "p96", "at_least": 1}], "checks[0].across: is 'p96', expected one of"),
    ("checks", [{"metric": "share", "at_lest": 1}], "checks[0].at_lest: is not a field; did you mean at_least"),
    (
        "flows.0.start_s flows.0.stop_s",
        [0.5, 0.5 + 1e-10],
        "flows[0].stop_s: is 0.5000000001, expected more than start_s = 0.5",
    ),
    ("flows.0.start_s", 20 - 1e-10, "flows[0].start_s: is 19.9999999999, expected less than duration_s = 20.0"),
    ("warmup_s", 20 - 1e-10, "warmup_s: is 19.9999999999, expected less than duration_s = 20.0"),
]


def with_mistake(path: str, value: Any) -> dict[str, Any]:
    fields = copy.deepcopy(GOOD)
    for one, of_one in zip(path.split(), value if " " in path else [value], strict=True):
        at: Any = fields
        *parents, last = [int(part) if part.isdigit() else part for part in one.split(".")]
        for parent in parents:
            at = at[parent]
        at[last] = of_one
    return fields


@pytest.mark.parametrize(("path", "value", "says"), MISTAKES, ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)])
def test_a_mistake_is_one_clear_sentence(path: str, value: Any, says: str) -> None:
    with pytest.raises(bbrgym.ScenarioError) as caught:
        bbrgym.load_scenario(with_mistake(path, value))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("stedy", "no scenario is named 'stedy'; did you mean steady? bbrgym list shows all "),
        ("no/such.yaml", "cannot read 'no/such.yaml'"),
        (7, "is 7, expected a name, a file or a mapping"),
        ({}, "duration_s: is missing; link: is missing; flows: is missing"),
    ],
)
def test_a_source_that_is_none(source: Any, says: str) -> None:
    with pytest.raises(bbrgym.ScenarioError) as caught:
        bbrgym.load_scenario(source)
    assert says in str(caught.value)


def test_the_error_keeps_its_parts_through_a_pickle() -> None:
    with pytest.raises(bbrgym.ScenarioError) as caught:
        bbrgym.load_scenario(with_mistake("link.rate_mbps", -5))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.path, error.scenario) == ("link.rate_mbps", "good")
    assert str(error) == str(caught.value)


# ---- checks -----------------------------------------------------------------------------------------------


NAN = math.nan
SUMMARY = {"flow": ["web-0", "web-1", "web-2", "bulk"], "goodput_mbps": [1.0, 3.0, NAN, 10.0], "utilisation": [0.5] * 4}


def scenario(*checks: dict[str, Any]) -> dict[str, Any]:
    return {
        "duration_s": 1.0,
        "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
        "flows": [{"name": "web", "count": 3, "rtt_ms": 20.0}, {"name": "bulk", "rtt_ms": 20.0}],
        "checks": checks,
    }


def test_the_metrics_are_the_measurements_of_the_summary() -> None:
    of_the_scenario = {"rtt_ms", "start_s", "stop_s"}
    of_the_machine = {"late_p50_us", "late_p99_us", "late_p999_us", "late_share"}
    numbers = {name for name, kind in SUMMARY_SCHEMA.items() if kind.is_float()}
    assert {*RUN_METRICS, *FLOW_METRICS} == numbers - of_the_scenario - of_the_machine


@pytest.mark.parametrize(
    ("check", "measured"),
    [
        ({"metric": "utilisation"}, 0.5),
        ({"metric": "goodput_mbps"}, 14 / 3),
        ({"metric": "goodput_mbps", "flow": "web"}, 2.0),
        ({"metric": "goodput_mbps", "flow": "web-1"}, 3.0),
        ({"metric": "goodput_mbps", "flow": "web", "across": "sum"}, 4.0),
        ({"metric": "goodput_mbps", "across": "lowest"}, 1.0),
        ({"metric": "goodput_mbps", "across": "highest"}, 10.0),
        ({"metric": "goodput_mbps", "flow": "web", "across": "p95"}, 2.9),
    ],
)
def test_a_check_measures(check: dict[str, Any], measured: float) -> None:
    assert ScenarioCheck(**check, at_least=0.0).measured(SUMMARY) == pytest.approx(measured)


def test_flows_without_a_measurement_alone_give_none() -> None:
    check = ScenarioCheck(metric="goodput_mbps", flow="web-2", at_most=1.0)
    assert math.isnan(check.measured(SUMMARY))
    assert not check.holds(check.measured(SUMMARY))


def test_both_bounds_are_allowed() -> None:
    check = ScenarioCheck(metric="utilisation", at_least=0.5, at_most=0.9)
    assert [check.holds(value) for value in (0.49, 0.5, 0.9, 0.91)] == [False, True, True, False]


def test_no_world_reads_them() -> None:
    with_checks = bbrgym.load_scenario(scenario({"metric": "jain", "at_least": 0.9}))
    assert with_checks.resolved_json() == bbrgym.load_scenario(scenario()).resolved_json()
    assert "checks" not in json.loads(with_checks.resolved_json())


def test_a_distribution_may_draw_the_bounds() -> None:
    fields = {**scenario(), "name": "drawn", "variables": {"least": {"uniform": [1, 2]}}}
    fields["checks"] = [{"metric": "goodput_mbps", "at_least": {"value": "least", "times": 0.5}}]
    bounds = {bbrgym.load_distribution(fields)(seed).checks[0].at_least for seed in range(3)}
    assert len(bounds) == 3
    assert all(bound is not None and 0.5 <= bound <= 1 for bound in bounds)
