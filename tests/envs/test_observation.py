# SPDX-License-Identifier: GPL-2.0-only
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bbrgym.envs.critic import BASE_RTT, FLOW_FEATURES, LINK_FEATURES, CriticObservation
from bbrgym.envs.features import Feature
from bbrgym.envs.observation import FEATURE_LISTS, FEATURES, FrameStack, SenderObservation
from bbrgym.worlds.fields import FLOW_FIELDS, LINK_FIELDS

FIELDS = {name: (unit, visibility) for name, unit, visibility, _ in FLOW_FIELDS}
NAMES = tuple(FIELDS)


def stats_of(**values):
    """One flow's stats; what is not named is 0."""
    return np.array([[values.get(name, 0.0) for name in NAMES]])


def view(features, **values):
    """One flow's numbers, without a setting."""
    observation = SenderObservation(1, 0, features)
    return observation.view(NAMES, stats_of(**values).T, np.zeros((1, 0), np.float32))[0].tolist()


def fields_first(stats, n):
    """Of n environments' flows, one after the other: the fields of all first flows, of all second ones, ..."""
    return np.ascontiguousarray(stats.reshape(n, -1, len(NAMES)).transpose(2, 1, 0)).reshape(len(NAMES), -1)


def unit_of(operand):
    """The unit of a field, or of what is remembered of fields."""
    if isinstance(operand, str):
        return FIELDS[operand][0]
    units = {FIELDS[name][0] for name in operand.fields}
    assert len(units) == 1, f"{operand} is of several units"
    return "s" if operand.kind == "seconds" else units.pop()


def test_features_are_declared_soundly():
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)
    for feature in FEATURES:
        assert all(FIELDS[name][1] == "sender" for name in feature.fields)
        unit = unit_of(feature.field)
        assert feature.unit == (unit if feature.per is None else "ratio")
        if feature.per is not None:
            assert unit_of(feature.per) == unit
            assert feature.scale == "log" or feature.low == 0, "what is not known yet must give 0"


def test_the_lists_are_of_the_last_interval_and_of_all():
    instant, memory = FEATURE_LISTS["instant"], FEATURE_LISTS["memory"]
    assert memory == tuple(one.name for one in FEATURES if not any(each.over_s for each in one.memory_terms))
    assert memory[: len(instant)] == instant, "an agent's first numbers mean the same with a memory"
    assert {"delivery_of_max", "bw_of_delivery", "max_queue", "min_queue", "total_retransmitted"} <= set(memory)
    assert not SenderObservation(1, 0).memory_terms
    assert SenderObservation(2, 3, "memory").width == 2 * len(memory) + 3


def test_values():
    assert view(["cwnd"], cwnd_pkts=1) == [0.0]
    assert view(["cwnd"], cwnd_pkts=1000) == [pytest.approx(0.6)]
    assert view(["cwnd"], cwnd_pkts=1e9) == [1.0]
    assert view(["rtt_mean"], rtt_mean_ms=80, min_rtt_ms=10) == [pytest.approx(0.5)]
    assert view(["lost"], lost_pkts=5, sent_pkts=20) == [0.25]
    assert view(["delivery_of_bw"], delivery_rate_mbps=9, bw_mbps=6) == [0.75]
    assert view(["startup", "cruise", "probe_up"], phase=0) == [1.0, 0.0, 0.0]
    assert view(["startup", "cruise", "probe_up"], phase=8) == [0.0, 0.0, 1.0]
    assert view(["startup", "cruise", "probe_up"], phase=15) == [0.0, 1.0, 0.0]


def test_what_is_not_known_is_0():
    assert view(["rtt_mean"], rtt_mean_ms=80) == [0.0]
    assert view(["rtt_mean"], min_rtt_ms=10) == [0.0]
    assert view(["lost"], lost_pkts=3) == [0.0]
    assert view(["bw"]) == [0.0]


@given(
    hnp.arrays(np.float64, (3, len(NAMES)), elements=st.just(0.0) | st.floats(1e-9, 1e12)),
    st.integers(1, 3),
    st.sampled_from(["each", "pooled"]),
)
def test_any_stats_give_an_observation_in_bounds(stats, stack, view):
    observation = SenderObservation(3, 2, frame_stack=stack, view=view)
    seen = FrameStack(1, observation)
    seen.add(observation.view(NAMES, np.ascontiguousarray(stats.T), np.array([[-1.0, 1.0]], np.float32)))
    assert observation.space.contains(seen.observations()[0])


