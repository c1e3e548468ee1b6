# SPDX-License-Identifier: GPL-2.0-only
"""Change detection."""

import itertools

import numpy as np
import pytest

from bbrgym.agents.portfolio.change import ChangeDetector, ChangeSettings
from bbrgym.agents.portfolio.policy import PortfolioTuner, ProbeRoutine, _Episode
from bbrgym.envs.observation import FEATURE_LISTS, FEATURES

NAMES = FEATURE_LISTS["memory"]
BW = next(feature for feature in FEATURES if feature.name == "bw")
WINDOW = 4  # intervals
FLOWS = 3


def view(*rates_mbps):
    """What is observed of flows with these bandwidth estimates, and of others that are absent."""
    each = np.zeros((FLOWS, len(NAMES)), np.float32)
    for flow, rate_mbps in enumerate(rates_mbps):
        each[flow, NAMES.index("bw")] = np.log(rate_mbps / BW.low) / np.log(BW.high / BW.low)
    return each.ravel()


def detector():
    return ChangeDetector(ChangeSettings(ratio=2.0, window_s=2.0), FLOWS, 0.5)


def first_change(rates_mbps):
    watching = detector()
    return next((turn for turn, rate in enumerate(rates_mbps) if watching.has_changed(view(rate))), None)


@pytest.mark.parametrize(
    ("after", "is_change"), [(10.0, False), (6.0, False), (18.0, False), (25.0, True), (4.0, True)]
)
def test_a_change_is_a_move_that_stays(after, is_change):
    turn = first_change([10.0] * 20 + [after] * 20)
    assert (turn is not None) == is_change
    if turn is not None:
        assert 20 <= turn < 20 + WINDOW


def test_a_spike_is_none():
    assert first_change([10.0] * 20 + [30.0] + [10.0] * 20) is None


def test_what_the_new_setting_does_itself_is_none():
    """The first window after a choice does not count: the flows find their new rates."""
    assert first_change([1.0] * WINDOW + [10.0] * 30) is None


def test_absent_flows_do_not_count():
    watching = detector()
    assert not any(watching.has_changed(view(8.0, 12.5)) for _ in range(20))
    assert not any(watching.has_changed(view(10.0)) for _ in range(20))
    assert any(watching.has_changed(view(30.0)) for _ in range(20))


def test_after_a_change_it_probes_again():
    held = [np.array([0.5], np.float32), np.array([-0.5], np.float32)]
    probe = np.zeros(1, np.float32)
    width = len(view(1.0))
    routine = ProbeRoutine(probe, 3, width, lambda: detector())
    histories = []

    def choose(history):
        histories.append(list(history))
        return held[len(histories) - 1]

    tuner = PortfolioTuner([_Episode(routine, [choose])])
    rates = [10.0] * 24 + [40.0] * 30
    actions = [float(tuner.act(view(rate)[None], np.array([turn == 0]))[0, 0]) for turn, rate in enumerate(rates)]
    kinds = [actions[0], *(b for a, b in itertools.pairwise(actions) if a != b)]
    assert kinds == [0.0, 0.5, 0.0, -0.5]
    assert [len(history) for history in histories] == [3, 3]
    assert actions.count(0.0) == 6
