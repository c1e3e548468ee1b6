# SPDX-License-Identifier: GPL-2.0-only
"""A served world, driven by bbrgym/Ns3Gym-v0, is the world itself bit for bit."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from owners import free_port
from plain_envs import PLAIN

from bbrgym.envs.tune_env import TuneEnv
from bbrgym.ns3gym.serving import as_json, serve

EPISODES = 2
SCENARIO = {
    "name": "short",
    "duration_s": 1.0,
    "link": {"rate_mbps": 8.0, "queue": {"size_bdp": 0.5}, "loss": {"kind": "bernoulli", "rate": 0.005}},
    "flows": [
        {"name": "near", "cc": "bbr", "role": "tuned", "rtt_ms": 20.0},
        {"name": "far", "cc": "bbr", "role": "tuned", "rtt_ms": 60.0, "start_s": 0.3},
    ],
}


def episodes(env, seed, actions):
    """Observations, rewards as the protocol rounds them, and infos as it carries them."""
    seen = []
    for episode in range(EPISODES):
        observation, info = env.reset(seed=seed if episode == 0 else None)
        seen.append((as_bytes(observation), 0.0, False, json.loads(as_json(info))))
        truncated = False
        while not truncated:
            observation, reward, terminated, truncated, info = env.step(actions[len(seen) % len(actions)])
            assert not terminated
            seen.append((as_bytes(observation), float(np.float32(reward)), truncated, json.loads(as_json(info))))
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
@pytest.mark.parametrize("world", ["twin", pytest.param("ns3", marks=pytest.mark.slow)])
def test_it_is_the_world_itself_bit_for_bit(world, options):
    isolation = "process" if world == "ns3" else None
    options = {**PLAIN, "world": world, "scenario": SCENARIO, "isolation": isolation, **options}
    with closing(TuneEnv(**options)) as env:
        env.action_space.seed(3)
        actions = [env.action_space.sample() for _ in range(7)]
        itself = episodes(env, 5, actions)
    port = free_port()
    with ThreadPoolExecutor() as elsewhere, closing(TuneEnv(**options)) as env:
        service = elsewhere.submit(serve, env, port, episodes=EPISODES, seed=5)
        with closing(gymnasium.make("bbrgym/Ns3Gym-v0", port=port).unwrapped) as driven:
            if isinstance(driven.action_space, spaces.Tuple):  # what the protocol has for MultiDiscrete
                actions = [tuple(action.tolist()) for action in actions]
            over_the_protocol = episodes(driven, None, actions)
        service.result(120.0)
    assert len(itself) > 2 * EPISODES
    assert over_the_protocol == itself