@pytest.mark.parametrize(
    ("view", "flows", "n"), [("each", 2, 2), ("each", 2, 9), ("each", 2, 700), ("pooled", 2, 50), ("pooled", 20, 50)]
)
def test_each_of_many_is_seen_as_if_it_were_alone(view, flows, n):
    rng = np.random.default_rng(n)
    stats = np.exp(rng.normal(0, 4, (flows * n, len(NAMES)))) * rng.integers(0, 2, (flows * n, len(NAMES)))
    settings = rng.uniform(-1, 1, (n, 3)).astype(np.float32)
    observation = SenderObservation(flows, 3, view=view)
    together = observation.view(NAMES, fields_first(stats, n), settings)
    for i in range(min(n, 50)):
        its = fields_first(stats[flows * i : flows * (i + 1)], 1)
        alone = observation.view(NAMES, its, settings[i : i + 1])
        assert alone[0].tobytes() == together[i].tobytes()


def test_flows_stand_side_by_side_and_then_the_setting():
    observation = SenderObservation(2, 1, ["active", "lost"])
    stats = np.concatenate([stats_of(active=1), stats_of(lost_pkts=1, sent_pkts=2)])
    assert observation.view(NAMES, stats.T, np.array([[0.5]], np.float32)).tolist() == [[1, 0, 0, 0.5, 0.75]]


def test_absent_flows_are_0():
    observation = SenderObservation(2, 1, ["startup", "lost"])
    stats = np.concatenate([stats_of(phase=0, lost_pkts=1, sent_pkts=2), stats_of()])
    is_there = np.array([[True], [False]])
    seen = observation.view(NAMES, stats.T, np.array([[0.5]], np.float32), is_there)
    assert seen.tolist() == [[1, 0.5, 0, 0, 0.75]]


def pooled(flows, *stats):
    """The numbers of flows with these stats."""
    table = np.concatenate([*stats, *[stats_of()] * (flows - len(stats))])
    observation = SenderObservation(flows, 1, ["lost", "app_limited"], view="pooled")
    return observation.view(NAMES, table.T, np.array([[0.5]], np.float32))[0].tolist()


def test_pooled_are_mean_smallest_and_largest_of_the_active_ones():
    one = stats_of(active=1, lost_pkts=1, sent_pkts=4, app_limited=1)
    other = stats_of(active=1, lost_pkts=3, sent_pkts=4)
    assert pooled(4, one, other) == [0.5, 0.5, 0.25, 0, 0.75, 1, 0.5, 0.75]
    assert pooled(4, other, one) == pooled(4, one, other)
    assert pooled(2, one, other)[:6] == pooled(4, one, other)[:6]
    assert pooled(2, one) == [0.25, 1, 0.25, 1, 0.25, 1, 0.5, 0.75]
    assert pooled(2, stats_of(lost_pkts=1, sent_pkts=1)) == [0, 0, 0, 0, 0, 0, 0, 0.75]


def test_the_newest_interval_is_last():
    stack = FrameStack(2, SenderObservation(1, 0, ["cwnd", "lost"], frame_stack=3))

    def both(number):
        return np.array([[number, 0.5], [number + 1, 0.5]], np.float32)

    stack.begin([0, 1], both(0))
    first = stack.observations()
    assert first.tolist() == [[0, 0.5, 0, 0.5, 0, 0.5], [1, 0.5, 1, 0.5, 1, 0.5]]
    stack.add(both(2))
    assert stack.observations().tolist() == [[0, 0.5, 0, 0.5, 2, 0.5], [1, 0.5, 1, 0.5, 3, 0.5]]
    stack.begin([1], both(8)[1:])
    stack.add(both(4))
    assert stack.observations().tolist() == [[0, 0.5, 2, 0.5, 4, 0.5], [9, 0.5, 9, 0.5, 5, 0.5]]
    assert first[0, 4] == 0, "an observation is the caller's"


