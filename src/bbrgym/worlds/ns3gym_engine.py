# SPDX-License-Identifier: GPL-2.0-only
"""The engine of ``world=ns3gym``: a program of your own, which is the world's worker.

It calls `ServeMain` of `ns3-scratch/model/serve.h`, which reads requests and writes the arrays as `worker.py` does; its
network may be of any kind. Its standard input is a socket in place of the two eventfds, and brings the descriptors of
mailbox and arrays: so the command may be any that passes its standard input on, as ``./ns3 run`` does.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bbrgym.errors import ConfigError
from bbrgym.ns3gym.child import Child
from bbrgym.ns3gym.command import split_command
from bbrgym.processes import output_tail
from bbrgym.tunables import TUNABLE_NAMES
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS, names_of
from bbrgym.worlds.layout import Flags, Table
from bbrgym.worlds.worker_engine import WorkerEngine

_FIELDS = (FLOW_FIELDS, LINK_FIELDS, FLOW_SUMMARY_FIELDS, LINK_SUMMARY_FIELDS)
_EXIT_WAIT_S = 2.0  # between the end of the program's connection and the end of its command


class Ns3GymEngine(WorkerEngine):
    """A program with the runs of one world, one after the other; see `bbrgym.worlds.engine.Engine`.

    The world's options:
        command: command line that starts the program: a list of words, or a text that is split into words.
        cwd: directory in which the command runs. Default: the current one.
        log: file to which its output is appended. Default: none.
    """

    _scenario_json = ""

    def lay_out(self, flow_capacity: int, *rows: Table | Flags) -> None:  # noqa: ARG002 - the program maps them itself
        self._ask(self._timeout_s, "lay_out", self._layout())

    def reset(self, index: int, scenario_json: str | None, seed: int) -> None:  # noqa: ARG002 - there is one
        self._scenario_json = scenario_json or self._scenario_json
        self._ask(self._timeout_s, "reset", self._layout(), self._scenario_json, seed)

    def _layout(self) -> list[Any]:
        shape = self._shared.shape
        return [shape.worlds, shape.flows, self._index, [list(TUNABLE_NAMES), *map(names_of, _FIELDS)]]

    def _start(self, held: ExitStack, engine: str, options: Mapping[str, Any]) -> Any:  # noqa: ARG002 - it is the program
        if "command" not in options:
            raise ConfigError("command: is missing, expected the command that starts the world's program")
        cwd, log = (Path(options[name]) if name in options else None for name in ("cwd", "log"))
        words = split_command(options["command"], cwd)
        ours, theirs = socket.socketpair()
        held.callback(ours.close)
        with theirs:
            child = Child(words, cwd, log, stdin=theirs.fileno())
        held.callback(child.close)
        self._request_fd = self._done_fd = ours.fileno()
        with contextlib.suppress(ConnectionError):  # it has ended, as the first request will tell
            socket.send_fds(ours, [b"\0"], [self._mailbox.fd, self._shared.fd])
        return child

    def _why_it_ended(self) -> str:
        return f"the program {self._process.end(_EXIT_WAIT_S)}"

    def _output_tail(self) -> str:
        return output_tail(self._process.end().output)
