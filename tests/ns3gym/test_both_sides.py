# SPDX-License-Identifier: GPL-2.0-only
"""A served world, driven by bbrgym/Ns3Gym-v0."""

import json
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from owners import free_port
from plain_envs import PLAIN

from bbrgym.envs.tune_env import TuneEnv
from bbrgym.ns3gym.serving import as_json, serve

SERVED = str(Path(__file__).with_name("support") / "served.py")
EPISODES = 2


def episodes(env, seed, actions):
    """Observations, rewards as the protocol rounds them, and infos as it carries them."""
    seen = []
    for episode in range(EPISODES):
        observation, info = env.reset(seed=seed if episode == 0 else None)
        seen.append((observation, 0.0, False, info))
        truncated = False
        while not truncated:
            observation, reward, terminated, truncated, info = env.step(actions[len(seen) % len(actions)])
            assert not terminated
            seen.append((observation, float(np.float32(reward)), truncated, info))
    return seen


def as_bytes(observation):
    parts = observation if isinstance(observation, dict) else {"": observation}
    return {name: (part.dtype, part.shape, part.tobytes()) for name, part in parts.items()}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"critic": True, "frame_stack": 2},
        {"tunables": ["bbq_beta", "bbr_cwnd_gain"], "levels": 5, "flat": True},
        {"levels": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("world", ["twin", "ns3"])
def test_it_is_the_world_itself_bit_for_bit(short_scenario, world, options):
    options = {
        "world": world,
        "scenario": short_scenario,
        "isolation": "process" if world == "ns3" else None,
        **options,
    }
    with closing(TuneEnv(**{**PLAIN, **options})) as env:
        env.action_space.seed(3)
        actions = [env.action_space.sample() for _ in range(7)]
        itself = episodes(env, 5, actions)
    port = free_port()
    with ThreadPoolExecutor() as elsewhere, closing(TuneEnv(**{**PLAIN, **options})) as env:
        service = elsewhere.submit(serve, env, port, episodes=EPISODES, seed=5)
        with closing(gymnasium.make("bbrgym/Ns3Gym-v0", port=port).unwrapped) as driven:
            if isinstance(driven.action_space, spaces.Tuple):  # what the protocol has for MultiDiscrete
                actions = [tuple(action.tolist()) for action in actions]
            over_the_protocol = episodes(driven, None, actions)
        service.result(120.0)
    assert len(itself) == len(over_the_protocol) > 2 * EPISODES
    for one, other in zip(itself, over_the_protocol, strict=True):
        assert as_bytes(one[0]) == as_bytes(other[0])
        assert one[1:3] == other[1:3]
        assert json.loads(as_json(one[3])) == other[3]


@pytest.fixture
def short_scenario():
    return {
        "name": "short",
        "duration_s": 1.0,
        "link": {"rate_mbps": 8.0, "queue": {"size_bdp": 0.5}, "loss": {"kind": "bernoulli", "rate": 0.005}},
        "flows": [
            {"name": "near", "cc": "bbr", "role": "tuned", "rtt_ms": 20.0},
            {"name": "far", "cc": "bbr", "role": "tuned", "rtt_ms": 60.0, "start_s": 0.3},
        ],
    }


def test_the_checker_has_no_complaint():
    with (
        closing(gymnasium.make("bbrgym/Ns3Gym-v0", command=[sys.executable, SERVED])) as env,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        check_env(env.unwrapped)
