# SPDX-License-Identifier: GPL-2.0-only
"""The shipped scenarios: valid, stable under resolution, and their checks measured."""

import json

import pytest

import bbrgym


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
