# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bbrgym
from bbrgym import _ns3
from bbrgym.envs.observation import FEATURES, SenderObservation

FIELDS = {name: (unit, visibility) for name, unit, visibility, _ in _ns3.flow_fields()}
NAMES = tuple(FIELDS)


def stats_of(**values):
    """One flow's stats; what is not named is 0."""
    return np.array([[values.get(name, 0.0) for name in NAMES]])


def view(features, stack=1, flows=1, **values):
    """The observation of one flow at its beginning, without a setting."""
    observation = SenderObservation(flows, 0, features, stack)
    return observation.reset(NAMES, stats_of(**values), np.zeros(0, np.float32)).tolist()


def test_features_are_declared_soundly():
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)
    for feature in FEATURES:
        unit, visibility = FIELDS[feature.field]
        assert visibility == "sender"
        assert feature.unit == (unit if feature.per is None else "ratio")
        if feature.per is not None:
            assert FIELDS[feature.per] == (unit, "sender")
            assert feature.scale == "log" or feature.low == 0, "what is not known yet must give 0"
        assert feature.low <= feature.high if feature.scale == "within" else feature.low < feature.high
        assert feature.scale != "log" or feature.low > 0


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


@given(hnp.arrays(np.float64, (3, len(NAMES)), elements=st.just(0.0) | st.floats(1e-9, 1e12)), st.integers(1, 3))
def test_any_stats_give_an_observation_in_bounds(stats, stack):
    observation = SenderObservation(3, 2, stack=stack)
    setting = np.array([-1.0, 1.0], np.float32)
    for seen in (observation.reset(NAMES, stats, setting), observation.step(stats, setting)):
        assert observation.space.contains(seen)


def test_flows_stand_side_by_side_and_then_the_setting():
    observation = SenderObservation(2, 1, ["active", "lost"])
    stats = np.concatenate([stats_of(active=1), stats_of(lost_pkts=1, sent_pkts=2)])
    assert observation.reset(NAMES, stats, np.array([0.5], np.float32)).tolist() == [1, 0, 0, 0.5, 0.75]


def test_the_newest_interval_is_last():
    observation = SenderObservation(1, 1, ["lost"], stack=3)
    setting = np.array([-1.0], np.float32)

    def lost(packets):
        return stats_of(lost_pkts=packets, sent_pkts=100)

    assert observation.reset(NAMES, lost(0), setting).tolist() == [0, 0, 0, 0, 0, 0]
    first = observation.step(lost(25), setting)
    assert first.tolist() == [0, 0, 0, 0, 0.25, 0]
    assert observation.step(lost(50), -setting).tolist() == [0, 0, 0.25, 0, 0.5, 1]
    assert first.tolist() == [0, 0, 0, 0, 0.25, 0], "an observation is the caller's"
    assert observation.reset(NAMES, lost(100), setting).tolist() == [1, 0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"features": ["cwmd"]}, "features: 'cwmd': did you mean cwnd"),
        ({"features": ["queue_delay_mean_ms"]}, "features: 'queue_delay_mean_ms'"),
        ({"features": ["cwnd", "cwnd"]}, "without repetition"),
        ({"stack": 0}, "stack: 0, allowed is a whole number of intervals from 1"),
        ({"stack": 1.5}, "stack: 1.5"),
    ],
)
def test_wrong_choices(options, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        SenderObservation(1, 1, **options)
