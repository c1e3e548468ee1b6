# SPDX-License-Identifier: GPL-2.0-only
"""Control intervals that last round trips of the slowest tuned flow."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from bbrgym.envs.flow_batch import FlowOptions
from bbrgym.envs.memory import FlowMemory, Remembered
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError
from bbrgym.worlds import VectorWorld

SRTT = VectorWorld.flow_fields.index("srtt_ms")


def scenario(rtt_ms: float) -> dict[str, Any]:
    link = {"rate_mbps": 10, "delay_ms": 5, "queue": {"size_bdp": 2}}
    flows = [{"name": "a", "rtt_ms": rtt_ms}, {"name": "b", "rtt_ms": 20}]
    return {"link": link, "flows": flows, "duration_s": 20}


def batch(*rtts_ms: float, **options: Any) -> TuneBatch:
    arguments = {"variant": "direct", "control_interval_rtts": 2.0, "features": "memory", "threads": 1, **options}
    return TuneBatch(len(rtts_ms), Options(world="twin", scenario=[scenario(each) for each in rtts_ms], **arguments))


def test_a_step_lasts_round_trips_as_measured_before_and_first_of_propagation() -> None:
    envs = batch(50.0, 100.0)
    envs.reset([0, 1], [1, 2])
    expected_s = np.array([0.1, 0.2])
    for _ in range(12):
        worlds = envs.episodes.open_worlds()
        before_s = worlds.now_s.copy()
        envs.simulate(np.zeros((2, 5), np.float32))
        np.testing.assert_allclose(worlds.now_s - before_s, expected_s, atol=2e-9)
        expected_s = 2.0 * worlds.flow_stats[:, :2, SRTT].max(axis=1) / 1e3
    assert expected_s[0] != expected_s[1] != 0.2


@pytest.mark.parametrize("hold_intervals", [1, 3])
def test_each_environment_is_as_if_alone_and_continues_from_a_snapshot(hold_intervals: int) -> None:
    draw = np.random.default_rng(3)
    both, alone, other = (batch(*rtts, hold_intervals=hold_intervals) for rtts in ((50, 100), (100,), (100,)))
    first, second = both.reset([0, 1], [1, 2])[1], alone.reset([0], [2])[0]
    other.reset([0], [7])
    for step in range(6):
        np.testing.assert_array_equal(first, second)
        action = draw.uniform(-1, 1, (2, 5)).astype(np.float32)
        if step == 3:
            other.restore(0, alone.save(0))
        for envs, actions in ((both, action), (alone, action[1:]), (other, action[1:])):
            envs.simulate(actions)
        first, second = both.observe()[1], alone.observe()[0]
        assert both.reward(both.reward_terms())[1] == alone.reward(alone.reward_terms())[0]
        if step >= 3:
            np.testing.assert_array_equal(other.observe()[0], second)
            assert other.reward(other.reward_terms())[0] == alone.reward(alone.reward_terms())[0]


def test_the_vector_environment_takes_it() -> None:
    options = {"world": "twin", "scenario": scenario(50), "variant": "cubic-scaled", "control_interval_rtts": 1}
    envs = gymnasium.make_vec("bbrgym/Tune-v2", 2, **options)
    envs.reset(seed=1)
    assert envs.step(np.zeros((2, 1), np.float32))[4]["now_s"] == pytest.approx(0.05)
    envs.close()


def test_time_constants_hold_whatever_the_intervals_are() -> None:
    terms = [Remembered("ewma", "goodput_mbps"), Remembered("seconds", "goodput_mbps")]
    fields = ("active", "rtt_mean_ms", "goodput_mbps")
    stats = np.array([[1.0, 1.0], [30.0, 30.0], [5.0, 5.0]])
    fixed, varied = (FlowMemory(terms, fields, 0.1, (1, 2)) for _ in range(2))
    for length_s in (0.1, 0.3):
        varied.set_interval(np.array([length_s, 0.1]))
        fixed.add(stats)
        varied.add(stats)
        stats[2] += 1.0
    seconds = varied.extend(stats)[4]
    np.testing.assert_allclose(seconds, [0.4, 0.2])
    weighted = (5.0 * np.exp(-0.3 / 5.0) + 6.0) / (1.0 + np.exp(-0.3 / 5.0))
    np.testing.assert_allclose(varied.extend(stats)[3], [weighted, fixed.extend(stats)[3, 0]])


def test_what_it_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="allowed is None where each flow has an agent"):
        FlowOptions(control_interval_rtts=1.0)
    for wrong in (0.0, float("inf")):
        with pytest.raises(ConfigError, match="allowed is a finite number above 0, or None"):
            Options(control_interval_rtts=wrong)
