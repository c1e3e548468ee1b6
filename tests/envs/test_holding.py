# SPDX-License-Identifier: GPL-2.0-only
"""Actions held for several control intervals: the same intervals, fewer decisions."""

from typing import Any

import numpy as np
import plain_envs
import pytest
from vectors import assert_same, crowd, scenario

from bbrgym.agents.base import Constant
from bbrgym.agents.rollout import make_rollout
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions
from bbrgym.envs.options import Options

COMMON: dict[str, Any] = {"world": "twin", "variant": "bbr-mix", "control_interval_s": 0.1}


def one(**options: Any) -> Any:
    """A single environment."""
    return plain_envs.make("bbrgym/Tune-v2", **{**COMMON, "scenario": scenario(0.9), **options}).unwrapped


@pytest.mark.parametrize(
    "options",
    [
        {"features": "memory", "frame_stack": 2},
        {"view": "pooled", "reward_horizon_s": 0.4, "reward": {"throughput": 1.0, "delay": 0.5, "change": 0.1}},
        {
            "action_kind": "library",
            "library": {"variant": "bbr-mix", "settings": {"a": {"bbr_cwnd_gain": 1.2}, "b": {}}},
        },
    ],
    ids=["memory", "smoothed", "library"],
)
def test_a_step_is_the_intervals_of_an_action_that_is_repeated(options: dict[str, Any]) -> None:
    held, repeated = one(hold_intervals=3, **options), one(**options)
    assert_same(held.reset(seed=2)[0], repeated.reset(seed=2)[0])
    held.action_space.seed(2)
    for step in range(3):
        action = held.action_space.sample()
        observation, reward, _, truncated, info = held.step(action)
        parts = [repeated.step(action) for _ in range(3)]
        assert_same(observation, parts[-1][0])
        assert truncated == parts[-1][3] == (step == 2)
        assert info["now_s"] == parts[-1][4]["now_s"]
        assert reward == pytest.approx(np.mean([part[1] for part in parts]), rel=1e-12)
        for name, value in info["reward_terms"].items():
            assert value == pytest.approx(np.mean([part[4]["reward_terms"][name] for part in parts]), rel=1e-12)
    held.close()
    repeated.close()


def test_a_relative_action_moves_once_a_step() -> None:
    env = one(hold_intervals=3, action_kind="relative", tunables=["bbr_cwnd_gain"], features=["active"], step_size=0.1)
    before = env.reset(seed=1)[0][-1]
    after = env.step(np.ones(1, np.float32))[0][-1]
    assert after - before == pytest.approx(0.05, abs=1e-6)
    env.close()


@pytest.mark.parametrize("scope", ["team", "own"])
def test_flows_hold_their_own_actions_and_join_between_steps(scope: Any) -> None:
    options = {
        **COMMON,
        "scenario": crowd(3, 0.6),
        "reward_scope": scope,
        "features": ["active"],
        "tunables": ["bbr_cwnd_gain"],
    }
    held = FlowBatch(1, FlowOptions(**options, hold_intervals=2), runs_to_the_end=True)
    held.reset([0], [1])
    acted = [held.will_act[0].tolist()]
    rewards = []
    while not held.episodes.has_ended[0]:
        held.simulate(np.zeros((1, 3, 1), np.float32))
        acted.append(held.will_act[0].tolist())
        rewards.append(held.reward(held.reward_terms())[0])
    # The third flow runs from 0.15 s to 0.35 s.
    assert acted == [[True, True, True], [True, True, True], [True, True, False], [False] * 3]
    assert all(np.isfinite(one).all() for one in rewards)
    held.episodes.close()


def test_a_rollout_shows_every_interval_and_asks_at_the_beginning_of_a_step() -> None:
    class Counting(Constant):
        asked = 0

        def act(self, observations: Any, episode_starts: Any) -> Any:
            type(self).asked += 1
            return super().act(observations, episode_starts)

    options = Options(**COMMON, scenario=scenario(0.9), hold_intervals=3, tunables=["bbr_cwnd_gain"])
    agent = Counting("counting", np.zeros(1, np.float32))
    for episodes in ([1], [1, 2]):
        rollout = make_rollout(options, episodes)
        for _ in range(2):  # the second time it begins behind an episode that has ended
            Counting.asked, times = 0, []
            rollout.begin(agent.make_policy)
            while not rollout.worlds.done.all():
                rollout.advance()
                times.append(round(float(rollout.worlds.now_s[0]), 6))
            assert times == [round(0.1 * (i + 1), 6) for i in range(9)]
            assert Counting.asked == 3
        rollout.close()


def test_an_episode_that_ends_within_a_step_is_followed_by_an_action() -> None:
    options = Options(**COMMON, scenario=scenario(0.5), hold_intervals=3, tunables=["bbr_cwnd_gain"])
    rollout = make_rollout(options, [1])
    seen = []
    for _ in range(2):
        rollout.begin(Constant("constant", np.full(1, 0.5, np.float32)).make_policy)
        while not rollout.worlds.done.all():
            rollout.advance()
        seen.append(rollout.worlds.flow_stats.tobytes())
    assert seen[0] == seen[1]
    rollout.close()
