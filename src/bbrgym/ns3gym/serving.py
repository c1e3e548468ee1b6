# SPDX-License-Identifier: GPL-2.0-only
"""Serve any Gymnasium environment as an ns3-gym simulation.

The protocol carries the reward as float32, and the info as text, here JSON.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from pydantic_core import to_json

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.channel import SimulationSocket
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.messages import Message, Reason
from bbrgym.ns3gym.spaces import describe, pack, unpack
from bbrgym.schema import shown

Ending = Literal["truncated", "terminated", "stopped"]


@dataclass(frozen=True)
class Episode:
    """An episode that was served."""

    number: int  # from 1
    seed: Any  # the info's `seed`; None if the info has none
    steps: int  # number of steps
    total_reward: float  # sum of the rewards
    ending: Ending  # `terminated` or `truncated` by the environment, or `stopped` by the agent


def serve(
    env: gymnasium.Env[Any, Any],
    port: int = 5555,
    *,
    host: str = "127.0.0.1",
    episodes: int = 1,
    seed: int | None = None,
    timeout_s: float = 60.0,
    on_episode: Callable[[Episode], None] | None = None,
) -> None:
    """Let an agent drive an environment.

    It connects to the agent, again for each episode, and binds nothing. The first episode has the seed; the environment
    draws the others from it. An agent that refuses a simulation at its introduction ends the service.

    Args:
        env: environment to serve; it stays open.
        port: of the agent, which may start to listen later.
        host: of the agent.
        episodes: number of episodes to serve.
        seed: of the first episode. Default: drawn by the environment.
        timeout_s: longest wait for the agent, and then for each of its answers, in seconds.
        on_episode: called with each episode at its end.

    Raises:
        ConfigError: the protocol cannot carry the environment's spaces, or an argument is wrong.
        ProtocolTimeout: no agent, or no answer, arrived in time.
        PeerGone: the agent closed the connection within an episode.
        ProtocolError: the agent's message is not an answer, or its action lies outside the space.
    """
    if not isinstance(episodes, int) or isinstance(episodes, bool) or episodes < 1:
        raise ConfigError(f"episodes: {episodes!r}, allowed are whole numbers from 1")
    spaces = {
        "obsSpace": describe(env.observation_space, "observation space"),
        "actSpace": describe(env.action_space, "action space"),
    }
    for number in range(1, episodes + 1):
        observation, info = env.reset(seed=seed if number == 1 else None)
        # ns3-gym's agent kills the process that is announced at the simulation's end: 0 before the last one. It kills
        # the shell's too, which is never announced: it is the user's.
        init = pb.SimInitMsg(simProcessId=os.getpid() if number == episodes else 0, **spaces)
        with SimulationSocket(port, host=host, timeout_s=timeout_s) as simulation:
            if simulation.introduce(init).stopSimReq:
                return
            episode = _play(env, simulation, number, observation, info)
        if on_episode is not None:
            on_episode(episode)


def _play(
    env: gymnasium.Env[Any, Any], simulation: SimulationSocket, number: int, observation: Any, info: Mapping[str, Any]
) -> Episode:
    """Serve one episode, from the state before any action."""
    seed, steps, total_reward, reward = info.get("seed"), 0, 0.0, 0.0
    is_terminated = is_truncated = False
    while True:
        state = pb.EnvStateMsg(
            obsData=pack(env.observation_space, observation, "observation"),
            reward=reward,
            isGameOver=is_terminated or is_truncated,
            reason=Reason.GameOver if is_terminated else Reason.SimulationEnd,
            info=as_json(info),
        )
        answer = simulation.exchange(state)
        if is_terminated or is_truncated:  # this answer has no meaning
            return Episode(number, seed, steps, total_reward, "terminated" if is_terminated else "truncated")
        if answer.stopSimReq:
            return Episode(number, seed, steps, total_reward, "stopped")
        action = _action(env, answer)
        observation, given, is_terminated, is_truncated, info = env.step(action)
        steps, reward = steps + 1, float(given)
        total_reward += reward


def _action(env: gymnasium.Env[Any, Any], answer: Message) -> Any:
    action = unpack(env.action_space, answer.actData, "the agent's action")
    if not env.action_space.contains(action):
        raise ProtocolError(f"the agent's action: is {shown(action)}, outside of {env.action_space}")
    return action


def as_json(info: Mapping[str, Any]) -> str:
    """Return an info as JSON, without arrays; null for NaN, infinities and objects."""
    plain = {key: value for key, value in info.items() if not isinstance(value, np.ndarray)}
    return to_json(plain, inf_nan_mode="null", fallback=_as_plain).decode()


def _as_plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else None
