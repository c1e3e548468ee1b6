# SPDX-License-Identifier: GPL-2.0-only
"""The two ends of the protocol over ZeroMQ; every wait has a timeout.

    Simulation (connects)                  Agent (binds)
        introduce(SimInitMsg)      ->          await_simulation() -> SimInitMsg
                                   <-          reply(SimInitAck)
        exchange(EnvStateMsg)      ->          receive_state() -> EnvStateMsg
           -> EnvActMsg            <-          reply(EnvActMsg), or stop()

A waiting end checks every few milliseconds whether its peer is still connected, whether the timeout has passed, and
what its caller's `watch` returns, e.g. about a child process.

ns3-gym's simulations have a REQ socket and its agents a REP socket. The agent's socket here is a ROUTER, which is the
same on the wire but identifies the sender: the simulation of an earlier episode, or a second simulation, is told to
stop and does not disturb the current episode.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self, TypeAlias

from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import PeerGone, ProtocolError, ProtocolTimeout
from bbrgym.ns3gym.messages import Message

try:
    import zmq
    from zmq.utils.monitor import recv_monitor_message
except ModuleNotFoundError as error:
    raise MissingExtraError("ns3-gym's protocol", "ns3gym", error) from error

Watch: TypeAlias = Callable[[], Exception | None]
"""A function called while an end waits; it returns an error to raise, or None."""

#: Largest message accepted; the connection of a peer that sends a larger one is closed.
MAX_MESSAGE_BYTES = 16 * 2**20
#: Period of a waiting end's checks, in ms: short enough to end soon after its peer, long enough to cost nothing.
_SLICE_MS = 20
#: Longest time in which a closed agent sends its last answer, in ms.
_LINGER_MS = 1000
#: Period of a simulation's attempts to reach an agent that does not listen yet, in ms.
_RECONNECT_MS = 10

_COMES = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED

_STOP = pb.EnvActMsg(stopSimReq=True).SerializeToString()
"""The answer that ends a simulation, whatever it asked: a SimInitAck with stopSimReq has the same bytes."""


class _Channel:
    """A socket with its connections and timeouts."""

    def __init__(self, kind: int, peer: str, port: Any, timeout_s: float) -> None:
        least = 0 if kind == zmq.ROUTER else 1
        if not isinstance(port, int) or isinstance(port, bool) or not least <= port <= 65535:  # ZeroMQ takes others
            raise ConfigError(f"port: {port!r}, allowed are whole numbers from {least} to 65535")
        if not 0.0 < timeout_s <= 1e6:  # nor NaN
            raise ConfigError(f"timeout_s: {timeout_s}, allowed is a number of seconds above 0, at most 1e6")
        self._kind, self._peer, self._timeout_s = kind, peer, timeout_s
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()  # its own, so that close() leaves no thread
        self._open()

    def _open(self) -> None:
        self._connections: set[int] = set()  # their file descriptors
        self._of_peer: set[int] = set()  # those that were open as the peer introduced itself: it may reconnect
        self._losses = 0
        self._socket = self._context.socket(self._kind)
        self._socket.set(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        self._socket.set(zmq.RCVTIMEO, _SLICE_MS)
        self._socket.set(zmq.SNDTIMEO, _SLICE_MS)
        self._socket.set(zmq.LINGER, _LINGER_MS if self._kind == zmq.ROUTER else 0)
        self._socket.set(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self._monitor = self._socket.get_monitor_socket(_COMES | zmq.EVENT_DISCONNECTED)

    def close(self) -> None:
        """Close the connection; a pending answer is still sent."""
        self._shut()
        self._context.term()

    def _shut(self) -> None:
        if not self._socket.closed:
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _deadline_s(self) -> float:
        return time.monotonic() + self._timeout_s

    def _receive(self, what: str, problem: Watch, deadline_s: float) -> list[bytes]:
        """Return the parts of the next message."""
        error: Exception | None = None
        while True:
            try:  # also a message sent just before the peer closed the connection
                return self._socket.recv_multipart()
            except zmq.Again:
                if error is not None:
                    raise error from None
            self._count_connections()
            error = problem()
            if time.monotonic() >= deadline_s and (error is None or isinstance(error, PeerGone)):
                error = self._late(what)

    def _late(self, what: str) -> ProtocolTimeout:
        return ProtocolTimeout(f"no {what} from {self._peer} within {self._timeout_s:g} s")

    def _count_connections(self) -> None:
        """Update the connections from the monitor's events."""
        while self._monitor.poll(0):
            event: Any = recv_monitor_message(self._monitor)
            if event["event"] & _COMES:
                self._connections.add(event["value"])
            else:
                self._connections.discard(event["value"])
                self._of_peer.discard(event["value"])
                self._losses += 1

    def _gone(self, what: str) -> PeerGone:
        most = MAX_MESSAGE_BYTES // 2**20
        return PeerGone(
            f"{self._peer} closed the connection where its {what} was due (so does a message of more than {most} MiB)"
        )


