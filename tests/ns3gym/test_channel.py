# SPDX-License-Identifier: GPL-2.0-only
"""Both ends over real sockets: the order of the conversation, and an end to every wait."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import zmq
from owners import nothing_left

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.channel import MAX_MESSAGE_BYTES, AgentSocket, SimulationSocket
from bbrgym.ns3gym.errors import PeerGone, ProtocolError, ProtocolTimeout

INIT = pb.SimInitMsg(simProcessId=7)
STATE = pb.EnvStateMsg(reward=0.5, info="first")
ACTION = pb.DataContainer(type=1)


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """Where the other end runs."""
    with ThreadPoolExecutor(2) as threads:
        yield threads


class Raw:
    """A socket that says what it likes."""

    def __init__(self, kind: int) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(kind)
        self.socket.linger = 0
        self.socket.rcvtimeo = self.socket.sndtimeo = 120_000

    def __enter__(self) -> zmq.Socket[bytes]:
        return self.socket

    def __exit__(self, *error: object) -> None:
        self.context.destroy(0)


def test_a_conversation(agent: AgentSocket, elsewhere: ThreadPoolExecutor) -> None:
    def simulate() -> list[pb.Message]:
        with SimulationSocket(agent.port, timeout_s=120.0) as simulation:
            return [simulation.introduce(INIT), simulation.exchange(STATE), simulation.exchange(STATE)]

    said = elsewhere.submit(simulate)
    assert agent.await_simulation() == INIT
    agent.acknowledge()
    assert agent.receive_state() == STATE
    agent.send_action(ACTION)
    assert agent.receive_state() == STATE
    agent.stop()
    assert said.result(120.0) == [
        pb.SimInitAck(done=True),
        pb.EnvActMsg(actData=ACTION),
        pb.EnvActMsg(stopSimReq=True),
    ]


def test_a_simulation_waits_for_its_agent(elsewhere: ThreadPoolExecutor) -> None:
    with AgentSocket() as one:
        port = one.port

    def simulate() -> pb.Message:
        with SimulationSocket(port, timeout_s=120.0) as simulation:
            connecting.set()
            return simulation.introduce(INIT)

    connecting = threading.Event()
    said = elsewhere.submit(simulate)
    assert connecting.wait(120.0)
    with AgentSocket(port, timeout_s=120.0) as agent:
        agent.await_simulation()
        agent.acknowledge()
        assert said.result(120.0) == pb.SimInitAck(done=True)


def test_nobody_waits_for_ever() -> None:
    with AgentSocket(timeout_s=0.05) as agent:
        with pytest.raises(ProtocolTimeout, match=r"^no SimInitMsg from the simulation within 0\.05 s$"):
            agent.await_simulation()
        with Raw(zmq.REQ) as simulation:
            simulation.connect(f"tcp://127.0.0.1:{agent.port}")
            simulation.send(INIT.SerializeToString())
            agent._timeout_s = 20.0
            agent.await_simulation()
            agent.acknowledge()
            agent._timeout_s = 0.05
            with pytest.raises(ProtocolTimeout, match="no EnvStateMsg from the simulation"):
                agent.receive_state()
        port = agent.port
    with (
        SimulationSocket(port, timeout_s=0.05) as simulation,
        pytest.raises(ProtocolTimeout, match=f"no SimInitAck from the agent at 127.0.0.1:{port} within"),
    ):
        simulation.introduce(INIT)


def test_a_simulation_that_goes_is_missed(agent: AgentSocket) -> None:
    with Raw(zmq.REQ) as simulation:
        begin(agent, simulation)
        simulation.send(STATE.SerializeToString())
        agent.receive_state()
        agent.send_action(ACTION)
        simulation.recv()
    with pytest.raises(PeerGone, match="the simulation closed the connection where its EnvStateMsg was due"):
        agent.receive_state()


def test_strangers_come_and_go(agent: AgentSocket) -> None:
    """Neither a port scanner nor a browser is a simulation, nor does it hide that the simulation has gone."""
    with Raw(zmq.REQ) as simulation:
        begin(agent, simulation)
        for said in (b"", b"GET / HTTP/1.1\r\n\r\n" * 9, bytes(100), b"\xff" * 100):
            with socket.create_connection(("127.0.0.1", agent.port)) as stranger:
                stranger.sendall(said)
        with pytest.raises(ProtocolTimeout):
            _within(agent, 0.2, agent.receive_state)
    with pytest.raises(PeerGone):
        agent.receive_state()


def test_the_last_words_of_one_who_goes_are_heard(agent: AgentSocket) -> None:
    with Raw(zmq.REQ) as simulation:
        begin(agent, simulation)
        simulation.linger = 120_000
        simulation.send(STATE.SerializeToString())
        simulation.close()
        agent._count_connections()
        while agent._connections:  # it has gone before anybody listens
            agent._monitor.poll(20_000)
            agent._count_connections()
        assert agent.receive_state() == STATE


def test_an_agent_that_goes_is_missed(elsewhere: ThreadPoolExecutor) -> None:
    with Raw(zmq.REP) as raw:
        port = raw.bind_to_random_port("tcp://127.0.0.1")
        with SimulationSocket(port, timeout_s=120.0) as simulation:
            done = elsewhere.submit(simulation.introduce, INIT)
            raw.recv()
            raw.send(pb.SimInitAck(done=True).SerializeToString())
            done.result(120.0)
            done = elsewhere.submit(simulation.exchange, STATE)
            raw.recv()
            raw.close()
            with pytest.raises(PeerGone, match=f"the agent at 127.0.0.1:{port} closed the connection where its EnvAct"):
                done.result(120.0)


def test_an_agent_that_goes_before_it_answers_is_none(elsewhere: ThreadPoolExecutor) -> None:
    with Raw(zmq.REP) as raw:
        port = raw.bind_to_random_port("tcp://127.0.0.1")
        with SimulationSocket(port, timeout_s=120.0) as simulation:
            said = elsewhere.submit(simulation.introduce, INIT)
            assert pb.SimInitMsg.FromString(raw.recv()) == INIT
            raw.close()
            with _bound(port) as agent:
                assert agent.await_simulation() == INIT
                agent.acknowledge()
                assert said.result(120.0) == pb.SimInitAck(done=True)


def _bound(port: int) -> AgentSocket:
    """An agent on a port whose last socket ZeroMQ may still be closing."""
    deadline_s = time.monotonic() + 20.0
    while True:
        try:
            return AgentSocket(port, timeout_s=120.0)
        except ConfigError:
            assert time.monotonic() < deadline_s


def test_a_watch_ends_the_wait(agent: AgentSocket) -> None:
    looks: list[float] = []

    def watch() -> Exception | None:
        looks.append(time.monotonic())
        return ValueError("the child has died") if len(looks) == 3 else None

    with pytest.raises(ValueError, match="the child has died"):
        agent.await_simulation(watch)
    assert len(looks) == 3


def test_who_was_left_is_told_to_stop_and_disturbs_nobody(agent: AgentSocket) -> None:
    with Raw(zmq.REQ) as first, Raw(zmq.REQ) as second, Raw(zmq.REQ) as third:
        for simulation in (first, second, third):
            simulation.connect(f"tcp://127.0.0.1:{agent.port}")
        first.send(INIT.SerializeToString())
        agent.await_simulation()
        agent.acknowledge()
        first.recv()
        agent.stop()  # while it is busy
        first.send(STATE.SerializeToString())
        _wait_in_vain(agent.await_simulation, agent, first)
        assert pb.EnvActMsg.FromString(first.recv()).stopSimReq
        second.send(INIT.SerializeToString())
        agent.await_simulation()
        agent.acknowledge()
        second.recv()
        third.send(INIT.SerializeToString())  # one at a time
        _wait_in_vain(agent.receive_state, agent, third)
        assert pb.SimInitAck.FromString(third.recv()).stopSimReq
        second.send(STATE.SerializeToString())
        assert agent.receive_state() == STATE


def begin(agent: AgentSocket, simulation: Raw) -> None:
    """Up to where the simulation's first state is due."""
    simulation.connect(f"tcp://127.0.0.1:{agent.port}")
    simulation.send(INIT.SerializeToString())
    agent.await_simulation()
    agent.acknowledge()
    simulation.recv()


