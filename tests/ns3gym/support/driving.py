# SPDX-License-Identifier: GPL-2.0-only
"""Episodes as an agent sees them: over the protocol, and of the same environment in this process."""

import contextlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from samples import flat

from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.channel import AgentSocket, Watch
from bbrgym.ns3gym.errors import PeerGone
from bbrgym.ns3gym.serving import as_json
from bbrgym.ns3gym.spaces import pack, space_of, unpack


@dataclass
class State:
    """One state of a simulation."""

    observation: Any
    reward: float
    info: dict
    ending: str = ""

    def plain(self) -> tuple:
        return flat(self.observation), self.reward, self.info, self.ending


GONE = PeerGone("it ended")
Act = Callable[[State], Any]
"""Returns the next action after a state, or its DataContainer; None stops the simulation."""


def in_turn(actions: list, stop_after: int | None = None) -> Act:
    """Returns an Act with these actions in turn, which stops after some steps."""
    steps = iter(range(10**9))
    return lambda _: None if (step := next(steps)) == stop_after else actions[step % len(actions)]


def converse(agent: AgentSocket, act: Act, states: list[State], watch: Watch | None = None) -> pb.Message:
    """Drives one episode and appends its states; returns the SimInitMsg."""
    init = agent.await_simulation(watch)
    observation_space, action_space = space_of(init.obsSpace), space_of(init.actSpace)
    agent.acknowledge()
    while True:
        message = agent.receive_state(watch)
        observation = unpack(observation_space, message.obsData)
        ending = "" if not message.isGameOver else "terminated" if message.reason else "truncated"
        states.append(State(observation, message.reward, json.loads(message.info), ending))
        action = None if ending else act(states[-1])
        if action is None:
            agent.stop()
            return init
        agent.send_action(action if isinstance(action, pb.DataContainer) else pack(action_space, action))


def over_the_protocol(agent: AgentSocket, act: Act) -> list[State]:
    states: list[State] = []
    converse(agent, act, states)
    return states


def in_process(env: gymnasium.Env, act: Act, seed: int | None) -> list[State]:
    """The same without the protocol, rounded as it rounds."""
    observation, info = env.reset(seed=seed)
    states = [State(observation, 0.0, json.loads(as_json(info)))]
    while not states[-1].ending:
        observation, reward, terminated, truncated, info = env.step(act(states[-1]))
        ending = "terminated" if terminated else "truncated" if truncated else ""
        states.append(State(observation, float(np.float32(reward)), json.loads(as_json(info)), ending))
    return states


def drive(words: list[str], act: Act, timeout_s: float = 120.0) -> tuple[list[State], subprocess.CompletedProcess[str]]:
    """Runs a program to its end: its states, and how it ended."""
    states: list[State] = []
    with AgentSocket(timeout_s=timeout_s) as agent:
        words = [*words, f"--openGymPort={agent.port}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                with contextlib.suppress(PeerGone):
                    init = converse(agent, act, states, lambda: None if process.poll() is None else GONE)
                    assert init.simProcessId == process.pid
                out, err = process.communicate(timeout=timeout_s)
            finally:
                process.kill()
    return states, subprocess.CompletedProcess(words, process.returncode, out, err)
