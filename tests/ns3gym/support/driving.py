# SPDX-License-Identifier: GPL-2.0-only
"""Episodes as an agent sees them: over the protocol, and of the same environment in this process."""

import json
from dataclasses import dataclass, field

import gymnasium
import numpy as np
from samples import flat

from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.channel import AgentSocket
from bbrgym.ns3gym.data import pack, unpack
from bbrgym.ns3gym.serving import as_json
from bbrgym.ns3gym.spaces import describe, space_of


@dataclass
class Seen:
    """All of an episode."""

    observations: list = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    infos: list[dict] = field(default_factory=list)
    ending: str = ""


def over_the_protocol(agent: AgentSocket, space: gymnasium.Space, actions: list, stop_after: int | None = None) -> Seen:
    """Drives one episode with these actions of a space in turn; stops it after some steps."""
    init = agent.await_simulation()
    observation_space = space_of(init.obsSpace)
    assert init.actSpace == describe(space)
    agent.acknowledge()
    seen = Seen()
    while True:
        state = agent.receive_state()
        observation = unpack(observation_space, state.obsData)
        assert observation_space.contains(observation)
        seen.observations.append(flat(observation))
        seen.rewards.append(state.reward)
        seen.infos.append(json.loads(state.info))
        if state.isGameOver:
            seen.ending = "terminated" if state.reason == pb.Reason.GameOver else "truncated"
            agent.stop()
            return seen
        if stop_after == len(seen.rewards) - 1:
            seen.ending = "stopped"
            agent.stop()
            return seen
        action = actions[(len(seen.rewards) - 1) % len(actions)]
        agent.send_action(pack(space, action))


def in_process(env: gymnasium.Env, actions: list, seed: int | None) -> Seen:
    """The same without the protocol, rounded as it rounds."""
    observation, info = env.reset(seed=seed)
    seen = Seen([flat(observation)], [0.0], [json.loads(as_json(info))])
    while not seen.ending:
        action = actions[(len(seen.rewards) - 1) % len(actions)]
        observation, reward, terminated, truncated, info = env.step(action)
        seen.observations.append(flat(observation))
        seen.rewards.append(float(np.float32(reward)))
        seen.infos.append(json.loads(as_json(info)))
        seen.ending = "terminated" if terminated else "truncated" if truncated else ""
    return seen
