# SPDX-License-Identifier: GPL-2.0-only
"""One simulation after the other for an agent: each started by a command, or waited for.

    introduce(seed, arguments) -> SimInitMsg  ends what ran, starts the next
        begin()                               lets it begin
        play() -> EnvStateMsg                 its first state
        play(action) -> EnvStateMsg           again and again
    stop()                                    in the middle, or after the last state

Whatever goes wrong, the simulation that did it is ended, and the error says how it ended and what it last wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bbrgym.ns3gym.channel import AgentSocket, Watch
from bbrgym.ns3gym.child import Child
from bbrgym.ns3gym.command import Command, Value
from bbrgym.ns3gym.errors import PeerGone, ProtocolError
from bbrgym.ns3gym.messages import Message

_LAST_GASP_S = 2.0  # between the end of a simulation's connection and that of the command which ran it


@dataclass(frozen=True)
class Start:
    """How a simulation is started.

    Attributes:
        command: with places for what differs from run to run.
        cwd: where it runs.
        log: the file to which what it writes is appended.
    """

    command: Command
    cwd: Path | None = None
    log: Path | None = None


class Session:
    """The agent's end, and the process of the simulation if it started it.

    Args:
        start: how to start a simulation; None waits for those that others start.
        port: on which the agent listens; 0 takes a free one.
        host: the address on which it listens.
        timeout_s: the longest wait for a simulation, and then for each of its messages.
        grace_s: how long a simulation that was told to stop may take to end before it is killed.

    Raises:
        ConfigError: the port cannot be had.
    """

    def __init__(self, start: Start | None, port: int, host: str, timeout_s: float, grace_s: float) -> None:
        self._start = start
        self._port, self._host, self._timeout_s, self._grace_s = port, host, timeout_s, grace_s
        self._owner_pid = os.getpid()
        self._child: Child | None = None
        self._agent = self._listen()
        self._has_listened_to_one = False

    @property
    def port(self) -> int:
        """On which it listens; with `port` 0 another one for each simulation that it starts."""
        return self._agent.port

    def introduce(self, seed: int, arguments: Mapping[str, Value]) -> Message:
        """Starts a simulation or waits for one, which cannot be told its seed and arguments; its SimInitMsg.

        Raises:
            ConfigError: the command cannot be filled in, or the port cannot be had any more.
            ProtocolError: none came in time, it ended, or it sent something else.
        """
        self.stop()
        if self._start is not None:
            self._child = self._started(self._start, seed, arguments)
        with self.ending_on_error():
            return self._agent.await_simulation(self._watch("SimInitMsg"))

    def begin(self) -> bool:
        """Lets the simulation begin; whether it is still there.

        Raises:
            PeerGone: it is not, and was started here: no other one comes by itself.
        """
        with self.ending_on_error():
            try:
                self._agent.acknowledge()
            except PeerGone:
                if self._start is not None:
                    raise
                return False
            return True

    def play(self, action: Message | None = None) -> Message:
        """Lets the simulation go on with an action, if one is due; the EnvStateMsg that follows.

        Raises:
            ProtocolError: none came in time, it ended, or it sent something else.
        """
        with self.ending_on_error():
            if action is not None:
                self._agent.send_action(action)
            return self._agent.receive_state(self._watch("EnvStateMsg"))

    def dismiss(self) -> None:
        """Tells the simulation to stop, and does not wait for its end."""
        self._agent.stop()

    def stop(self) -> None:
        """Tells the simulation to stop, and ends it if it does not."""
        self._agent.stop()
        if self._child is not None:
            self._child.end(self._grace_s)
            self._child = None

    @contextmanager
    def ending_on_error(self) -> Iterator[None]:
        """Ends the simulation if its messages make an error, which then has what it said last, or if Ctrl-C comes."""
        try:
            yield
        except ProtocolError as error:
            self._agent.stop()
            child, self._child = self._child, None
            if child is None:
                raise
            ending = child.wait(_LAST_GASP_S if isinstance(error, PeerGone) else 0.0)
            said = child.end().last_words if ending is None else f": it {ending}"
            raise type(error)(f"{error}{said}") from error
        except BaseException:  # where the simulation is now, nobody knows
            self._agent.stop()
            if self._child is not None:
                self._child.end()
            raise

    def close(self) -> None:
        """Stops the simulation and listens no more."""
        if os.getpid() == self._owner_pid:  # a fork does not speak for its parent
            self.stop()
            self._agent.close()

    def abandon(self) -> None:
        """Closes without patience."""
        self._grace_s = 0.0
        self.close()

    def _listen(self) -> AgentSocket:
        return AgentSocket(self._port, host=self._host, timeout_s=self._timeout_s)

    def _started(self, start: Start, seed: int, arguments: Mapping[str, Value]) -> Child:
        if self._has_listened_to_one:
            self._agent.close()  # and with it what earlier simulations sent and nobody read
            self._agent = self._listen()
        self._has_listened_to_one = True
        return Child(start.command.words(self.port, seed, arguments), start.cwd, start.log)

    def _watch(self, what: str) -> Watch:
        """Looks whether the command that runs the simulation has ended."""

        def problem() -> Exception | None:
            if self._child is None or self._child.wait(0.0) is None:
                return None
            return PeerGone(f"the simulation ended where its {what} was due")

        return problem
