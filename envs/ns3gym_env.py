# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Ns3Gym-v0: any simulation that speaks ns3-gym's protocol."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

import gymnasium
from pydantic_core import from_json

from bbrgym.envs.options import arguments_of
from bbrgym.envs.seeding import draw_seed
from bbrgym.errors import ConfigError
from bbrgym.ns3gym.command import Command, Value, checked
from bbrgym.ns3gym.data import pack, unpack
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.messages import Message, Reason
from bbrgym.ns3gym.session import Session, Start
from bbrgym.ns3gym.spaces import Space, space_of

_MAX_GRACE_S = 1e6
_SPACES = {"observation_space": "obsSpace", "action_space": "actSpace"}  # and what a SimInitMsg calls them


class _State(Enum):
    OVER = auto()
    INTRODUCED = auto()  # a simulation has described itself and waits to begin
    RUNNING = auto()
    CLOSED = auto()


@dataclass(frozen=True, kw_only=True)
class Ns3GymOptions:
    """What the environment takes.

    Attributes:
        command: what starts a simulation, as a list of words or as a text for the shell; without, a simulation that
            somebody else starts is waited for. `bbrgym.ns3gym.command` says what is filled in.
        arguments: of the simulation, by name.
        port: on which to listen; 0 takes a free one.
        host: the address on which to listen; only this machine reaches the default.
        cwd: where the command runs; here without.
        log: a file to which all that the command writes is appended.
        timeout_s: the longest wait for a simulation, and then for each of its messages.
        grace_s: how long a simulation that was told to stop may take to end before it is killed.
        observation_space: of the simulation, if it is known; it then counts, whatever the simulation says of it. With
            both spaces no simulation is started before the first reset.
        action_space: the same for actions.
    """

    command: str | Sequence[str] | None = None
    arguments: Mapping[str, Value] = field(default_factory=dict)
    port: int = 0
    host: str = "127.0.0.1"
    cwd: str | Path | None = None
    log: str | Path | None = None
    timeout_s: float = 60.0
    grace_s: float = 5.0
    observation_space: Space | None = None
    action_space: Space | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.grace_s <= _MAX_GRACE_S:
            raise ConfigError(f"grace_s: {self.grace_s}, allowed is a number of seconds from 0 to 1e6")
        if self.cwd is not None and not Path(self.cwd).is_dir():
            raise ConfigError(f"cwd: {str(self.cwd)!r} is no folder")
        if self.command is None:
            self._refuse_what_is_for_a_command()

    def _refuse_what_is_for_a_command(self) -> None:
        for name in ("arguments", "cwd", "log"):
            if getattr(self, name):
                raise ConfigError(f"{name}: {getattr(self, name)!r} is for a command, and there is none")
        if self.port == 0 and (self.observation_space is None or self.action_space is None):
            raise ConfigError("port: 0, but who starts the simulation needs to know it: 5555 is ns3-gym's")

    def start(self) -> Start | None:
        """How a simulation is started; None where it is waited for."""
        if self.command is None:
            return None
        cwd = None if self.cwd is None else Path(self.cwd)
        return Start(Command(self.command, cwd), cwd, None if self.log is None else Path(self.log))


