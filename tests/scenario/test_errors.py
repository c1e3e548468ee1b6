# SPDX-License-Identifier: GPL-2.0-only
"""Each mistake is one sentence: the field's path, the value, what is allowed."""

import copy
import pickle
from typing import Any

import pytest

import bbrgym

GOOD: dict[str, Any] = {
    "name": "good",
    "duration_s": 20.0,
    "link": {"rate_mbps": 10.0, "delay_ms": 1.0, "queue": {"size_bytes": 100_000}},
    "flows": [{"name": "a", "rtt_ms": 40.0}],
}
FLOW = {"name": "a", "rtt_ms": 40.0}

NAN = float("nan")

# Where, what is put there, what the message must say.
MISTAKES: list[tuple[str, Any, str]] = [
    ("link.rate_mbps", -5, "link.rate_mbps: is -5, expected a number >= 0.001"),
    ("link.rate_mbps", True, "link.rate_mbps: is True, expected a number"),
    ("link.rate_mbps", NAN, "link.rate_mbps: is nan, expected a finite number"),
    ("link.rate_mbps", 10**400, "link.rate_mbps: is 1000"),
    ("link.rate_mbps", None, "link: has none, expected exactly one of rate_mbps, trace_path and trace"),
    ("link.rate_mps", 5, "link.rate_mps: is not a field; did you mean rate_mbps? allowed are"),
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
    ("link.queue", {}, "link.queue: has no size, expected exactly one of size_bytes, size_packets and size_bdp"),
    ("link.queue.size_packets", 5, "link.queue: has size_bytes = 100000 and size_packets = 5, expected exactly one"),
    ("link.queue.size_bytes", 2.5, "link.queue.size_bytes: is 2.5, expected a whole number"),
    ("link.queue.size_bytes", 100, "holds 100 bytes, expected at least one packet of 1488 bytes"),
    ("link.queue", {"size_bdp": 1e6}, "link.queue.size_bdp: is 1000000.0, which holds 50000000000 bytes"),
    ("link.queue.kind", "fifo", "link.queue.kind: is 'fifo', expected one of 'droptail', 'red', 'codel' or 'fq_codel'"),
    ("link.queue.kind", "red", "link.queue.red: is missing, expected min_bytes, max_bytes and max_probability"),
    ("link.queue.codel", {}, "link.queue.codel: is given, expected only with kinds codel and fq_codel"),
    ("link.queue.quantum_bytes", 300, "link.queue.quantum_bytes: is 300, expected only with kind fq_codel, which is"),
    ("link.queue.ecn", True, "link.queue.ecn: is true, expected only with kinds red, codel and fq_codel, which is"),
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
    ("seed", 1, "seed: is not a field; allowed are name, duration_s, warmup_s, mss_bytes, stack, link, flows"),
]


def with_mistake(path: str, value: Any) -> dict[str, Any]:
    fields = copy.deepcopy(GOOD)
    at: Any = fields
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for parent in parents:
        at = at[parent]
    at[last] = value
    return fields


@pytest.mark.parametrize(("path", "value", "says"), MISTAKES, ids=[f"{m[0]}-{i}" for i, m in enumerate(MISTAKES)])
def test_a_mistake_is_one_clear_sentence(path: str, value: Any, says: str) -> None:
    with pytest.raises(bbrgym.ScenarioError) as caught:
        bbrgym.load_scenario(with_mistake(path, value))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_hop_holds_a_packet() -> None:
    fields = with_mistake("link.last_hop", {"kind": "lte", "queue_packets": 5})
    says = r"link.last_hop.queue_packets: is 5, which holds 7500 bytes, expected at least one packet of 9000 bytes"
    with pytest.raises(bbrgym.ScenarioError, match=says):
        bbrgym.load_scenario({**fields, "mss_bytes": 8960})
    fields = with_mistake("link.last_hop", {"kind": "wifi"})
    says = r"mss_bytes: is 2257, expected at most 2256 with a wifi last_hop"
    with pytest.raises(bbrgym.ScenarioError, match=says):
        bbrgym.load_scenario({**fields, "mss_bytes": 2257})


def test_absurd_memory_is_refused() -> None:
    fields = with_mistake("link.rate_mbps", 400_000.0)
    fields["flows"][0]["rtt_ms"] = 10_000.0
    with pytest.raises(bbrgym.ScenarioError, match=r"link: 400000 Mbit/s times an RTT of 10000 ms is 5e\+11 bytes"):
        bbrgym.load_scenario(fields)


def test_a_whole_tunable_must_be_whole() -> None:
    fields = with_mistake("flows.0.tunables", {"acd_identical_count": 2.5})
    fields["flows"][0]["cc"] = "bbr-acd"
    with pytest.raises(bbrgym.ScenarioError, match=r"acd_identical_count: is 2\.5, expected a whole number"):
        bbrgym.load_scenario(fields)


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
