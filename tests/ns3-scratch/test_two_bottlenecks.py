# SPDX-License-Identifier: GPL-2.0-only
"""A network of your own as a world: examples/two-bottlenecks.cc, which no scenario can describe."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_tree import built, needs_build
from plain_envs import PLAIN

import bbrgym
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.worlds import World

pytestmark = needs_build

EXAMPLE = Path(__file__).resolve().parents[2] / "ns3-scratch" / "examples" / "two-bottlenecks.yaml"
PAYLOAD = 1448 / 1488  # of the bytes of a full packet
FIRST_MBPS = 10.0
SECOND_MBPS = 8.0


@pytest.fixture(scope="module")
def two_bottlenecks() -> str:
    return str(built("two-bottlenecks"))


@pytest.fixture
def run(two_bottlenecks: str, closed: Any) -> Any:
    def make(scenario: Any, seed: int = 1) -> World:
        return closed(bbrgym.make_world("ns3gym", scenario, seed, options={"command": [two_bottlenecks]}))

    return make


def scenario_of(*flows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "name": "two",
        "duration_s": 8.0,
        "warmup_s": 2.0,
        "link": {"rate_mbps": FIRST_MBPS, "delay_ms": 5, "queue": {"size_bdp": 1}},
        "flows": list(flows),
        **changes,
    }


LONG = {"name": "long", "cc": "bbq", "rtt_ms": 60}
FIRST = {"name": "first", "cc": "cubic", "rtt_ms": 30}
SECOND = {"name": "second", "cc": "bbr", "rtt_ms": 30}


def summary(world: World) -> dict[str, np.ndarray]:
    flows, _ = world.summary()
    return dict(zip(world.flow_summary_fields, flows.T, strict=True))


def interval(world: World) -> dict[str, np.ndarray]:
    return dict(zip(world.flow_fields, world.flow_stats().T, strict=True))


def test_flows_share_the_bottlenecks_that_they_cross(run: Any) -> None:
    world = run(scenario_of(LONG, FIRST, SECOND))
    world.advance(8.0)
    assert world.done
    flows = summary(world)
    long, first, second = flows["throughput_mbps"]
    assert 0.95 * FIRST_MBPS < long + first < 1.01 * FIRST_MBPS
    assert 0.95 * SECOND_MBPS < long + second < 1.01 * SECOND_MBPS
    np.testing.assert_allclose(flows["goodput_mbps"], flows["throughput_mbps"] * PAYLOAD, rtol=0.05)
    fair = np.array([SECOND_MBPS / 2, FIRST_MBPS / 2, SECOND_MBPS / 2]) * PAYLOAD
    np.testing.assert_allclose(flows["fair_share_mbps"], fair)
    link = dict(zip(world.link_summary_fields, world.summary()[1], strict=True))
    assert link["capacity_mbps"] == FIRST_MBPS  # that of the bottleneck added first
    assert link["utilisation"] > 0.95
    assert flows["queue_delay_mean_ms"][0] > flows["queue_delay_mean_ms"][1]  # it waits twice
    assert 0.0 < flows["loss_rate"].max() < 0.2
    assert (flows["dropped_pkts"] <= flows["retransmitted_pkts"] + 50).all()


@pytest.mark.parametrize(
    ("flow", "rate_mbps", "cc"),
    [(LONG, SECOND_MBPS, "bbr"), (FIRST, FIRST_MBPS, "cubic"), (SECOND, SECOND_MBPS, "ns3-cubic")],
)
def test_a_flow_alone_fills_its_narrowest_link(run: Any, flow: dict[str, Any], rate_mbps: float, cc: str) -> None:
    world = run(scenario_of({**flow, "cc": cc}))
    world.advance(8.0)
    flows = summary(world)
    assert 0.9 * rate_mbps < flows["throughput_mbps"][0] < 1.01 * rate_mbps
    assert flows["fair_share_mbps"][0] == pytest.approx(rate_mbps * PAYLOAD)
    assert flow["rtt_ms"] < flows["rtt_min_ms"][0] < flow["rtt_ms"] + (40 if "cubic" in cc else 10)
    assert flows["share"][0] == 1.0


def test_intervals_have_what_the_summary_has(run: Any) -> None:
    world = run(scenario_of(LONG, FIRST, {**SECOND, "start_s": 2.5, "stop_s": 6.05}, warmup_s=0.0))
    columns: dict[str, list[np.ndarray]] = {}
    while not world.done:
        world.advance(0.1)
        for name, column in interval(world).items():
            columns.setdefault(name, []).append(column.copy())
    assert all(np.isfinite(column).all() for column in columns.values())
    active = np.array(columns["active"])
    assert active[:, 0].all()
    assert active[25:61, 2].all()
    assert not active[:25, 2].any()
    assert not active[61:, 2].any()
    flows = summary(world)
    assert flows["start_s"].tolist() == [0.0, 0.0, 2.5]
    assert flows["stop_s"].tolist() == [8.0, 8.0, 6.05]
    for name in ("sent_pkts", "dropped_pkts", "rto_count"):
        assert np.sum(columns[name], axis=0)[:2].tolist() == flows[name][:2].tolist()
    assert np.mean(columns["goodput_mbps"], axis=0)[:2] == pytest.approx(flows["goodput_mbps"][:2])


def test_the_same_seed_gives_the_same_bytes_and_tunables_act(run: Any) -> None:
    def tables(seed: int, up_gain: float) -> bytes:
        world = run(scenario_of(LONG, FIRST, SECOND, duration_s=6.0), seed)  # the gain acts after STARTUP's 3.3 s
        while not world.done:
            world.set_tunables("long", {"bbr_up_gain": up_gain})
            world.advance(0.5)
        return b"".join(table.tobytes() for table in (world.flow_stats(), world.link_stats(), *world.summary()))

    assert tables(1, 1.25) == tables(1, 1.25)
    assert tables(1, 1.25) != tables(2, 1.25)  # the seed draws the gains' cycle
    assert tables(1, 1.25) != tables(1, 1.75)


def test_environments_run_on_the_example(two_bottlenecks: str) -> None:
    scenario = bbrgym.load_scenario(str(EXAMPLE))
    options = {"command": [two_bottlenecks]}
    env = TuneEnv(
        **{**PLAIN, "world": "ns3gym", "scenario": scenario, "control_interval_s": 1.0, "world_options": options}
    )
    try:
        observation, _ = env.reset(seed=1)
        assert env.observation_space.contains(observation)
        for _ in range(3):
            observation, reward, _, truncated, _ = env.step(env.action_space.sample())
            assert env.observation_space.contains(observation)
            assert np.isfinite(reward)
            assert not truncated
    finally:
        env.close()


def test_a_flow_of_no_known_path_is_named(run: Any) -> None:
    with pytest.raises(bbrgym.ConfigError, match=r"^flow 'third': expected a name that begins with long, first "):
        run(scenario_of({**LONG, "name": "third"}))