def _wait_in_vain(wait, agent, other):
    """Wait for a simulation that says nothing, until another one has an answer."""
    deadline_s = time.monotonic() + 120.0
    while not other.poll(0):
        assert time.monotonic() < deadline_s
        with pytest.raises(ProtocolTimeout):
            _within(agent, 0.1, wait)


def _within(agent, timeout_s, wait):
    before, agent._timeout_s = agent._timeout_s, timeout_s
    try:
        wait()
    finally:
        agent._timeout_s = before


def test_closing_tells_who_waits(agent: AgentSocket) -> None:
    with Raw(zmq.REQ) as simulation:
        simulation.connect(f"tcp://127.0.0.1:{agent.port}")
        simulation.send(INIT.SerializeToString())
        agent.await_simulation()
        agent.close()
        assert pb.SimInitAck.FromString(simulation.recv()).stopSimReq


@pytest.mark.parametrize("said", [b"", b"\xff", STATE.SerializeToString(), b"\x1a\x00" * 9 + b"\x12"])
def test_an_agent_takes_no_other_beginning(agent: AgentSocket, said: bytes) -> None:
    with Raw(zmq.REQ) as simulation:
        simulation.connect(f"tcp://127.0.0.1:{agent.port}")
        simulation.send(said)
        if said == b"":  # a SimInitMsg in which everything is left out
            assert agent.await_simulation() == pb.SimInitMsg()
            return
        with pytest.raises(ProtocolError, match="SimInitMsg"):
            agent.await_simulation()
        assert pb.SimInitAck.FromString(simulation.recv()).stopSimReq
        with pytest.raises(ProtocolError, match="no simulation waits for an answer"):
            agent.acknowledge()
        simulation.send(INIT.SerializeToString())
        assert agent.await_simulation() == INIT


