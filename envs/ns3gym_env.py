# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Ns3Gym-v0, an environment for any simulation that speaks ns3-gym's protocol."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

import gymnasium
from pydantic_core import from_json

from bbrgym.envs.options import FromArguments, arguments_of, take_plain_types
from bbrgym.envs.seeding import draw_seed
from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.command import Value, checked
from bbrgym.ns3gym.errors import PeerGone, ProtocolError
from bbrgym.ns3gym.messages import Message, Reason
from bbrgym.ns3gym.session import Session
from bbrgym.ns3gym.spaces import Space, pack, space_of, unpack
from bbrgym.schema import shown
from bbrgym.worlds import check_seed

_MAX_GRACE_S = 1e6
_SESSION = ("command", "cwd", "log", "grace_s", "port", "host", "timeout_s")  # options of its `Session`
_SPACES = {"observation_space": "obsSpace", "action_space": "actSpace"}  # and what a SimInitMsg calls them


class _State(Enum):
    OVER = auto()
    INTRODUCED = auto()  # a simulation has introduced itself and waits to begin
    RUNNING = auto()
    CLOSED = auto()


@dataclass(frozen=True, kw_only=True)
class Ns3GymOptions:
    """Arguments of the environment.

    Attributes:
        command: command line that starts a simulation: a list of words, or a text that is split into words.
            `bbrgym.ns3gym.command` says what follows it. Default: wait for a simulation that is started elsewhere.
        arguments: arguments of the simulation, by name.
        port: port on which to listen; 0 selects a free one.
        host: address on which to listen. The default accepts connections from this machine only.
        cwd: directory in which the command runs. Default: the current one.
        log: file to which the command's output is appended. Default: none.
        timeout_s: longest wait for a simulation, and then for each of its messages, in seconds.
        grace_s: longest time that a simulation may take to end, once told to stop, before it is killed, in seconds.
        observation_space: the simulation's observation space; it replaces the one that the simulation describes. With
            both spaces given no simulation is started before the first reset. Default: the simulation's description.
        action_space: the same for actions.
        strict: whether an observation outside its space is an error instead of a warning.
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
    strict: bool = False

    def __post_init__(self) -> None:
        take_plain_types(self)
        if not 0.0 <= self.grace_s <= _MAX_GRACE_S:
            raise ConfigError(f"grace_s: {self.grace_s}, allowed is a number of seconds from 0 to 1e6")
        has_spaces = self.observation_space is not None and self.action_space is not None
        for name in ("cwd", "log", "arguments"):
            if getattr(self, name) and self.command is None:
                raise ConfigError(f"{name}: {getattr(self, name)!r} is for a command, and there is none")
        if self.command is None and self.port == 0 and not has_spaces:
            raise ConfigError("port: 0, expected the port that the simulation connects to; ns3-gym's is 5555")


class Ns3GymEnv(FromArguments, gymnasium.Env[Any, Any]):
    """Drive any simulation that speaks ns3-gym's protocol.

    ## Description
    An ns-3 program with ns3-gym's module, `bbrgym serve`, or any other: each reset starts it again, or waits for the
    next one. It runs until it reports its end, or until the next reset or `close`. All processes that it has started
    end with it, even if this process is killed.

    ## Action Space
    The simulation's own: `Box`, `Discrete`, `Tuple` or `Dict`. An action of another form is a `ConfigError`. The
    bounds of a `Box` are not checked here.

    ## Observation Space
    The simulation's own. Integers are int64 or uint64, floats float32 or float64, as the simulation declares. A
    simulation without observations or actions has `Box(0, 0, (0,))`. An observation of another form is a
    `ProtocolError`; if the simulation describes another space than it uses, give `observation_space`. An observation
    of this form but outside the bounds is returned with a warning, the first time; with `strict=True` it is a
    `ProtocolError`.

    ## Rewards
    The simulation's own, float32 on the wire.

    ## Starting State
    The simulation's state before any action. The seed of `reset(seed=s)` is passed to the command; a reset without
    seed draws the next one from it. A simulation that is waited for does not receive a seed; a warning says so.
    `reset(options={"arguments": {...}})` changes arguments, from then on.

    ## Episode End
    `terminated` if the simulation reports `GameOver`, `truncated` if it reports `SimulationEnd`.

    ## Info
    The items of the simulation's info if that is a JSON object; any other text as `info`. And `seed`, which was passed
    to the simulation: None for one that was waited for, unless its own info has it.

    ## Errors
    A wrong argument is a `ConfigError`. A simulation that sends something wrong is a `ProtocolError`; one that sends
    nothing in time or has ended is one of its subclasses, `ProtocolTimeout` and `PeerGone`. They name the message that
    was awaited, for how long, how the command ended and its last output. The next reset starts a new simulation.

    ## Example
        >>> import gymnasium, bbrgym
        >>> served = "bbrgym serve scenario=steady world=twin"
        >>> with gymnasium.make("bbrgym/Ns3Gym-v0", command=served) as env:
        ...     observation, info = env.reset(seed=1)
        ...     observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> observation.shape == env.observation_space.shape
        True

    ## Arguments
    Those of `bbrgym.envs.ns3gym_env.Ns3GymOptions`, by name.

    ## Version History
    * v0: first.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    @arguments_of(Ns3GymOptions)
    def __init__(self, options: Ns3GymOptions) -> None:
        self._has_command = options.command is not None
        self._is_strict = options.strict
        self._has_warned = False
        self._seed: int | None = None
        self._has_been_used = False
        self._state = _State.OVER
        self._session = Session(**{name: getattr(options, name) for name in _SESSION})
        weakref.finalize(self, self._session.close, 0.0)
        self._asked = {name: field_name for name, field_name in _SPACES.items() if getattr(options, name) is None}
        self._described: dict[str, Space] = {}
        try:
            self._arguments = checked(options.arguments)
            if self._asked:
                self._introduce(None)
            spaces = {name: self._described.get(name, getattr(options, name)) for name in _SPACES}
            self.observation_space, self.action_space = spaces["observation_space"], spaces["action_space"]
        except BaseException:
            self.close()
            raise

    # ---- Gymnasium ---------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a simulation, or wait for one; see Starting State."""
        if self._state is _State.CLOSED:
            raise gymnasium.error.ClosedEnvironmentError(f"{type(self).__name__} is closed: make another one")
        self._has_been_used = True
        seed = None if seed is None else check_seed(seed)
        super().reset(seed=seed)
        has_new_arguments = self._take_options(options or {})
        if seed is not None and not self._has_command:
            gymnasium.logger.warn(f"seed={seed}: not passed to the simulation, which is started elsewhere")
        is_as_asked = not self._has_command or (seed is None and not has_new_arguments)
        if self._state is not _State.INTRODUCED or not is_as_asked:
            self._introduce(seed)
        observation, _, terminated, truncated, info = self._shown(self._begin())
        if terminated or truncated:
            raise ProtocolError("the simulation was over before its first step")
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Send an action, and return the simulation's next state."""
        if self._state is not _State.RUNNING:
            raise gymnasium.error.ResetNeeded("no episode is running: call reset() first")
        message = pack(self.action_space, action, "action")
        self._state = _State.OVER  # unless all goes well
        return self._shown(self._session.answer(pb.EnvActMsg(actData=message)))

    def close(self) -> None:
        """End the simulation and all processes that the simulation has started."""
        self._has_been_used = True
        self._state = _State.CLOSED
        self._session.close()

    # ---- internals ---------------------------------------------------------------------------------------------

    def holds_a_run(self) -> bool:
        """Return whether the environment has been reset or closed."""
        return self._has_been_used

    @property
    def port(self) -> int:
        """Port on which the environment listens."""
        return self._session.agent.port

    def _take_options(self, options: Mapping[str, Any]) -> bool:
        """Take the options of a reset; return whether the simulation's arguments change."""
        unknown = sorted(set(options) - {"arguments"})
        if unknown:
            raise ConfigError(f"reset options: {unknown}, allowed is arguments")
        given = checked(options.get("arguments", {}))
        if given and not self._has_command:
            raise ConfigError(f"arguments: {given!r} is for a command, and there is none")
        before, self._arguments = self._arguments, self._arguments | given
        return self._arguments != before

    def _introduce(self, seed: int | None) -> None:
        """Start the next simulation up to the introduction, after which the simulation waits to begin."""
        self._state = _State.OVER  # unless all goes well
        run_seed = draw_seed(self.np_random) if seed is None else seed
        init = self._session.introduce(run_seed, self._arguments)
        self._seed = run_seed if self._has_command else None
        with self._session.ending_on_error():
            for name, field_name in self._asked.items():
                space = space_of(getattr(init, field_name), name)
                known = self._described.setdefault(name, space)
                if space != known:
                    raise ProtocolError(f"the simulation's {name} is {space}, expected {known} as at first")
        self._state = _State.INTRODUCED

    def _begin(self) -> Message:
        """Let the simulation begin, or the next one if one that was waited for has gone; return its first state."""
        self._state = _State.OVER  # unless all goes well
        try:
            return self._session.answer(pb.SimInitAck(done=True))
        except PeerGone:
            if self._has_command:
                raise
        self._introduce(None)
        return self._begin()

    def _shown(self, message: Message) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return what a state says: observation, reward, terminated, truncated and info."""
        with self._session.ending_on_error():
            observation = unpack(self.observation_space, message.obsData, "observation")
            self._check_bounds(observation)
            if message.isGameOver and message.reason not in set(Reason):
                raise ProtocolError(f"the simulation is over for the reason {message.reason}, allowed are 0 and 1")
        terminated = message.isGameOver and message.reason == Reason.GameOver
        truncated = message.isGameOver and not terminated
        if message.isGameOver:
            self._session.agent.stop()  # without waiting for the simulation's end
        else:
            self._state = _State.RUNNING
        return observation, message.reward, terminated, truncated, {"seed": self._seed, **_items_of(message.info)}

    def _check_bounds(self, observation: Any) -> None:
        """Warn of the first observation outside its space; if strict, raise ProtocolError for any."""
        if (self._has_warned and not self._is_strict) or self.observation_space.contains(observation):
            return
        problem = f"observation: is {shown(observation)}, outside of {self.observation_space}"
        if self._is_strict:
            raise ProtocolError(problem)
        self._has_warned = True
        gymnasium.logger.warn(f"{problem}; warned of once (strict=True makes it an error)")


def _items_of(info: str) -> dict[str, Any]:
    """Return the items of a simulation's info."""
    if not info:
        return {}
    try:
        items = from_json(info)
    except ValueError:  # it need not be JSON
        items = None
    return items if isinstance(items, dict) else {"info": info}