@pytest.mark.parametrize(("scale", "low", "high"), [("log", 0.0, 1.0), ("linear", 1.0, 1.0), ("within", 2.0, 1.0)])
def test_a_feature_without_a_range_is_refused(scale: Any, low: float, high: float) -> None:
    with pytest.raises(ValueError, match=rf"feature mine: low {low:g}, high {high:g}, expected .*low <=? high"):
        Feature("mine", "rtt_mean_ms", "ms", scale, low, high, None, "a mistake")


# ---- what a critic sees ------------------------------------------------------------------------------


LINK = {name: (unit, visibility) for name, unit, visibility, _ in LINK_FIELDS}
FLOW = {name: (unit, visibility) for name, unit, visibility, _ in FLOW_FIELDS}


def table(fields, **values):
    return np.array([values.get(name, 0.0) for name in fields])


def seen(link=None, flows=(), base_rtt_ms=(), view="each"):
    """What a critic sees of one environment, by feature."""
    critic = CriticObservation(len(flows), view)
    stats = np.stack([table(FLOW, **flow) for flow in flows], axis=1)
    numbers = critic.view(
        tuple(LINK), table(LINK, **(link or {}))[None], tuple(FLOW), stats, np.array(base_rtt_ms, float)[:, None]
    )
    assert critic.space.contains(numbers[0])
    return numbers[0]


def test_features_are_declared_soundly_of_critic():
    for features, fields in ((LINK_FEATURES, LINK), (FLOW_FEATURES, FLOW | {BASE_RTT: ("ms", "omniscient")})):
        assert len({feature.name for feature in features}) == len(features)
        for feature in features:
            unit, visibility = fields[feature.field]
            assert feature.unit == (unit if feature.per is None else "ratio")
            assert feature.per is None or fields[feature.per][0] == unit
            assert "omniscient" in (visibility, fields[feature.per or feature.field][1]), "a sender knows it"


def test_values_of_critic():
    link = {"rate_mbps": 10.0, "utilisation": 0.5, "active_flows": 1, "queue_delay_mean_ms": 10.0}
    flow = {"active": 1, "goodput_mbps": 8.0, "fair_share_mbps": 4.0, "rtt_mean_ms": 80.0, "sent_pkts": 4}
    numbers = seen(link, [flow | {"dropped_pkts": 1}], [10.0])
    by_name = dict(zip([feature.name for feature in LINK_FEATURES + FLOW_FEATURES], numbers, strict=True))
    expected = {"rate": 0.5, "utilisation": 0.5, "active_flows": 0.1, "queue_delay": 0.4, "queue_delay_p95": 0.0}
    expected |= {"share": 7 / 12, "stretch": 0.5, "base_rtt": 0.4, "dropped": 0.25, "flow_queue_delay": 0.0}
    assert {name: by_name[name] for name in expected} == pytest.approx(expected)


def test_flows_stand_behind_the_link_side_by_side_or_pooled():
    flows = [{"active": 1, "goodput_mbps": 1.0}, {"active": 1, "goodput_mbps": 100.0}]
    numbers = seen({}, flows, [10.0, 10.0])
    goodputs = numbers[len(LINK_FEATURES) :: len(FLOW_FEATURES)]
    assert goodputs == pytest.approx([1 / 3, 2 / 3])
    pooled = seen({}, flows, [10.0, 10.0], "pooled")
    assert pooled[len(LINK_FEATURES) :: len(FLOW_FEATURES)] == pytest.approx([1 / 2, 1 / 3, 2 / 3, 1.0])
    assert seen({}, flows[::-1], [10.0, 10.0], "pooled").tobytes() == pooled.tobytes()


@given(
    hnp.arrays(np.float64, (len(LINK),), elements=st.just(0.0) | st.floats(1e-9, 1e12)),
    hnp.arrays(np.float64, (len(FLOW), 3), elements=st.just(0.0) | st.floats(1e-9, 1e12)),
    st.sampled_from(["each", "pooled"]),
)
def test_any_stats_are_in_bounds(link, flows, view):
    critic = CriticObservation(3, view)
    numbers = critic.view(tuple(LINK), link[None], tuple(FLOW), flows, np.ones((3, 1)))
    assert critic.space.contains(numbers[0])