class AgentSocket(_Channel):
    """The agent's end, bound from one simulation to the next; serves one simulation at a time.

    Args:
        port: to listen on; 0 selects a free one.
        host: address to listen on. The default accepts connections from this machine only.
        timeout_s: longest wait for a simulation, and then for each of its messages, in seconds.

    Raises:
        ConfigError: the address is not available.
    """

    def __init__(self, port: int = 0, *, host: str = "127.0.0.1", timeout_s: float = 60.0) -> None:
        super().__init__(zmq.ROUTER, "the simulation", port, timeout_s)
        self._simulation: bytes | None = None
        self._is_asked = False  # whether the simulation waits for an answer
        self._left: set[bytes] = set()  # simulations that were left while they were busy
        self._socket.set(zmq.ROUTER_MANDATORY, 1)  # an error if the recipient has gone
        try:
            self._socket.bind(f"tcp://{host}:{port or '*'}")
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(f"port: cannot listen on {host}:{port}: {error}") from error
        #: Port on which it listens.
        self.port = int(self._socket.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])

    def await_simulation(self, watch: Watch = lambda: None) -> Message:
        """Return the SimInitMsg of the next simulation; the current one is told to stop.

        Raises:
            ProtocolTimeout: no simulation connected in time.
            ProtocolError: another message arrived.
            Exception: returned by `watch`.
        """
        self.stop()
        return self._next(pb.SimInitMsg, watch)

    def receive_state(self, watch: Watch = lambda: None) -> Message:
        """Return the simulation's next EnvStateMsg.

        Raises:
            PeerGone: the simulation has closed the connection.
            Exception: as of `await_simulation`.
        """
        if self._simulation is None or self._is_asked:
            raise ProtocolError("no simulation has yet to send its state: it is over, or waits for an answer")
        return self._next(pb.EnvStateMsg, lambda: watch() or (None if self._of_peer else self._gone("EnvStateMsg")))

    def reply(self, answer: Message) -> None:
        """Answer an introduction with a SimInitAck, or a state with an EnvActMsg.

        Raises:
            PeerGone: the simulation has closed the connection.
        """
        if self._simulation is None or not self._is_asked:
            raise ProtocolError("no simulation waits for an answer")
        self._is_asked = False
        if not self._answer(self._simulation, answer.SerializeToString()):
            self._simulation = None
            raise PeerGone(f"{self._peer} closed the connection before it was answered")

    def stop(self) -> None:
        """Tell the simulation to stop: at once if an answer is due, else at the next request."""
        if self._simulation is not None:
            if self._is_asked:
                self._answer(self._simulation, _STOP)
            else:
                self._left.add(self._simulation)
        self._simulation, self._is_asked = None, False

    def close(self) -> None:
        """Tell the simulation to stop if an answer is due, and close the socket."""
        if not self._socket.closed:
            self.stop()
        super().close()

    def _next(self, kind: Any, problem: Watch) -> Message:
        """Return the next message of the simulation, or of a new one if there is none; others are told to stop."""
        name, deadline_s = kind.DESCRIPTOR.name, self._deadline_s()
        while True:
            parts = self._receive(name, problem, deadline_s)
            if len(parts) == 3 and not parts[1]:  # the form of a REQ socket's message; no other can be answered
                speaker = parts[0]
                if speaker not in self._left and self._simulation in (None, speaker):
                    if self._simulation is None:
                        self._count_connections()  # at least once a simulation: ZeroMQ keeps only so many events
                        self._of_peer = self._connections.copy()
                    self._simulation, self._is_asked = speaker, True
                    try:
                        return pb.parse(kind, parts[2], f"from {self._peer}")
                    except ProtocolError:
                        self.stop()
                        raise
                self._left.discard(speaker)
                self._answer(speaker, _STOP)
            if time.monotonic() >= deadline_s:  # however many others speak
                raise self._late(name)

    def _answer(self, speaker: bytes, data: bytes) -> bool:
        """Answer a speaker; return False if the speaker has disconnected."""
        try:
            self._socket.send_multipart((speaker, b"", data))
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True


class SimulationSocket(_Channel):
    """The simulation's end, for one episode.

    Args:
        port: of the agent, which may start to listen later.
        host: of the agent.
        timeout_s: longest wait for an agent, and then for each of its answers, in seconds.
    """

    def __init__(self, port: int = 5555, *, host: str = "127.0.0.1", timeout_s: float = 60.0) -> None:
        super().__init__(zmq.REQ, f"the agent at {host}:{port}", port, timeout_s)
        self._address = f"tcp://{host}:{port}"
        try:
            self._socket.connect(self._address)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(f"host: cannot reach {host!r}, port {port}: {error}") from error

    def introduce(self, init: Message) -> Message:
        """Send the SimInitMsg as soon as an agent listens, and return the agent's SimInitAck.

        If the agent closes the connection before it answers, the next one is awaited: between episodes an agent of
        ns3-gym's may close its socket and bind another.

        Raises:
            ProtocolError: as of `exchange`, except PeerGone.
        """
        deadline_s = self._deadline_s()
        while True:
            try:
                return self._ask(init, pb.SimInitAck, deadline_s)
            except PeerGone:
                self._shut()
                self._open()
                self._socket.connect(self._address)

    def exchange(self, state: Message) -> Message:
        """Send an EnvStateMsg and return the agent's EnvActMsg.

        Raises:
            PeerGone: the agent has closed the connection.
            ProtocolTimeout: no answer arrived in time.
            ProtocolError: another message arrived.
        """
        return self._ask(state, pb.EnvActMsg, self._deadline_s())

    def _ask(self, question: Message, kind: Any, deadline_s: float) -> Message:
        name = kind.DESCRIPTOR.name
        self._socket.send(question.SerializeToString())
        parts = self._receive(name, lambda: self._gone(name) if self._losses else None, deadline_s)
        if len(parts) != 1:
            raise ProtocolError(f"from {self._peer}: {len(parts)} parts, expected one {name}")
        return pb.parse(kind, parts[0], f"from {self._peer}")
