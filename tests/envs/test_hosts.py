# SPDX-License-Identifier: GPL-2.0-only
"""The view of a host: a flow's own numbers, and those of the tuned flows that its host sends."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_envs import PLAIN
from vectors import coming_and_going

import bbrgym
from bbrgym.envs.features import FlowFeatures, HostFeatures
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.observation import FEATURES
from bbrgym.worlds import VectorWorld

INSTANT = [feature for feature in FEATURES if not feature.memory_terms]
COUNT = len(INSTANT)
FIELDS = VectorWorld.flow_fields
ACTIVE = FIELDS.index("active")


def on_hosts(*hosts: str | None, duration_s: float = 1.0) -> dict[str, Any]:
    """A tuned flow of each of these hosts, and a competitor on the first one."""
    flows: list[dict[str, Any]] = [
        {"name": f"flow-{i}", "rtt_ms": 20.0 + 10.0 * i, "start_s": 0.1 * i, "host": host}
        for i, host in enumerate(hosts)
    ]
    flows.insert(1, {"name": "other", "cc": "cubic", "rtt_ms": 30.0, "role": "background", "host": hosts[0]})
    link = {"rate_mbps": 8.0, "queue": {"size_bdp": 1.0}}
    return {"name": "hosts", "duration_s": duration_s, "link": link, "flows": flows}


def stats_of(flows: int, seed: int) -> Any:
    """Measurements of some flows, most of them active: [fields, flows]."""
    rng = np.random.default_rng(seed)
    stats = np.exp(rng.normal(0, 3, (len(FIELDS), flows))) * rng.integers(0, 2, (len(FIELDS), flows))
    stats[ACTIVE] = rng.random(flows) < 0.7
    return stats


def numbers_of(stats: Any, hosts: Any) -> Any:
    """What the flows of some environments observe, [environments, L, width]."""
    hosts = np.asarray(hosts)
    features = HostFeatures(INSTANT)
    view = np.empty((hosts.size, features.width), np.float32)
    features.write(view, FIELDS, stats, hosts)
    return view.reshape(*hosts.shape, -1)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 2**32))
def test_it_is_the_own_view_and_the_pooled_one_of_the_hosts_flows(hosts: list[int], seed: int) -> None:
    stats = stats_of(len(hosts), seed)
    seen = numbers_of(stats, [hosts])[0]
    for place, host in enumerate(hosts):
        own = np.empty((1, COUNT), np.float32)
        FlowFeatures(INSTANT, 1).write(own, FIELDS, np.ascontiguousarray(stats[:, [place]]))
        assert seen[place, :COUNT].tobytes() == own.tobytes()
        of_host = np.ascontiguousarray(stats[:, [i for i, one in enumerate(hosts) if one == host]])
        pooled = np.empty((1, 3 * COUNT + 1), np.float32)
        FlowFeatures(INSTANT, of_host.shape[1], "pooled").write(pooled, FIELDS, of_host)
        assert seen[place, COUNT:-1].tobytes() == pooled[0, :-1].tobytes()
        active = int(of_host[ACTIVE].sum())
        assert seen[place, -1] == np.float32(1.0 / active if active else 0.0)


@given(st.integers(0, 2**32))
def test_other_hosts_and_absent_flows_do_not_matter(seed: int) -> None:
    stats, others = stats_of(4, seed), stats_of(4, seed + 1)
    hosts = np.array([[0, 1, 0, 2]])
    changed = np.where(hosts == 0, stats, others)
    assert numbers_of(stats, hosts)[0, [0, 2]].tobytes() == numbers_of(changed, hosts)[0, [0, 2]].tobytes()
    absent = np.concatenate([stats, np.zeros((len(FIELDS), 2))], axis=1)
    assert numbers_of(absent, [[0, 1, 0, 2, -1, -1]])[0, :4].tobytes() == numbers_of(stats, hosts)[0].tobytes()


@pytest.mark.parametrize("options", [{}, {"features": "memory", "hold_intervals": 3}], ids=str)
def test_many_worlds_are_as_each_alone_bit_for_bit(options: dict[str, Any]) -> None:
    scenarios = [on_hosts("a", "b", "a"), on_hosts(None, None), on_hosts("a", "a", "b", "b", duration_s=0.5)]
    scenarios.append(coming_and_going())

    def played(scenario: Any, seeds: list[int]) -> list[Any]:
        changed = {"world": "twin", "scenario": scenario, "view": "host", "max_tuned": 4, **options}
        batch = FlowBatch(len(seeds), FlowOptions(**{**PLAIN, **changed}), runs_to_the_end=True)
        batch.reset(range(len(seeds)), seeds)
        seen = []
        actions = np.stack([np.stack([batch.action.default] * 4)] * len(seeds))
        while not batch.has_ended.any():
            batch.simulate(actions)
            observations = np.where(batch.will_act[:, :, None], batch.observe(), 0.0)
            seen.append((observations, batch.will_act, batch.reward(batch.reward_terms())))
        assert seen[0][0].shape[2] == batch.observation.width
        batch.close()
        return seen

    together = played(scenarios, [3, 4, 5, 6])
    for index, scenario in enumerate(scenarios):
        for ours, alone in zip(together, played(scenario, [3 + index]), strict=False):
            assert [each[index].tobytes() for each in ours] == [each[0].tobytes() for each in alone]


def test_a_host_of_the_scenario_decides_who_shares() -> None:
    scenario = on_hosts("a", "b", "a", None)
    scenario["flows"][-1] |= {"count": 2}
    changed = {"world": "twin", "scenario": scenario, "view": "host", "features": ["active"], "tunables": ["bbq_beta"]}
    options = FlowOptions(**{**PLAIN, **changed})
    batch = FlowBatch(1, options)
    batch.reset([0], [1])
    for _ in range(5):
        batch.simulate(np.stack([np.stack([batch.action.default] * 5)]))
    assert batch.observe()[0, :, 4].tolist() == [0.5, 1.0, 0.5, 1.0, 1.0], "1 / active flows of its host"
    batch.close()


def test_a_host_leaves_the_network_as_it_is() -> None:
    with_hosts, without = on_hosts("a", "b"), on_hosts("a", "b")
    for flow in without["flows"]:
        del flow["host"]
    one, other = (bbrgym.load_scenario(scenario) for scenario in (with_hosts, without))
    assert one.resolved_json() == other.resolved_json()
    assert [flow.host for flow in one.resolved().flows] == ["a", "a", "b"]


@pytest.mark.parametrize("host", [3, "", "a b"])
def test_a_wrong_host_is_one_clear_error(host: Any) -> None:
    with pytest.raises(bbrgym.ScenarioError, match=r"flows\[0\]\.host: is "):
        bbrgym.load_scenario(on_hosts(host))
