# SPDX-License-Identifier: GPL-2.0-only
"""An agent that speaks as ns3-gym's own Ns3Env does: a REP socket that answers whatever comes, call by call."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import zmq
from samples import flat

from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.serving import as_json
from bbrgym.ns3gym.spaces import space_of, unpack


@dataclass
class State:
    """One state of a simulation."""

    observation: Any
    reward: float
    info: dict
    ending: str = ""

    def plain(self):
        return flat(self.observation), self.reward, self.info, self.ending


def container(kind, data):
    holder = pb.DataContainer(type=kind)
    holder.data.Pack(data)
    return holder


def packed(action):
    """Return an action's DataContainer as Ns3Env makes it: all floats as float32, the number of numbers as shape."""
    if isinstance(action, tuple):
        return container(3, pb.TupleDataContainer(element=[packed(one) for one in action]))
    if np.ndim(action) == 0:
        return container(1, pb.DiscreteDataContainer(data=action))
    dtype, field = {"i": (1, "intData"), "u": (2, "uintData"), "f": (3, "floatData")}[action.dtype.kind]
    return container(2, pb.BoxDataContainer(dtype=dtype, shape=[len(action)], **{field: action}))


class Client:
    """The agent of any number of episodes, which ends with the socket."""

    def __init__(self):
        self._context = zmq.Context()
        self._context.linger, self._context.rcvtimeo, self._context.sndtimeo = 0, 120_000, 120_000
        self._socket = self._context.socket(zmq.REP)
        self.port = self._socket.bind_to_random_port("tcp://127.0.0.1")

    def introduced(self, *, stop=False):
        """Answer a simulation's introduction."""
        init = pb.SimInitMsg.FromString(self._socket.recv())
        self.space = space_of(init.obsSpace)
        self._socket.send(pb.SimInitAck(done=True, stopSimReq=stop).SerializeToString())
        return init

    def state(self):
        message = pb.EnvStateMsg.FromString(self._socket.recv())
        ending = "" if not message.isGameOver else "terminated" if message.reason else "truncated"
        return State(unpack(self.space, message.obsData), message.reward, json.loads(message.info), ending)

    def answer(self, data=None):
        """Send an action's DataContainer; none stops the simulation."""
        self._socket.send(pb.EnvActMsg(actData=data, stopSimReq=data is None).SerializeToString())

    def episode(self, actions, stop_after=None):
        """Drive one episode with DataContainers in turn; return its states."""
        self.introduced()
        states = []
        while not states or (not states[-1].ending and len(states) - 1 != stop_after):
            if states:
                self.answer(actions[(len(states) - 1) % len(actions)])
            states.append(self.state())
        self.answer()
        return states

    def close(self):
        self._context.destroy(0)


def in_process(env, actions, seed):
    """Return the states of an episode without the protocol, rounded as it rounds."""
    observation, info = env.reset(seed=seed)
    states = [State(observation, 0.0, json.loads(as_json(info)))]
    while not states[-1].ending:
        observation, reward, terminated, truncated, info = env.step(actions[(len(states) - 1) % len(actions)])
        ending = "terminated" if terminated else "truncated" if truncated else ""
        states.append(State(observation, float(np.float32(reward)), json.loads(as_json(info)), ending))
    return states