def test_messages_that_are_too_long_are_not_taken(agent: AgentSocket) -> None:
    with Raw(zmq.REQ) as simulation:
        begin(agent, simulation)
        simulation.send(b"\0" * (MAX_MESSAGE_BYTES + 1))
        with pytest.raises(PeerGone, match="a message of more than 16 MiB"):
            agent.receive_state()


def test_out_of_turn(agent: AgentSocket) -> None:
    with pytest.raises(ProtocolError, match="no simulation has yet to send its state"):
        agent.receive_state()
    with pytest.raises(ProtocolError, match="no simulation waits for an answer"):
        agent.send_action(ACTION)
    agent.stop()


def test_what_cannot_be_listened_on_is_named(agent: AgentSocket) -> None:
    with pytest.raises(ConfigError, match=f"port: cannot listen on 127.0.0.1:{agent.port}: Address already in use"):
        AgentSocket(agent.port)
    for port in (-1, 65536, "5555", True, 5555.0):
        with pytest.raises(ConfigError, match=r"port: .* allowed are whole numbers from 0 to 65535"):
            AgentSocket(port)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="port: 0, allowed are whole numbers from 1 to 65535"):
        SimulationSocket(0)
    with pytest.raises(ConfigError, match="host: cannot reach 'no host'"):
        SimulationSocket(5555, host="no host")
    for timeout_s in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match=r"timeout_s: .* allowed is a number of seconds above 0"):
            AgentSocket(timeout_s=timeout_s)


def test_only_this_machine_reaches_an_agent(agent: AgentSocket) -> None:
    listening = [one.laddr for one in psutil.Process().net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    assert ("127.0.0.1", agent.port) in listening
    assert not any(port == agent.port and ip != "127.0.0.1" for ip, port in listening)


def test_a_closed_end_leaves_nothing() -> None:
    def meet() -> None:
        with AgentSocket(timeout_s=120.0) as agent, SimulationSocket(agent.port, timeout_s=120.0) as simulation:
            ack = elsewhere.submit(simulation.introduce, INIT)
            agent.await_simulation()
            agent.acknowledge()
            ack.result(120.0)

    with ThreadPoolExecutor(1) as elsewhere:
        meet()
        with nothing_left():
            for _ in range(20):
                meet()


def test_an_end_that_is_not_closed_does_not_hold_up_the_process() -> None:
    code = "from bbrgym.ns3gym.channel import AgentSocket; agent = AgentSocket(); print(agent.port)"
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True, env=environment)
