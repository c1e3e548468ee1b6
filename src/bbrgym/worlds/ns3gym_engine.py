# SPDX-License-Identifier: GPL-2.0-only
"""The engine of ``world=ns3gym``: any program that serves a world over ns3-gym's protocol.

Such a program shows raw measurements and takes raw tunables, as `ns3-scratch/gym/serve.h` describes; its own network
may be of any kind. It is started again for each run, or, without a command, waited for. The resolved scenario is passed
to it as a file, whose path stands for `{scenario}` in the command. Its flows must have the names of the scenario's, in
their order.
"""

from __future__ import annotations

import json
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from bbrgym.errors import ConfigError
from bbrgym.ns3gym.data import pack, unpack
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.messages import Message
from bbrgym.ns3gym.session import Session
from bbrgym.ns3gym.spaces import Space, space_of
from bbrgym.scenario.flow import check_tunables
from bbrgym.schema import FieldProblem, shown
from bbrgym.tunables import TUNABLES
from bbrgym.untrusted_files import parse_json
from bbrgym.worlds.engine import advance_timeout_s
from bbrgym.worlds.errors import EngineFailure
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS, names_of
from bbrgym.worlds.layout import Flags, Table

_FIELDS = {
    "flow_stats": FLOW_FIELDS,
    "link_stats": LINK_FIELDS,
    "flow_summary": FLOW_SUMMARY_FIELDS,
    "link_summary": LINK_SUMMARY_FIELDS,
}
_COLUMNS = {name: column for column, name in enumerate(TUNABLES)}
_MAX_TIMEOUT_S = 1e6
_GRACE_S = 5.0  # between being told to stop and being killed


