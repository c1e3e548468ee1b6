# SPDX-License-Identifier: GPL-2.0-only
"""Consecutive simulations of an agent, each started by a command or waited for.

    introduce(seed, arguments) -> SimInitMsg  ends the last simulation, starts the next
        begin()                               lets it begin
        play() -> EnvStateMsg                 its first state
        play(action) -> EnvStateMsg           again and again
    stop()                                    in the middle, or after the last state

A wrong option is a ConfigError; a simulation that introduces itself or answers too late, ends, or sends another message
is a ProtocolError. On any error the simulation is ended; the error tells how it ended and shows its last output.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bbrgym.errors import ConfigError
from bbrgym.ns3gym.channel import AgentSocket, Watch
from bbrgym.ns3gym.child import Child
from bbrgym.ns3gym.command import Value, fill, split_command
from bbrgym.ns3gym.errors import PeerGone, ProtocolError
from bbrgym.ns3gym.messages import Message
from bbrgym.processes import output_tail

_LAST_GASP_S = 2.0  # between the end of a simulation's connection and the end of its command


class Session:
    """The agent's socket, and the process of the simulation if it was started here.

    Args:
        command: as of `split_command`; None waits for simulations that others start.
        cwd: directory in which the command runs. Default: the current one.
        log: file to which the command's output is appended. Default: none.
        port: on which the agent listens; 0 selects a free one.
        host: address on which it listens.
        timeout_s: longest wait for a simulation, and then for each of its messages, in seconds.
        grace_s: longest time that a simulation may take to end, once told to stop, before it is killed, in seconds.

    Raises:
        ConfigError: an option is wrong, or needs a command and there is none, or the port is not available.
    """

    def __init__(
        self,
        command: str | Sequence[str] | None,
        *,
        cwd: str | Path | None,
        log: str | Path | None,
        port: int,
        host: str,
        timeout_s: float,
        grace_s: float,
    ) -> None:
        self._cwd, self._log = (None if path is None else Path(path) for path in (cwd, log))
        self._command = None if command is None else split_command(command, self._cwd)
        self.check_command_for(cwd=cwd, log=log)
        self._port, self._host, self._timeout_s, self._grace_s = port, host, timeout_s, grace_s
        self._owner_pid = os.getpid()
        self._child: Child | None = None
        self._agent = self._listen()
        self._has_listened_to_one = False
        self._is_interrupted = False

    def check_command_for(self, **options: Any) -> None:
        """Raise ConfigError for an option that is set and needs a command, where there is none."""
        for name, value in options.items():
            if value and self._command is None:
                raise ConfigError(f"{name}: {value!r} is for a command, and there is none")

    @property
    def port(self) -> int:
        """Port on which it listens; with `port` 0 another one for each simulation that it starts."""
        return self._agent.port

    def introduce(self, seed: int, arguments: Mapping[str, Value]) -> Message:
        """Start a simulation, or wait for one, and return its SimInitMsg.

        Args:
            seed: of the run; unknown to a simulation that is waited for.
            arguments: likewise.
        """
        self.stop()
        if self._command is not None:
            if self._has_listened_to_one:
                self._agent.close()  # drops unread messages of earlier simulations
                self._agent = self._listen()
            self._has_listened_to_one = True
            self._child = Child(fill(self._command, self.port, seed, arguments), self._cwd, self._log)
        with self.ending_on_error():
            return self._agent.await_simulation(self._watch("SimInitMsg"))

    def begin(self) -> Message | None:
        """Let the simulation begin and return its first EnvStateMsg; None if one that was waited for has gone.

        Raises:
            PeerGone: the simulation that was started here has gone.
        """
        with self.ending_on_error():
            try:
                self._agent.acknowledge()
                return self._agent.receive_state(self._watch("EnvStateMsg"))
            except PeerGone:
                if self._command is not None or self._is_interrupted:
                    raise
                return None

    def play(self, action: Message, timeout_s: float | None = None) -> Message:
        """Send an action and return the next EnvStateMsg.

        Args:
            action: DataContainer.
            timeout_s: longest wait for the state, in seconds. Default: the session's.
        """
        with self.ending_on_error():
            self._agent.send_action(action)
            return self._agent.receive_state(self._watch("EnvStateMsg"), timeout_s)

    def dismiss(self) -> None:
        """Tell the simulation to stop, without waiting for its end."""
        self._agent.stop()

    def stop(self) -> None:
        """Tell the simulation to stop, and kill it if it does not."""
        self._agent.stop()
        if self._child is not None:
            self._child.end(self._grace_s)
            self._child = None

    @contextmanager
    def ending_on_error(self) -> Iterator[None]:
        """End the simulation on an error or Ctrl-C; a ProtocolError gets the simulation's last output."""
        try:
            yield
        except ProtocolError as error:
            child, self._child = self._child, None
            # A simulation that has not ended yet ends because it is told to: that is not part of the error.
            status = child and child.wait(_LAST_GASP_S if isinstance(error, PeerGone) else 0.0)
            self._agent.stop()
            if child is None:
                raise
            said = output_tail(child.end().output) if status is None else f": it {status}"
            raise type(error)(f"{error}{said}") from error
        except BaseException:  # the simulation's state is unknown
            self._agent.stop()
            if self._child is not None:
                self._child.end()
            raise

    def interrupt(self) -> None:
        """End a wait in another thread, which raises PeerGone; to be followed by `close`."""
        self._is_interrupted = True

    def close(self) -> None:
        """Stop the simulation and close the socket."""
        if os.getpid() == self._owner_pid:  # a fork must not end its parent's simulation
            self.stop()
            self._agent.close()

    def abandon(self) -> None:
        """Close without waiting for the simulation's end."""
        self._grace_s = 0.0
        self.close()

    def _listen(self) -> AgentSocket:
        return AgentSocket(self._port, host=self._host, timeout_s=self._timeout_s)

    def _watch(self, what: str) -> Watch:
        """Return a watch for `interrupt` and for the end of the simulation's command."""

        def problem() -> Exception | None:
            if self._is_interrupted:
                return PeerGone(f"closed where the simulation's {what} was due")
            if self._child is None or self._child.wait(0.0) is None:
                return None
            return PeerGone(f"the simulation ended where its {what} was due")

        return problem
