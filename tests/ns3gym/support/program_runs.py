# SPDX-License-Identifier: GPL-2.0-only
"""The programs of ns3-scratch/ that speak ns3-gym's protocol, and one run of them."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bbrgym.ns3gym.channel import AgentSocket
from bbrgym.ns3gym.data import pack, unpack
from bbrgym.ns3gym.errors import PeerGone
from bbrgym.ns3gym.messages import Message
from bbrgym.ns3gym.spaces import space_of


@dataclass
class State:
    """One state of a simulation."""

    observation: dict[str, np.ndarray]
    reward: float
    info: dict
    is_over: bool


Act = Callable[[State], dict | Message | None]
"""The next action after a state; None stops the simulation."""


def drive(words: list[str], act: Act, timeout_s: float = 120.0) -> tuple[list[State], subprocess.CompletedProcess[str]]:
    """Runs a program to its end: its states, and how it ended."""
    states: list[State] = []
    with AgentSocket(timeout_s=timeout_s) as agent:
        process = subprocess.Popen(
            [*words, f"--openGymPort={agent.port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

        def ended() -> Exception | None:
            return PeerGone("it ended") if process.poll() is not None else None

        try:
            init = agent.await_simulation(ended)
            assert init.simProcessId == process.pid
            observation_space, action_space = space_of(init.obsSpace), space_of(init.actSpace)
            agent.acknowledge()
            while True:
                message = agent.receive_state(ended)
                observation = unpack(observation_space, message.obsData)
                states.append(State(observation, message.reward, json.loads(message.info), message.isGameOver))
                action = None if message.isGameOver else act(states[-1])
                if action is None:
                    agent.stop()
                    break
                agent.send_action(pack(action_space, action) if isinstance(action, dict) else action)
        except PeerGone:
            pass
        try:
            out, err = process.communicate(timeout=timeout_s)
        finally:
            process.kill()
    return states, subprocess.CompletedProcess(words, process.returncode, out, err)
