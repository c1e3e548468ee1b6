# SPDX-License-Identifier: GPL-2.0-only
"""A served environment is the environment, and whatever the agent says, the service ends in words."""

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
import zmq
from driving import in_process, in_turn, over_the_protocol
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import SPACES, any_messages, mutations

import bbrgym.envs  # noqa: F401 - registers the environments
from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.channel import MAX_MESSAGE_BYTES, AgentSocket
from bbrgym.ns3gym.errors import ProtocolError, ProtocolTimeout
from bbrgym.ns3gym.serving import as_json, serve
from bbrgym.ns3gym.spaces import pack

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Samples(gymnasium.Env):
    """Shows what its generator draws, and notes what was done."""

    def __init__(self, space: spaces.Space = BOX, steps: int = 3, *, terminates: bool = False) -> None:
        self.observation_space = self.action_space = space
        self._steps, self._terminates = steps, terminates
        self.done: list[object] = []
        self.seeds: list[int | None] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self._left = self._steps
        return self._observation(), {"seed": seed}

    def step(self, action):
        self.done.append(action)
        self._left -= 1
        is_over = self._left == 0
        reward = float(self.np_random.normal())
        return self._observation(), reward, is_over and self._terminates, is_over and not self._terminates, {}

    def _observation(self):
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


# ---- the same environment -------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(space=SPACES, seed=st.integers(0, 2**31), terminates=st.booleans())
def test_any_environment_is_served(
    space: spaces.Space, seed: int, terminates: bool, agent: AgentSocket, elsewhere: ThreadPoolExecutor
) -> None:
    served, env = (Samples(space, terminates=terminates) for _ in range(2))
    space.seed(seed)
    actions = [space.sample() for _ in range(3)]
    service = elsewhere.submit(serve, served, agent.port, seed=seed)
    seen = over_the_protocol(agent, in_turn([pack(space, action) for action in actions]))
    service.result(120.0)
    there = in_process(env, in_turn(actions), seed)
    assert [state.plain() for state in seen] == [state.plain() for state in there]
    assert seen[-1].ending == ("terminated" if terminates else "truncated")
    assert all(space.contains(action) for action in served.done)


def test_an_agent_may_stop_at_any_time(agent: AgentSocket, elsewhere: ThreadPoolExecutor) -> None:
    """Only a process that ends with its simulation is named: ns3-gym's agent kills those that are named to it."""
    env, episodes = Samples(steps=4), []
    service = elsewhere.submit(serve, env, agent.port, episodes=6, seed=1, on_episode=episodes.append)
    for stop_after in (0, 2, 4, None):
        over_the_protocol(agent, in_turn([np.zeros(2)], stop_after))
    init = agent.await_simulation()
    assert (init.simProcessId, init.wafShellProcessId) == (0, 0)
    agent.stop()  # as it introduces itself: that ends the service
    service.result(120.0)
    assert [(one.number, one.steps, one.ending) for one in episodes] == [
        (1, 0, "stopped"),
        (2, 2, "stopped"),
        (3, 4, "truncated"),
        (4, 4, "truncated"),
    ]
    assert env.seeds == [1, None, None, None, None]
    service = elsewhere.submit(serve, env, agent.port)
    assert agent.await_simulation().simProcessId == os.getpid()
    agent.stop()
    service.result(120.0)


def test_the_info_is_json() -> None:
    info = {
        "seed": np.int64(3),
        "now_s": np.float64(0.1),
        "left": np.float32("nan"),
        "most": float("inf"),
        "name": "ä\n",
        "terms": {"delay": np.float32(0.5), "shape": np.arange(3)},
        "object": threading.Lock(),
        "stats": np.zeros((2, 2)),
    }
    assert json.loads(as_json(info)) == {
        **dict.fromkeys(("left", "most", "object")),
        **{key: info[key] for key in ("seed", "now_s", "name")},
        "terms": {"delay": 0.5, "shape": [0, 1, 2]},
    }