class Ns3GymEnv(gymnasium.Env[Any, Any]):
    """Drive any simulation that speaks ns3-gym's protocol.

    ## Description
    An ns-3 program with ns3-gym's module, `bbrgym serve`, or whatever else: each reset starts it anew, or waits for
    the next one. It runs until it says that it is over, or until the next reset or `close`. What it started ends with
    it, also if this process is killed.

    ## Action Space
    The simulation's own: `Box`, `Discrete`, `Tuple` or `Dict`. An action of another form is a `ConfigError`; whether
    it is within bounds is the simulation's affair.

    ## Observation Space
    The simulation's own. Whole numbers are int64 or uint64, others float32 or float64, as the simulation says. Where
    it has no observations or no actions, it is `Box(0, 0, (0,))`. Observations must be of this form; for a simulation
    that says one thing and sends another, give `observation_space`.

    ## Rewards
    The simulation's own, float32 on the wire.

    ## Starting State
    What the simulation shows before any action. The seed of `reset(seed=s)` is handed to the command; a reset without
    seed draws the next one from it. A simulation that is waited for cannot be told: a warning says so.
    `reset(options={"arguments": {...}})` changes arguments, from then on.

    ## Episode End
    `terminated` where the simulation says that the game is over, `truncated` where it has come to its end.

    ## Info
    What the simulation says, if it is a JSON object, as its items; any other text as `info`. And `seed`, which the
    simulation was told: None where it was waited for, unless it says it itself.

    ## Errors
    What is wrong with an argument is a `ConfigError`. What the simulation does wrong is a `ProtocolError`: it sent what
    it must not; or one of its children, `ProtocolTimeout` and `PeerGone`: it sent nothing in time, or has ended. They
    name what was awaited, for how long, how the command ended and what it last wrote. A reset then starts afresh.

    ## Arguments
    Those of `bbrgym.envs.ns3gym_env.Ns3GymOptions`, by name.

    ## Version History
    * v0: first.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    @arguments_of(Ns3GymOptions)
    def __init__(self, options: Ns3GymOptions) -> None:
        self._is_told = options.command is not None
        self._arguments = checked(options.arguments)
        self._seed: int | None = None
        self._state = _State.OVER
        self._session = Session(options.start(), options.port, options.host, options.timeout_s, options.grace_s)
        weakref.finalize(self, self._session.abandon)
        try:
            self._learn_spaces(options)
        except BaseException:
            self.close()
            raise

    # ---- Gymnasium ---------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a simulation, or waits for one; see Starting State."""
        if self._state is _State.CLOSED:
            raise gymnasium.error.ClosedEnvironmentError(f"{type(self).__name__} is closed: make another one")
        super().reset(seed=seed)
        has_new_arguments = self._take_options(options or {})
        if seed is not None and not self._is_told:
            gymnasium.logger.warn(f"seed={seed}: who starts the simulation gives it its seed, an environment cannot")
        is_as_asked = not self._is_told or (seed is None and not has_new_arguments)
        if self._state is not _State.INTRODUCED or not is_as_asked:
            self._introduce(seed)
        while not self._begin():  # it has not waited for this reset; perhaps another one does
            self._introduce(seed)
        observation, _, terminated, truncated, info = self._play(None)
        if terminated or truncated:
            raise ProtocolError("the simulation was over before its first step")
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Sends an action; what the simulation shows next."""
        if self._state is not _State.RUNNING:
            raise gymnasium.error.ResetNeeded("no episode is running: call reset() first")
        return self._play(pack(self.action_space, action, "action"))

    def close(self) -> None:
        """Ends the simulation and all that it started."""
        self._state = _State.CLOSED
        self._session.close()

    # ---- what it is made of ------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """On which it listens; with a command and `port=0` another one for each simulation."""
        return self._session.port

    def _learn_spaces(self, options: Ns3GymOptions) -> None:
        """Takes the spaces that are given, and asks a simulation for the others."""
        given = {name: getattr(options, name) for name in _SPACES}
        self._asked = [name for name, space in given.items() if space is None]
        self._told: dict[str, Space] = {}
        if self._asked:
            self._introduce(None)
        spaces = {**given, **self._told}
        self.observation_space, self.action_space = spaces["observation_space"], spaces["action_space"]

    def _take_options(self, options: Mapping[str, Any]) -> bool:
        """Takes the options of a reset; whether the simulation's arguments change."""
        unknown = sorted(set(options) - {"arguments"})
        if unknown:
            raise ConfigError(f"reset options: {unknown}, allowed is arguments")
        arguments = self._arguments | checked(options.get("arguments", {}))
        if arguments and not self._is_told:
            raise ConfigError(f"reset options: arguments {arguments} are for a command, and there is none")
        has_changed = arguments != self._arguments
        self._arguments = arguments
        return has_changed

    def _introduce(self, seed: int | None) -> None:
        """Starts the next simulation, up to its description of itself; it then waits to begin."""
        self._state = _State.OVER  # unless all goes well
        run_seed = draw_seed(self.np_random) if seed is None else seed
        init = self._session.introduce(run_seed, self._arguments)
        self._seed = run_seed if self._is_told else None
        with self._session.ending_on_error():
            for name in self._asked:
                self._compare_space(name, space_of(getattr(init, _SPACES[name]), name))
        self._state = _State.INTRODUCED

    def _compare_space(self, name: str, space: Space) -> None:
        known = self._told.setdefault(name, space)
        if space != known:
            raise ProtocolError(f"the simulation's {name} is {space}, expected {known} as at first")

    def _begin(self) -> bool:
        self._state = _State.OVER  # unless all goes well
        return self._session.begin()

    def _play(self, action: Message | None) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._state = _State.OVER  # unless all goes well
        message = self._session.play(action)
        with self._session.ending_on_error():
            observation = unpack(self.observation_space, message.obsData, "observation")
            terminated, truncated = _end_of(message)
        if terminated or truncated:
            self._session.dismiss()
        else:
            self._state = _State.RUNNING
        return observation, message.reward, terminated, truncated, {"seed": self._seed, **_told(message.info)}


def _end_of(state: Message) -> tuple[bool, bool]:
    """Terminated, truncated."""
    if not state.isGameOver:
        return False, False
    if state.reason not in (Reason.GameOver, Reason.SimulationEnd):
        raise ProtocolError(f"the simulation is over for the reason {state.reason}, allowed are 0 and 1")
    return state.reason == Reason.GameOver, state.reason == Reason.SimulationEnd


def _told(info: str) -> dict[str, Any]:
    """What a simulation says of itself, by name."""
    if not info:
        return {}
    try:
        told = from_json(info)
    except ValueError:  # it need not be JSON
        told = None
    return told if isinstance(told, dict) else {"info": info}
