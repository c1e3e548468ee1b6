# SPDX-License-Identifier: GPL-2.0-only
"""A served environment is the environment, to an agent as ns3-gym's own, and the service ends in words."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import gymnasium
import numpy as np
import plain_envs
import pytest
import zmq
from client import Client, in_process, packed
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import SPACES, messages, mutations

import bbrgym
from bbrgym.cli.main import main
from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.channel import MAX_MESSAGE_BYTES
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


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_any_environment_is_served(space: spaces.Space, client: Client, elsewhere: ThreadPoolExecutor) -> None:
    seed, terminates = 7, isinstance(space, spaces.Box)
    served, env = (Samples(space, terminates=terminates) for _ in range(2))
    space.seed(seed)
    actions = [space.sample() for _ in range(3)]
    service = elsewhere.submit(serve, served, client.port, seed=seed)
    seen = client.episode([pack(space, action) for action in actions])
    service.result(120.0)
    assert [state.plain() for state in seen] == [state.plain() for state in in_process(env, actions, seed)]
    assert seen[-1].ending == ("terminated" if terminates else "truncated")
    assert all(space.contains(action) for action in served.done)


def test_an_agent_may_stop_at_any_time(client: Client, elsewhere: ThreadPoolExecutor) -> None:
    """Only a process that ends with its simulation is named: ns3-gym's agent kills those that are named to it."""
    env, episodes, still = Samples(steps=4), [], [packed(np.zeros(2))]
    service = elsewhere.submit(serve, env, client.port, episodes=6, seed=1, on_episode=episodes.append)
    for stop_after in (0, 2, 4, None):
        client.episode(still, stop_after)
    init = client.introduced(stop=True)  # as it introduces itself: that ends the service
    assert (init.simProcessId, init.wafShellProcessId) == (0, 0)
    service.result(120.0)
    endings = [(1, 0, "stopped"), (2, 2, "stopped"), (3, 4, "truncated"), (4, 4, "truncated")]
    assert [(one.number, one.steps, one.ending) for one in episodes] == endings
    assert env.seeds == [1, None, None, None, None]
    service = elsewhere.submit(serve, env, client.port)
    assert client.introduced(stop=True).simProcessId == os.getpid()
    service.result(120.0)


def test_the_info_is_json() -> None:
    info = {"seed": np.int64(3), "left": np.float32("nan"), "most": float("inf"), "name": "ä\n", "stats": np.zeros(2)}
    info |= {"terms": {"delay": np.float32(0.5), "shape": np.arange(3)}, "object": threading.Lock()}
    plain = {"seed": 3, "left": None, "most": None, "name": "ä\n", "object": None}
    assert json.loads(as_json(info)) == {**plain, "terms": {"delay": 0.5, "shape": [0, 1, 2]}}


def test_an_environment_that_cannot_be_carried_is_refused_before_it_begins() -> None:
    env = Samples()
    env.observation_space = spaces.Text(3)
    with pytest.raises(ConfigError, match="observation space: is a Text"):
        serve(env, 5555)
    for episodes in (0, True, 1.5):
        with pytest.raises(ConfigError, match=r"episodes: .* allowed are whole numbers from 1"):
            serve(Samples(), 5555, episodes=episodes)  # type: ignore[arg-type]
    assert env.seeds == []


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
    """Serve an environment to one who gives these answers, whatever was asked, and then says stop."""
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
    said = st.sampled_from([ACK, ACTION, STOP]) | mutations(ACK) | mutations(ACTION) | messages()
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


# ---- the command ----------------------------------------------------------------------------------------------------


@contextmanager
def served(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "bbrgym", "serve", "scenario=steady", "scenario.duration_s=3", *arguments]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_ns3_gym_s_own_agent_drives_what_training_sees(client: Client) -> None:
    words = ["variant=bbr-acd", "action=relative", "env.frame_stack=2", "reward=goodput", "episodes=2", "timeout_s=30"]
    scenario = {**bbrgym.load_scenario("steady").model_dump(exclude_none=True), "duration_s": 3.0}
    arguments = {"world": "twin", "scenario": scenario, "variant": "bbr-acd", "action_kind": "relative"}
    arguments |= {"reward": "goodput", "control_interval_s": 0.5, "frame_stack": 2, "view": "pooled"}
    arguments["reward_horizon_s"] = 5.0
    with plain_envs.make("bbrgym/Tune-v2", **arguments) as env:
        env.action_space.seed(1)
        actions = [env.action_space.sample() for _ in range(6)]
        # As ns3-gym starts its simulations.
        with served(*words, f"--openGymPort={client.port}", "--simSeed=7", "--env.critic=false") as process:
            seen = [client.episode([packed(action) for action in actions]) for _ in range(2)]
            _, said = process.communicate(timeout=120)
        there = [in_process(env, actions, seed) for seed in (7, None)]
    assert [[state.plain() for state in one] for one in seen] == [[state.plain() for state in one] for one in there]
    assert process.returncode == 0, said
    assert said.splitlines() == [
        f"steady on twin, bbr-acd: connecting to the agent at 127.0.0.1:{client.port}",
        *(
            f"episode {k} of 2: seed {one[0].info['seed']}, 6 steps, "
            f"total reward {sum(state.reward for state in one):.3f}, truncated"
            for k, one in enumerate(seen, 1)
        ),
    ]


@pytest.mark.parametrize(
    ("end", "code", "last"),
    [
        (lambda _, process: process.send_signal(signal.SIGTERM), 130, "bbrgym: interrupted"),
        (
            lambda client, _: client.close(),
            1,
            "bbrgym: the agent at 127.0.0.1:{} closed the connection where its EnvAc",
        ),
    ],
    ids=["it is told to end", "its agent goes"],
)
def test_it_ends_with_one_line(end, code: int, last: str, client: Client) -> None:
    with served("world=ns3", f"port={client.port}") as process:
        client.introduced()
        client.state()
        end(client, process)
        _, said = process.communicate(timeout=120)
    assert process.returncode == code
    assert said.splitlines()[-1].startswith(last.format(client.port))


def test_without_an_agent_it_ends() -> None:
    with pytest.raises(ProtocolTimeout, match=r"no SimInitAck from the agent at 127.0.0.1:1 within 0.1 s"):
        serve(Samples(), 1, timeout_s=0.1)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("port=0", "port: is 0, expected a number >= 1"),
        ("--openGymPort=70000", "port: is 70000, expected a number <= 65535"),
        ("episodes=0", "episodes: is 0, expected a number >= 1"),
        ("hots=localhost", "hots: is not an option; did you mean host?"),
        ("env.frame_stakc=3", "env.frame_stakc: is not an argument of the environments; did you mean frame_stack?"),
        ("env=multi", "env: is 'multi', expected tune: the protocol has one agent"),
        ("--help-me", "'--help-me' is not an override"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(argument: str, message: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["serve", argument]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"bbrgym: {message}"), said