class Ns3GymEngine:
    """A program that serves one world at a time; see `bbrgym.worlds.engine.Engine`.

    Args:
        num_worlds: 1.
        threads: not used.
        timeout_s: longest wait for the program's start, and for each simulated second of an advance, in seconds.
        command: command line that starts the program: a list of words, or a text that is split into words, with the
            placeholders of `bbrgym.ns3gym.command` and `{scenario}`. Without placeholders it gets
            ``--openGymPort=PORT --simSeed=SEED --scenario=FILE`` at its end. Default: wait for a program that is
            started elsewhere.
        cwd: directory in which the command runs. Default: the current one.
        log: file to which the command's output is appended. Default: none.
        port: port on which to listen; 0 selects a free one.
        host: address on which to listen. The default accepts connections from this machine only.

    Raises:
        ConfigError: an option is wrong.
    """

    def __init__(
        self,
        num_worlds: int,
        threads: int,  # noqa: ARG002 - one world has one thread
        timeout_s: float,
        *,
        command: str | Sequence[str] | None = None,
        cwd: str | None = None,
        log: str | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        if num_worlds != 1:
            raise ConfigError(f"num_worlds: {num_worlds}, allowed is 1: a program serves one world")
        if command is None and port == 0:
            raise ConfigError("command: None and port: 0, expected the program's command, or the port it connects to")
        self._timeout_s = min(timeout_s, _MAX_TIMEOUT_S)
        self._lock = threading.RLock()  # a session serves one thread
        given: Any = {"cwd": cwd, "log": log, "port": port, "host": host}
        self._session = Session(command, **given, timeout_s=self._timeout_s, grace_s=_GRACE_S)
        self._folder = tempfile.TemporaryDirectory(prefix="bbrgym-")
        self._scenario_file = Path(self._folder.name) / "scenario.json"
        self._has_command = command is not None
        self._scenario: dict[str, Any] = {}
        self._scenario_json = ""
        self._close = weakref.finalize(self, _end, self._session, self._folder)

    def lay_out(
        self,
        flow_capacity: int,  # noqa: ARG002 - the arrays tell it
        tunables: Table,
        flow_stats: Table,
        link_stats: Table,
        now_s: Table,
        done: Flags,
    ) -> None:
        """Use these arrays from now on; see `Engine.lay_out`."""
        self._tunables, self._flow_stats, self._link_stats = tunables[0], flow_stats[0], link_stats[0]
        self._now_s, self._done = now_s, done

    def reset(self, index: int, scenario_json: str | None, seed: int) -> None:  # noqa: ARG002 - there is one world
        """Start the program, and show its first state; see `Engine.reset`."""
        if scenario_json is not None:
            self._scenario_json, self._scenario = scenario_json, json.loads(scenario_json)
        self._scenario_file.write_text(self._scenario_json, encoding="utf-8")
        with self._lock, _engine_failures():
            message = self._begin(seed)
            with self._session.ending_on_error():
                info = _info_of(message)
                self._compare(info, seed)
                self._show_tunables(info)
                self._show(message, info)

    def advance(self, duration_s: float, mask: Flags) -> None:
        """Send the tunables, and show the state after the interval; see `Engine.advance`.

        At the scenario's end the program has ended: nothing changes.
        """
        if not mask[0] or self._done[0]:
            return
        self._check_tunables()
        tunables = self._tunables[: len(self._scenario["flows"])]
        action = {"tunables": tunables, "seconds": np.array([duration_s])}
        with self._lock, _engine_failures():
            message = self._session.play(
                pack(self._action_space, action, "action"), advance_timeout_s(self._timeout_s, duration_s)
            )
            with self._session.ending_on_error():
                self._show(message, _info_of(message))
        self._sent = tunables.copy()

    def summary(self, index: int, flow_out: Table, link_out: Table) -> None:  # noqa: ARG002
        """Write the last state's summary; see `Engine.summary`."""
        flow_out[:], link_out[:] = self._observation["flow_summary"], self._observation["link_summary"]

    def close(self) -> None:
        """End the program; see `Engine.close`."""
        self._session.interrupt()
        with self._lock:
            self._close()

    # ---- internals ---------------------------------------------------------------------------------------------

    def _begin(self, seed: int) -> Message:
        """Start the program, note its spaces and return its first state."""
        while True:
            init = self._session.introduce(seed, {"scenario": str(self._scenario_file)} if self._has_command else {})
            with self._session.ending_on_error():
                found = {"observation": space_of(init.obsSpace), "action": space_of(init.actSpace)}
                for name, expected in _spaces_for(len(self._scenario["flows"])).items():
                    if found[name] != expected:
                        raise ProtocolError(f"the program's {name} space is {found[name]}, expected {expected}")
            if (message := self._session.begin()) is not None:
                self._observation_space, self._action_space = found["observation"], found["action"]
                return message

    def _compare(self, info: Mapping[str, Any], seed: int) -> None:
        """Raise ProtocolError if the program runs something else than it was asked for."""
        fields = info.get("fields", {})
        for name, found, expected in (
            ("seed", info.get("seed", seed), seed),
            ("flows", info.get("flows"), [flow["name"] for flow in self._scenario["flows"]]),
            ("tunables", list(info.get("tunables", ())), list(TUNABLES)),
            *((f"fields.{table}", list(fields.get(table, ())), list(names_of(_FIELDS[table]))) for table in _FIELDS),
        ):
            if found != expected:
                raise ProtocolError(f"the program's info: {name} is {shown(found)}, expected {shown(expected)}")

    def _show_tunables(self, info: Mapping[str, Any]) -> None:
        self._tunables[:] = np.nan
        try:
            for row, values in zip(self._tunables, info["initial_tunables"], strict=False):
                for name, value in values.items():
                    row[_COLUMNS[name]] = value
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ProtocolError(
                "the program's info: initial_tunables, expected a mapping of tunables to numbers for each flow"
            ) from None
        self._sent = self._tunables[: len(self._scenario["flows"])].copy()

    def _check_tunables(self) -> None:
        """Raise ConfigError for a changed tunable that its flow does not have or whose value is out of its range."""
        now = self._tunables[: len(self._sent)]
        if now.tobytes() == self._sent.tobytes():
            return
        is_changed = ~((now == self._sent) | (np.isnan(now) & np.isnan(self._sent)))
        for flow, row, changed in zip(self._scenario["flows"], now, is_changed, strict=True):
            values = {name: float(row[column]) for name, column in _COLUMNS.items() if changed[column]}
            try:
                check_tunables(flow["cc"], values)
            except FieldProblem as error:
                raise ConfigError(f"flow {flow['name']!r}: {error.path} {error.problem}") from None

    def _show(self, message: Message, info: Mapping[str, Any]) -> None:
        """Write a state into the caller's arrays."""
        self._observation = unpack(self._observation_space, message.obsData, "observation")
        flows = len(self._scenario["flows"])
        self._flow_stats[:flows], self._flow_stats[flows:] = self._observation["flow_stats"], np.nan
        self._link_stats[:] = self._observation["link_stats"]
        now_s = info.get("now_s")
        if not isinstance(now_s, int | float):
            raise ProtocolError(f"the program's info: now_s is {shown(now_s)}, expected simulated seconds")
        self._now_s[0], self._done[0] = now_s, message.isGameOver
        if message.isGameOver:
            self._session.dismiss()


@contextmanager
def _engine_failures() -> Iterator[None]:
    """Turn a ProtocolError into an EngineFailure with its text."""
    try:
        yield
    except ProtocolError as error:
        raise EngineFailure(str(error)) from error


def _end(session: Session, folder: tempfile.TemporaryDirectory[str]) -> None:
    session.abandon()
    folder.cleanup()


def _spaces_for(flows: int) -> dict[str, Space]:
    """Return the spaces of a world with so many flows."""
    observed = {
        table: (flows, len(fields)) if table.startswith("flow") else (len(fields),) for table, fields in _FIELDS.items()
    }
    acted = {"tunables": (flows, len(TUNABLES)), "seconds": (1,)}
    return {"observation": _tables_of(observed), "action": _tables_of(acted)}


def _tables_of(shapes: Mapping[str, tuple[int, ...]]) -> spaces.Dict:
    boxes: dict[str, Space] = {name: spaces.Box(-np.inf, np.inf, shape, np.float64) for name, shape in shapes.items()}
    return spaces.Dict(boxes, sort_keys=False)


def _info_of(message: Message) -> dict[str, Any]:
    try:
        info = parse_json(message.info)
    except ValueError:
        info = None
    if not isinstance(info, dict):
        raise ProtocolError(f"the program's info: is {shown(message.info)}, expected a JSON object")
    return info
