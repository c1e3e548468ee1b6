# SPDX-License-Identifier: GPL-2.0-only
"""Consecutive simulations of an agent, each started by a command or waited for.

    introduce(seed, arguments) -> SimInitMsg  ends the last simulation, starts the next
        answer(SimInitAck) -> EnvStateMsg     lets it begin, to its first state
        answer(EnvActMsg) -> EnvStateMsg      again and again
    stop()                                    in the middle, or after the last state

A simulation that introduces itself or answers too late, ends, or sends another message is a ProtocolError. On any error
the simulation is ended; the error tells how it ended and shows its last output.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bbrgym.ns3gym.channel import AgentSocket, Watch
from bbrgym.ns3gym.child import Child
from bbrgym.ns3gym.command import Value, split_command, with_arguments
from bbrgym.ns3gym.errors import PeerGone, ProtocolError
from bbrgym.ns3gym.messages import Message
from bbrgym.processes import output_tail

_EXIT_WAIT_S = 2.0  # between the end of a simulation's connection and the end of its command


class Session:
    """The agent's socket, and the process of the simulation if it was started here."""

    def __init__(
        self,
        command: str | Sequence[str] | None,
        cwd: str | Path | None,
        log: str | Path | None,
        grace_s: float,
        **address: Any,
    ) -> None:
        self._cwd, self._log = (None if path is None else Path(path) for path in (cwd, log))
        self._words = None if command is None else split_command(command, self._cwd)
        self._grace_s = grace_s
        self._owner_pid = os.getpid()
        self._child: Child | None = None
        self.agent = AgentSocket(**address)

    def introduce(self, seed: int, arguments: Mapping[str, Value]) -> Message:
        """Start a simulation with a seed and arguments, or wait for one without, and return the SimInitMsg."""
        self.stop()
        if self._words is not None:
            self._child = Child(with_arguments(self._words, self.agent.port, seed, arguments), self._cwd, self._log)
        with self.ending_on_error():
            return self.agent.await_simulation(self._watch("SimInitMsg"))

    def answer(self, message: Message) -> Message:
        """Send an answer and return the next EnvStateMsg."""
        with self.ending_on_error():
            self.agent.reply(message)
            return self.agent.receive_state(self._watch("EnvStateMsg"))

    def stop(self, grace_s: float | None = None) -> None:
        """Tell the simulation to stop, and kill the process after so many seconds. Default: the session's."""
        self.agent.stop()
        if self._child is not None:
            self._child.end(self._grace_s if grace_s is None else grace_s)
            self._child = None

    def close(self, grace_s: float | None = None) -> None:
        """Stop the simulation as `stop` does, and close the socket."""
        if os.getpid() == self._owner_pid:  # a fork must not end its parent's simulation
            self.stop(grace_s)
            self.agent.close()

    @contextmanager
    def ending_on_error(self) -> Iterator[None]:
        """End the simulation on an error or Ctrl-C; a ProtocolError gets the simulation's last output."""
        try:
            yield
        except ProtocolError as error:
            child, self._child = self._child, None
            # A simulation that has not ended yet ends because it is told to: that is not part of the error.
            status = child and child.wait(_EXIT_WAIT_S if isinstance(error, PeerGone) else 0.0)
            self.agent.stop()
            if child is None:
                raise
            said = output_tail(child.end().output) if status is None else f": it {status}"
            raise type(error)(f"{error}{said}") from error
        except BaseException:  # the simulation's state is unknown
            self.stop(0.0)
            raise

    def _watch(self, what: str) -> Watch:
        """Return a watch for the end of the simulation's command."""
        child = self._child

        def problem() -> Exception | None:
            if child is None or child.wait(0.0) is None:
                return None
            return PeerGone(f"the simulation ended where its {what} was due")

        return problem
