# SPDX-License-Identifier: GPL-2.0-only
"""The stack of a sender: presets, facts that differ from them, and what a world reads."""

import json
from typing import Any

import pytest

import bbrgym
from bbrgym.scenario.stack import STACK_FACTS, STACK_PRESETS

LINK = {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}}


def stacks(scenario: Any = None, *flows: Any) -> list[dict[str, Any]]:
    """Return the resolved stack of each flow; None: the field is left out."""
    mapping: dict[str, Any] = {"duration_s": 1.0, "link": LINK}
    mapping["flows"] = [
        {"name": f"f{i}", "rtt_ms": 20.0} | ({} if flow is None else {"stack": flow})
        for i, flow in enumerate(flows or (None,))
    ]
    if scenario is not None:
        mapping["stack"] = scenario
    return [flow["stack"] for flow in json.loads(bbrgym.load_scenario(mapping).resolved_json())["flows"]]


def preset(name: str) -> dict[str, Any]:
    return {fact.name: fact.presets[name] for fact in STACK_FACTS.values()}


def test_the_default_is_linux_6() -> None:
    assert stacks() == [{"preset": "linux-6", **preset("linux-6")}]


@pytest.mark.parametrize("name", STACK_PRESETS)
def test_a_flow_carries_every_fact_of_its_preset(name: str) -> None:
    assert stacks(name) == stacks({"preset": name}) == stacks(None, name) == [{"preset": name, **preset(name)}]


def test_a_fact_may_differ_from_the_preset() -> None:
    (flow,) = stacks({"preset": "ns3", "tail_loss_probe": True})
    assert flow == {"preset": "ns3", **preset("ns3"), "tail_loss_probe": True}


def test_a_flow_changes_the_scenarios_stack_unless_it_names_a_preset() -> None:
    scenario = {"preset": "ns3", "undo": True}
    common, changed, other = stacks(scenario, None, {"d_sack": True}, {"preset": "linux-4.9", "d_sack": False})
    assert common == {"preset": "ns3", **preset("ns3"), "undo": True}
    assert changed == common | {"d_sack": True}
    assert other == {"preset": "linux-4.9", **preset("linux-4.9"), "d_sack": False}


def test_the_resolved_form_of_a_resolved_stack_is_itself() -> None:
    (resolved,) = stacks({"preset": "linux-4.11", "undo": False})
    assert stacks(None, resolved) == [resolved]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("linux-7", f"stack.preset: is 'linux-7', expected one of {', '.join(STACK_PRESETS)}"),
        (3, "stack: is 3, expected a preset's name or a mapping of facts"),
        ({"tail_loss_prob": True}, "stack.tail_loss_prob: is not a fact of a stack; did you mean tail_loss_probe"),
        ({"undo": "yes"}, "stack.undo: is 'yes', expected true or false"),
        ({"undo": 1}, "stack.undo: is 1, expected true or false"),
    ],
)
def test_a_mistake_names_field_value_and_what_is_allowed(value: Any, says: str) -> None:
    with pytest.raises(bbrgym.ScenarioError) as caught:
        stacks(value)
    assert says in str(caught.value)
    with pytest.raises(bbrgym.ScenarioError) as caught:
        stacks(None, None, value)
    assert "flows[1]." + says in str(caught.value)


def test_facts_of_the_table_are_of_their_kind() -> None:
    for fact in STACK_FACTS.values():
        assert list(fact.presets) == list(STACK_PRESETS)
        for value in fact.presets.values():
            assert fact.check(value) == value
