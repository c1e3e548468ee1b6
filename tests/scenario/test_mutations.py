# SPDX-License-Identifier: GPL-2.0-only
"""Whatever is done to a scenario, loading it gives one that runs, or one clear error."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bbrgym
from bbrgym.scenario.bounds import BOUNDS

BASES: list[dict[str, Any]] = [
    {
        "duration_s": 2.0,
        "warmup_s": 0.5,
        "mss_bytes": 1000,
        "link": {
            "rate_mbps": 10.0,
            "delay_ms": 2.0,
            "queue": {
                "kind": "red",
                "size_bytes": 90_000,
                "red": {"min_bytes": 20_000, "max_bytes": 60_000, "max_probability": 0.1},
            },
            "loss": {
                "kind": "gilbert_elliott",
                "good_to_bad": 0.01,
                "bad_to_good": 0.3,
                "loss_good": 0.0,
                "loss_bad": 0.5,
                "clock": "time",
            },
            "changes": [{"at_s": 0.1, "rate_mbps": 5.0}, {"at_s": 0.2, "delay_ms": 3.0}],
        },
        "flows": [
            {"name": "a", "count": 2, "cc": "bbq", "rtt_ms": 20.0, "tunables": {"bbq_alpha_us": 2000}},
            {
                "name": "b",
                "cc": "ns3-cubic",
                "role": "background",
                "rtt_ms": 40.0,
                "start_s": 0.1,
                "stop_s": 1.0,
                "app": {"kind": "onoff", "rate_mbps": 1.0, "on_s": 0.1, "off_s": 0.1, "random": True},
            },
        ],
    },
    {
        "duration_s": 1.0,
        "link": {
            "trace": {"times_ms": [1, 2, 2, 7], "period_ms": 10},
            "queue": {"kind": "codel", "size_packets": 50, "codel": {"target_ms": 5, "interval_ms": 100}},
            "loss": {"kind": "bernoulli", "rate": 0.01},
            "changes": [{"at_s": 0.5, "loss_rate": 0.1}],
        },
        "flows": [{"name": "c", "cc": "bbr-pg", "rtt_ms": 30.0, "app": {"kind": "cbr", "rate_mbps": 2.0}}],
    },
]
FIELDS = sorted({"seed", "rate_mbps", "size_bdp", "count", "trace_path", "stop_s", "kind", "tunables", "bdp_rtt_ms"})

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(10**20), 10**20),
    st.sampled_from([0, 1, -1, 0.5, 1e-9, 1e-3, 1e3, 1e6, 1e9, 1e300, BOUNDS["rate_mbps"].high, BOUNDS["rtt_ms"].high]),
)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), numbers, st.text(max_size=5), st.sampled_from(["bbr", "red", "bulk", "none", "cbr"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


def places(at: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything inside a structure."""
    for key, inner in at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    fields = copy.deepcopy(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 3))):
        inside = list(places(fields))
        if not inside:
            break
        *parents, last = draw(st.sampled_from(inside))
        at: Any = fields
        for parent in parents:
            at = at[parent]
        change = draw(st.sampled_from([*["nudge"] * 6, "number", "number", "replace", "delete", "add", "double"]))
        if change == "replace":
            at[last] = draw(values)
        elif change == "nudge" and type(at[last]) in (int, float):  # often still a scenario
            at[last] = type(at[last])(at[last] * draw(st.floats(0.3, 3.0)))
        elif change == "number":
            at[last] = draw(numbers)
        elif change == "delete":
            del at[last]
        elif change == "add" and isinstance(at, dict):
            at[draw(st.sampled_from(FIELDS))] = draw(values)
        elif change == "double" and isinstance(at, list):
            at.append(copy.deepcopy(at[last]))
    return fields


@pytest.fixture(scope="module")
def world() -> Iterator[bbrgym.World]:
    with bbrgym.make_world("ns3", "steady") as world:
        yield world


@given(fields=mutated(), seed=st.integers(0, 2**63 - 1))
@settings(max_examples=250)
def test_a_mutated_scenario_runs_or_is_one_clear_error(world: bbrgym.World, fields: dict[str, Any], seed: int) -> None:
    scenario = load_or_message(fields)
    if isinstance(scenario, str):
        assert "\n" not in scenario
        return
    resolved = scenario.resolved_json()
    assert bbrgym.load_scenario(json.loads(resolved)).resolved_json() == resolved
    world.reset(scenario, seed)
    world.advance(min(0.02, 200.0 / fastest_mbps(scenario)))  # so long as a few thousand packets take at most
    assert world.now_s > 0


def load_or_message(fields: dict[str, Any]) -> bbrgym.Scenario | str:
    try:
        return bbrgym.load_scenario(fields)
    except bbrgym.ScenarioError as error:
        return str(error)


def fastest_mbps(scenario: bbrgym.Scenario) -> float:
    resolved = scenario.resolved()
    rates = [resolved.link.rate_mbps or 1000.0, *(change.rate_mbps or 0.0 for change in resolved.link.changes)]
    return max(rates)
