# SPDX-License-Identifier: GPL-2.0-only
"""Both ends over real sockets, where peers come late, go early, or are strangers.

What an environment shows of them is in test_driving.py, what a service does in test_serve.py.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import zmq
from waiting import meanwhile, wait_until

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.channel import AgentSocket, SimulationSocket
from bbrgym.ns3gym.errors import PeerGone, ProtocolError, ProtocolTimeout

INIT = pb.SimInitMsg(simProcessId=7)
STATE = pb.EnvStateMsg(reward=0.5, info="first")
ACTION = pb.DataContainer(type=1)
Raw = Callable[[int], zmq.Socket[bytes]]


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """Where the other end runs."""
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
def raw() -> Iterator[Raw]:
    """Makes sockets that say what they like."""
    context = zmq.Context()
    context.linger, context.rcvtimeo, context.sndtimeo = 0, 120_000, 120_000
    made: list[zmq.Socket[bytes]] = []
    yield lambda kind: made.append(context.socket(kind)) or made[-1]  # type: ignore[func-returns-value]
    context.destroy(0)


def begun(agent: AgentSocket, simulation: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
    """Up to where the simulation's first state is due."""
    simulation.connect(f"tcp://127.0.0.1:{agent.port}")
    simulation.send(INIT.SerializeToString())
    agent.await_simulation()
    agent.acknowledge()
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


def test_a_simulation_waits_for_its_agent_and_for_another_if_that_goes(elsewhere: ThreadPoolExecutor, raw: Raw) -> None:
    with AgentSocket() as one:
        port = one.port
    with SimulationSocket(port, timeout_s=120.0) as simulation:
        said = elsewhere.submit(simulation.introduce, INIT)
        first = raw(zmq.REP)
        wait_until(lambda: binds(first, port))
        assert pb.SimInitMsg.FromString(first.recv()) == INIT
        first.close()
        second = raw(zmq.REP)
        wait_until(lambda: binds(second, port))
        assert pb.SimInitMsg.FromString(second.recv()) == INIT
        second.send(pb.SimInitAck(done=True).SerializeToString())
        assert said.result(120.0) == pb.SimInitAck(done=True)


def binds(agent: zmq.Socket[bytes], port: int) -> bool:
    """Return whether it could bind: ZeroMQ may still be closing the port's last socket."""
    try:
        agent.bind(f"tcp://127.0.0.1:{port}")
    except zmq.ZMQError:
        return False
    return True


def test_strangers_come_and_go(agent: AgentSocket, raw: Raw) -> None:
    """Neither a port scanner nor a browser is a simulation, nor does it hide that the simulation has gone."""
    simulation = begun(agent, raw(zmq.REQ))
    for said in (b"", b"GET / HTTP/1.1\r\n\r\n" * 9, bytes(100), b"\xff" * 100):
        with socket.create_connection(("127.0.0.1", agent.port)) as stranger:
            stranger.sendall(said)
    assert times_out(agent.receive_state, agent, 0.2)
    simulation.close()
    with pytest.raises(PeerGone):
        agent.receive_state()


def test_a_flood_of_messages_of_others_does_not_stretch_a_wait(agent: AgentSocket, raw: Raw) -> None:
    stranger, is_over = raw(zmq.DEALER), threading.Event()
    stranger.connect(f"tcp://127.0.0.1:{agent.port}")

    def flood() -> None:
        while not is_over.is_set():
            stranger.send(b"")

    with meanwhile(flood):
        try:
            assert times_out(agent.await_simulation, agent, 0.5)
        finally:
            is_over.set()


def test_the_last_words_of_one_who_goes_are_heard(agent: AgentSocket, raw: Raw) -> None:
    simulation = begun(agent, raw(zmq.REQ))
    simulation.linger = 120_000
    simulation.send(STATE.SerializeToString())
    simulation.close()

    def has_gone() -> bool:  # before anybody listens
        agent._count_connections()
        return not agent._connections

    wait_until(has_gone)
    assert agent.receive_state() == STATE


def test_who_was_left_is_told_to_stop_and_disturbs_nobody(agent: AgentSocket, raw: Raw) -> None:
    first, second, third = (raw(zmq.REQ) for _ in range(3))
    begun(agent, first)
    agent.stop()  # while it is busy
    first.send(STATE.SerializeToString())
    wait_until(lambda: times_out(agent.await_simulation, agent) and first.poll(0))
    assert pb.EnvActMsg.FromString(first.recv()).stopSimReq
    begun(agent, second)
    third.connect(f"tcp://127.0.0.1:{agent.port}")
    third.send(INIT.SerializeToString())  # one at a time
    wait_until(lambda: times_out(agent.receive_state, agent) and third.poll(0))
    assert pb.SimInitAck.FromString(third.recv()).stopSimReq
    second.send(STATE.SerializeToString())
    assert agent.receive_state() == STATE
    with pytest.raises(ProtocolError, match="no simulation has yet to send its state"):
        agent.receive_state()


def test_who_begins_in_another_way_is_told_to_stop_and_may_begin_again(agent: AgentSocket, raw: Raw) -> None:
    simulation = raw(zmq.REQ)
    simulation.connect(f"tcp://127.0.0.1:{agent.port}")
    simulation.send(STATE.SerializeToString())
    with pytest.raises(ProtocolError, match="SimInitMsg"):
        agent.await_simulation()
    assert pb.SimInitAck.FromString(simulation.recv()).stopSimReq
    for answer in (agent.acknowledge, lambda: agent.send_action(ACTION)):
        with pytest.raises(ProtocolError, match="no simulation waits for an answer"):
            answer()
    simulation.send(b"")  # a SimInitMsg in which everything is left out
    assert agent.await_simulation() == pb.SimInitMsg()
    agent.close()
    assert pb.SimInitAck.FromString(simulation.recv()).stopSimReq


@pytest.mark.parametrize(
    ("make", "text"),
    [
        *((lambda port=port: AgentSocket(port), "port: .* from 0 to 65535") for port in (-1, 65536, "5555", True, 5.0)),
        (lambda: SimulationSocket(0), "port: 0, allowed are whole numbers from 1 to 65535"),
        (lambda: SimulationSocket(5555, host="no host"), "host: cannot reach 'no host'"),
        *(
            (lambda timeout_s=timeout_s: AgentSocket(timeout_s=timeout_s), "timeout_s: .* allowed is a number of seco")
            for timeout_s in (0.0, -1.0, float("nan"), float("inf"))
        ),
    ],
)
def test_wrong_addresses_and_timeouts(make: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{text}"):
        make()


def test_only_this_machine_reaches_an_agent(agent: AgentSocket) -> None:
    listening = [one.laddr for one in psutil.Process().net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    assert {ip for ip, port in listening if port == agent.port} == {"127.0.0.1"}


def test_an_end_that_is_not_closed_does_not_hold_up_the_process() -> None:
    code = "from bbrgym.ns3gym.channel import AgentSocket; agent = AgentSocket(); print(agent.port)"
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True, env=environment)
