# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bbrgym.envs.critic import BASE_RTT, FLOW_FEATURES, LINK_FEATURES, CriticObservation
from bbrgym.worlds.fields import FLOW_FIELDS, LINK_FIELDS

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


def test_features_are_declared_soundly():
    for features, fields in ((LINK_FEATURES, LINK), (FLOW_FEATURES, FLOW | {BASE_RTT: ("ms", "omniscient")})):
        assert len({feature.name for feature in features}) == len(features)
        for feature in features:
            unit, visibility = fields[feature.field]
            assert feature.unit == (unit if feature.per is None else "ratio")
            assert feature.per is None or fields[feature.per][0] == unit
            assert "omniscient" in (visibility, fields[feature.per or feature.field][1]), "a sender knows it"


def test_values():
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
