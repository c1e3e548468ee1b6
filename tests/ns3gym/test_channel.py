# SPDX-License-Identifier: GPL-2.0-only
"""Both ends over real sockets, where peers come late, go early, or are strangers.

What an environment shows of them is in test_driving.py, what a service does in test_serve.py.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import zmq
from client import Client
from waiting import meanwhile, wait_until

from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.channel import AgentSocket, SimulationSocket
from bbrgym.ns3gym.errors import PeerGone, ProtocolError, ProtocolTimeout

INIT = pb.SimInitMsg(simProcessId=7)
STATE = pb.EnvStateMsg(reward=0.5, info="first")
Raw = Callable[[int], zmq.Socket[bytes]]


@pytest.fixture
def agent() -> Iterator[AgentSocket]:
    with AgentSocket(timeout_s=120.0) as agent:
        yield agent


@pytest.fixture
def raw(agent: AgentSocket) -> Iterator[Raw]:
    """Makes sockets that say what they like to the agent."""
    context = zmq.Context()
    context.linger, context.rcvtimeo, context.sndtimeo = 0, 120_000, 120_000
    made: list[zmq.Socket[bytes]] = []

    def make(kind: int = zmq.REQ) -> zmq.Socket[bytes]:
        made.append(context.socket(kind))
        made[-1].connect(f"tcp://127.0.0.1:{agent.port}")
        return made[-1]

    yield make
    context.destroy(0)


def begun(agent: AgentSocket, simulation: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
    """Lead a simulation up to where its first state is due."""
    simulation.send(INIT.SerializeToString())
    agent.await_simulation()
    agent.reply(pb.SimInitAck(done=True))
    simulation.recv()
    return simulation


def times_out(wait: Callable[..., object], agent: AgentSocket, timeout_s: float = 0.1) -> bool:
    agent._timeout_s, before_s = timeout_s, agent._timeout_s
    try:
        with pytest.raises(ProtocolTimeout):
            wait()
    finally:
        agent._timeout_s = before_s
    return True


def test_a_simulation_waits_for_its_agent_and_for_another_if_that_goes() -> None:
    with (
        contextlib.closing(Client()) as first,
        ThreadPoolExecutor(1) as elsewhere,
        SimulationSocket(first.port, timeout_s=120.0) as simulation,
    ):
        said = elsewhere.submit(simulation.introduce, INIT)
        assert pb.SimInitMsg.FromString(first._socket.recv()) == INIT
        first._socket.close()
        second = first._context.socket(zmq.REP)

        def binds() -> bool:  # ZeroMQ may still be closing the port's last socket
            with contextlib.suppress(zmq.ZMQError):
                second.bind(f"tcp://127.0.0.1:{first.port}")
            return bool(second.last_endpoint)

        wait_until(binds)
        assert pb.SimInitMsg.FromString(second.recv()) == INIT
        second.send(pb.SimInitAck(done=True).SerializeToString())
        assert said.result(120.0) == pb.SimInitAck(done=True)


def test_strangers_come_and_go(agent: AgentSocket, raw: Raw) -> None:
    """Neither a port scanner nor a browser is a simulation, nor does it hide that the simulation has gone."""
    simulation = begun(agent, raw())
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n" * 9, bytes(100), b"\xff" * 100):
        with socket.create_connection(("127.0.0.1", agent.port)) as stranger:
            stranger.sendall(said)
    assert times_out(agent.receive_state, agent, 0.2)
    simulation.close()
    with pytest.raises(PeerGone):
        agent.receive_state()


def test_a_flood_of_messages_of_others_does_not_stretch_a_wait(agent: AgentSocket, raw: Raw) -> None:
    stranger, is_over = raw(zmq.DEALER), threading.Event()

    def flood() -> None:
        while not is_over.is_set():
            stranger.send(b"")

    with meanwhile(flood):
        try:
            assert times_out(agent.await_simulation, agent, 0.5)
        finally:
            is_over.set()


def test_the_last_words_of_one_who_goes_are_heard(agent: AgentSocket, raw: Raw) -> None:
    simulation = begun(agent, raw())
    simulation.linger = 120_000
    simulation.send(STATE.SerializeToString())
    simulation.close()
    wait_until(lambda: agent._count_connections() or not agent._connections)  # before anybody listens
    assert agent.receive_state() == STATE


def test_who_was_left_is_told_to_stop_and_disturbs_nobody(agent: AgentSocket, raw: Raw) -> None:
    first, second, third = (raw() for _ in range(3))
    begun(agent, first)
    agent.stop()  # while it is busy
    first.send(STATE.SerializeToString())
    wait_until(lambda: times_out(agent.await_simulation, agent) and first.poll(0))
    assert pb.EnvActMsg.FromString(first.recv()).stopSimReq
    begun(agent, second)
    third.send(INIT.SerializeToString())  # one at a time
    wait_until(lambda: times_out(agent.receive_state, agent) and third.poll(0))
    assert pb.SimInitAck.FromString(third.recv()).stopSimReq
    second.send(STATE.SerializeToString())
    assert agent.receive_state() == STATE
    with pytest.raises(ProtocolError, match="no simulation has yet to send its state"):
        agent.receive_state()


def test_who_begins_in_another_way_is_told_to_stop_and_may_begin_again(agent: AgentSocket, raw: Raw) -> None:
    simulation = raw()
    simulation.send(STATE.SerializeToString())
    with pytest.raises(ProtocolError, match="SimInitMsg"):
        agent.await_simulation()
    assert pb.SimInitAck.FromString(simulation.recv()).stopSimReq
    simulation.send(b"")  # a SimInitMsg in which everything is left out
    assert agent.await_simulation() == pb.SimInitMsg()
    agent.close()
    assert pb.SimInitAck.FromString(simulation.recv()).stopSimReq


def test_an_end_is_on_this_machine_alone_and_does_not_hold_up_its_process() -> None:
    code = """
import psutil
from bbrgym.ns3gym.channel import AgentSocket
agent = AgentSocket()
assert [one.laddr for one in psutil.Process().net_connections("tcp")] == [("127.0.0.1", agent.port)]
"""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=environment)
