# SPDX-License-Identifier: GPL-2.0-only
"""Last hops in the worlds: one has the radio, the others say how to do without."""

from __future__ import annotations

from pathlib import Path

import pytest

import bbrgym
from bbrgym.worlds.last_hop import record_last_hop


@pytest.mark.parametrize("name", ["wifi", "lte"])
def test_the_twin_says_how_to_record_it(name: str) -> None:
    with bbrgym.make_world("twin", "steady") as world:
        with pytest.raises(bbrgym.ScenarioError) as caught:
            world.reset(name)
        assert f"link.last_hop: is {name}, which world 'twin' does not have; use world ns3, ns3gym, or record" in str(
            caught.value
        )
        assert "`bbrgym scenario NAME record=FILE`" in str(caught.value)
        world.reset("steady")
        world.advance(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wifi", "lte"])
def test_a_trace_is_the_recording_that_its_scenario_names(name: str, tmp_path: Path) -> None:
    record_last_hop(bbrgym.load_scenario(name), tmp_path / "again.down", seconds=5, seed=1)
    shipped = Path(bbrgym.__path__[0]) / "conf" / "trace" / f"{name}.down"
    assert (tmp_path / "again.down").read_bytes() == shipped.read_bytes()


@pytest.mark.parametrize("name", ["wifi", "lte"])
def test_the_trace_stands_in_for_the_radio(name: str) -> None:
    def goodput_mbps(world_name: str, scenario: str) -> float:
        fields = {**bbrgym.load_scenario(scenario).model_dump(exclude_none=True), "duration_s": 4.0, "warmup_s": 1.0}
        with bbrgym.make_world(world_name, fields) as world:
            world.advance(4.0)
            flows, _ = world.summary()
            return float(flows[0, world.flow_summary_fields.index("goodput_mbps")])

    radio = goodput_mbps("ns3", name)
    assert goodput_mbps("twin", f"{name}_trace") == pytest.approx(radio, rel=0.25)