# ---- what cannot be -------------------------------------------------------------------------------------------------


def test_an_environment_that_cannot_be_carried_is_refused_before_it_begins() -> None:
    env = Samples()
    env.observation_space = spaces.Text(3)
    with pytest.raises(ConfigError, match="observation space: is a Text"):
        serve(env, 5555)
    for episodes in (0, True, 1.5):
        with pytest.raises(ConfigError, match=r"episodes: .* allowed are whole numbers from 1"):
            serve(Samples(), 5555, episodes=episodes)  # type: ignore[arg-type]
    assert env.seeds == []


def test_without_an_agent_it_ends() -> None:
    with AgentSocket() as agent:
        port = agent.port
    with pytest.raises(ProtocolTimeout, match=rf"no SimInitAck from the agent at 127.0.0.1:{port} within 0.1 s"):
        serve(Samples(), port, timeout_s=0.1)


# ---- an agent that says anything ------------------------------------------------------------------------------------


ACK = pb.SimInitAck(done=True).SerializeToString()
ACTION, OUTSIDE = (
    pb.EnvActMsg(actData=pack(BOX, np.float32(numbers))).SerializeToString() for numbers in ([0, 0], [0, 1.5])
)
STOP = pb.EnvActMsg(stopSimReq=True).SerializeToString()


@pytest.fixture(scope="module")
def listener() -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger, socket.rcvtimeo = 0, 120_000
        socket.bind("tcp://127.0.0.1:*")
        yield socket


def served_to(socket, elsewhere: ThreadPoolExecutor, answers: list[bytes]) -> tuple[Samples, Future]:
    """Serves an environment to one who gives these answers, whatever was asked, and then says stop."""
    env = Samples()
    port = int(socket.last_endpoint.decode().rstrip("\0").rpartition(":")[2])
    service = elsewhere.submit(serve, env, port, timeout_s=120.0)
    for answer in [*answers, STOP]:
        while not service.done() and not socket.poll(20):
            pass
        if service.done():
            break
        peer, _, _ = socket.recv_multipart()
        socket.send_multipart([peer, b"", answer])
    return env, service


@settings(max_examples=150)
@given(data=st.data())
def test_whatever_the_agent_says_the_service_ends_in_words(
    data: st.DataObject, listener: zmq.Socket[bytes], elsewhere: ThreadPoolExecutor
) -> None:
    said = (
        st.sampled_from([ACK, ACTION, STOP, b""])
        | st.binary(max_size=60)
        | mutations(ACK)
        | mutations(ACTION)
        | any_messages(pb.EnvActMsg).map(lambda message: message.SerializeToString())
    )
    begins = data.draw(st.booleans())
    env, service = served_to(listener, elsewhere, [ACK, ACTION] * begins + data.draw(st.lists(said, max_size=4)))
    error = service.exception(120.0)
    assert error is None or isinstance(error, ProtocolError)
    assert all(env.action_space.contains(action) for action in env.done)
    assert len(env.done) >= begins


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([ACTION], "is not a valid SimInitAck: its field done is of another type"),
        ([ACK, ACK], "is not a valid EnvActMsg: its field actData is of another type"),
        ([ACK, b""], "the agent's action: has the type 0, expected 2"),
        ([ACK, ACTION[:-1]], "bytes cannot be read as EnvActMsg"),
        ([ACK, OUTSIDE], r"the agent's action: is array\(\[0. , 1.5\].*\), outside of Box"),
        ([ACK, b"\0" * (MAX_MESSAGE_BYTES + 1)], "closed the connection where its EnvActMsg was due"),
    ],
)
def test_a_wrong_answer_ends_the_service(
    answers: list[bytes], message: str, listener: zmq.Socket[bytes], elsewhere: ThreadPoolExecutor
) -> None:
    env, service = served_to(listener, elsewhere, answers)
    with pytest.raises(ProtocolError, match=message):
        service.result(120.0)
    assert env.done == []
