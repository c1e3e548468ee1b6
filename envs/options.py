# SPDX-License-Identifier: GPL-2.0-only
"""Arguments of the environments, declared once, and constructors that take these arguments."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Concatenate, ParamSpec, SupportsIndex, TypeVar, Union, get_args, get_origin, get_type_hints

import gymnasium
from gymnasium.utils import EzPickle

from bbrgym.envs.action import ActionKind
from bbrgym.envs.episode_spec import ScenarioSampler, check_max_tuned
from bbrgym.envs.features import View
from bbrgym.envs.library import LibrarySource, library_of_arms
from bbrgym.envs.observation import FeatureList
from bbrgym.envs.reward import RewardSource
from bbrgym.errors import ArgumentError, ConfigError, MissingExtraError, check_matplotlib, nearest
from bbrgym.scenario.files import Source
from bbrgym.schema import argument, plain
from bbrgym.worlds import DEFAULT_TIMEOUT_S, FAST_WORLD, Isolation
from bbrgym.worlds.score import ScoreKind


@dataclass(frozen=True, kw_only=True)
class Options:
    """Arguments of all environments.

    Attributes:
        world: name of the world, see `bbrgym.worlds.registered_worlds`.
        scenario: a name, a path, a mapping or a Scenario; or one of these of a distribution
            (`bbrgym.scenario.distribution`); or a function that draws one of these from the seed of an episode, called
            once at each reset (and with seed 0 when the environment is made, unless it has an attribute
            `max_tuned`); or a list of these, one for each environment.
        max_tuned: largest number of tuned flows in an episode; an episode with more is a `ConfigError`. Default:
            that of the scenario; of a function its attribute `max_tuned`, or the number in its draw of seed 0.
        variant: variant that the tuned flows run.
        tunables: names of the controlled tunables. Default: all of the variant but those of
            `bbrgym.envs.scaling.NAMED_ONLY`; those of the library, if there is one.
        control_interval_s: simulated seconds between two measurements; of a step, unless actions are held.
        control_interval_rtts: smoothed RTTs between two measurements, instead: of the tuned flow with the longest, as
            last measured; before, its propagation delay. Not where each flow has an agent.
        action_kind: `absolute` (a normalised action sets the tunables), `relative` (it moves them), `library` (it
            chooses one of some settings) or `switch` (it chooses an algorithm of variant `switch`).
        step_size: distance by which a relative action of 1 moves a normalised tunable, which runs from -1 to 1.
        max_change: largest distance that a normalised tunable moves in a step. Default: no limit.
        levels: number of levels of discrete actions. Default: continuous actions.
        flat: whether one number stands for the levels of all tunables.
        hold_intervals: number of control intervals of a step, for which its action is held; features are of each of
            them, the reward terms of a step are means over them.
        library: settings that actions of kind `library` choose from: a file or its contents (`bbrgym.envs.library`).
        arms: algorithms that actions of kind `switch` choose from, in the order of the actions; one stays for
            `hold_intervals` at least.
        features: names of the features of the observation; or `instant` (all of the last interval alone) or `memory`
            (these, and running statistics of the episode).
        frame_stack: number of intervals in an observation.
        view: `each` (a block of numbers for each tuned flow) or `pooled` (over all of them); where each tuned flow
            has an agent, `each` alone.
        critic: whether the observation is a dictionary of `actor` and `critic`, the privileged observation.
        score: flows whose measurements are rewarded: `network` (tuned and fixed ones) or `own` (tuned ones).
        reward: name of a preset; or weights by term, and optionally `alpha`. A term of weight 0 is shown but not
            rewarded.
        reward_horizon_s: time constant of the exponential means of goodput and RTT that are rewarded. None: the last
            interval alone.
        isolation: `process` (a worker process for each world) or `none`, see `bbrgym.make_world`. Default: that of the
            world.
        timeout_s: longest wall time of a start, a reset, and of each simulated second, in seconds.
        world_options: the world's own options by name, see `bbrgym.make_world`. Default: none.
        render_mode: `rgb_array` draws the episode so far.
        numeric_infos: whether infos hold NumPy's numbers and arrays alone, always under the same names: those of nested
            ones are joined, as in `reward_terms.delay`. Rows of `flow_stats` beyond the flows are 0.
        flow_capacity: largest number of flows expected in a drawn scenario. It only spares a new layout of the memory.
        threads: number of threads in which environments run. Default: the number of cores of this process.
    """

    world: str = FAST_WORLD
    scenario: Source | ScenarioSampler | Sequence[Source | ScenarioSampler] = "wan_mix"
    max_tuned: int | None = None
    variant: str = "bbr-mix"
    tunables: Sequence[str] | None = None
    control_interval_s: float = 0.5
    control_interval_rtts: float | None = None
    action_kind: ActionKind = "absolute"
    step_size: float = 0.1
    max_change: float | None = None
    levels: int | None = None
    flat: bool = False
    hold_intervals: int = 1
    library: LibrarySource | None = None
    arms: Sequence[str] | None = None
    features: Sequence[str] | FeatureList = "instant"
    frame_stack: int = 3
    view: View = "pooled"
    critic: bool = False
    score: ScoreKind = "network"
    reward: RewardSource = "proportional"
    reward_horizon_s: float | None = 5.0
    isolation: Isolation | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    world_options: Mapping[str, Any] | None = None
    render_mode: str | None = None
    numeric_infos: bool = False
    flow_capacity: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        take_plain_types(self)
        if self.max_tuned is not None:
            check_max_tuned(self.max_tuned)
        if not 0.0 < self.control_interval_s < math.inf:
            raise ConfigError(f"control_interval_s: {self.control_interval_s}, allowed is a finite number above 0")
        rtts = self.control_interval_rtts
        if rtts is not None and not 0.0 < rtts < math.inf:
            raise ConfigError(f"control_interval_rtts: {rtts}, allowed is a finite number above 0, or None")
        if self.action_kind == "switch":
            object.__setattr__(self, "library", library_of_arms(self.arms or (), self.variant, self.library))
            for name, value in (("action_kind", "library"), ("arms", None)):  # that is all that it is
                object.__setattr__(self, name, value)
        elif self.arms is not None:
            raise ConfigError(f"arms: {self.arms!r} with action_kind {self.action_kind!r}, allowed is 'switch'")
        if self.hold_intervals < 1:
            raise ConfigError(f"hold_intervals: {self.hold_intervals!r}, allowed are whole numbers from 1")
        if self.score not in get_args(ScoreKind):
            raise ConfigError(f"score: {self.score!r}, allowed are {' and '.join(get_args(ScoreKind))}")
        if self.reward_horizon_s is not None and not 0.0 < self.reward_horizon_s < math.inf:
            raise ConfigError(f"reward_horizon_s: {self.reward_horizon_s}, allowed is a finite number above 0, or None")
        if self.render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode: {self.render_mode!r}, allowed are None and 'rgb_array'")
        if self.render_mode is not None:
            try:
                check_matplotlib(f"render_mode={self.render_mode!r}")
            except MissingExtraError as error:  # others ask for it as a matter of course, and may never render
                gymnasium.logger.warn(f"{error}; render() will fail")

    def fixed_interval_s(self, what: str) -> float:
        """Return the control interval.

        Raises:
            ConfigError: intervals last round trips, which ``what`` does not support.
        """
        if self.control_interval_rtts is not None:
            raise ConfigError(f"control_interval_rtts: {self.control_interval_rtts}, allowed is None {what}")
        return self.control_interval_s

    @property
    def rewards_network(self) -> bool:
        """Return whether other flows than the tuned ones are rewarded."""
        return self.score == "network"


_ALLOWED = {
    float: "is a number",
    int: "are whole numbers",
    bool: "are True and False",
    str: "is a text",
    list: "is a list of names",
}


def take_plain_types(options: Any) -> None:
    """Convert the fields of a frozen dataclass to Python's own types; check those that are declared with one of them.

    Raises:
        ConfigError: a value has another type than it is declared with.
    """
    declared_in: Any = type(options)  # mypy holds no class of a dataclass hashable
    for name, (kind, allowed, may_be_none) in _declared(declared_in).items():
        value = getattr(options, name)
        if isinstance(value, gymnasium.Space):  # some are mappings or sequences too
            continue
        if kind is None:
            value = plain(value)
        elif value is not None or not may_be_none:
            value = argument(name, value, kind, allowed)
        object.__setattr__(options, name, value)


@functools.cache
def _declared(options: Any) -> dict[str, tuple[type | None, str, bool]]:
    """Return each field's kind (None: not a plain one), what is allowed, and whether None is allowed."""
    hints, found = get_type_hints(options), {}
    for field in dataclasses.fields(options):
        hint = hints[field.name]
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kinds = [list if part == Sequence[str] else part for part in parts if part is not type(None)]
        kind = kinds[0] if len(kinds) == 1 and kinds[0] in _ALLOWED else None
        allowed = "" if kind is None else _ALLOWED[kind]
        if kind is int:
            allowed += f" from {0 if field.default == 0 else 1}"
        found[field.name] = (kind, allowed, type(None) in parts)
    return found


P = ParamSpec("P")
E = TypeVar("E", bound="FromArguments")
O = TypeVar("O")  # noqa: E741 - of options


class FromArguments:
    """Base of environments that are copied and pickled as their arguments until they hold something that runs."""

    _given: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # by `arguments_of`

    def holds_a_run(self) -> bool:
        """Return whether a copy from the arguments would be another environment than this one is by now."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        if isinstance(self, EzPickle):  # a derived class with arguments of its own
            return super().__reduce_ex__(protocol)
        takes_given = getattr(type(self).__init__, "_takes_options", False)
        if self._given is None or not takes_given or self.holds_a_run():
            raise TypeError(
                f"{type(self).__name__} cannot be copied or pickled from its first reset on, since it holds what runs: "
                "copy it before, or make another one where it is needed"
            )
        spec = getattr(self, "spec", None)
        return _made, (type(self), *self._given), None if spec is None else {"spec": spec}


def _made(kind: Callable[..., E], args: tuple[Any, ...], kwargs: dict[str, Any]) -> E:
    return kind(*args, **kwargs)


def arguments_of(options: Callable[P, O]) -> Callable[[Callable[[E, O], None]], Callable[Concatenate[E, P], None]]:
    """Return a decorator that makes an `__init__` of options take the fields of the options as arguments.

    So arguments are declared in the options alone, and signatures show them. An unknown argument is an `ArgumentError`.
    The environment is pickled as its arguments, see `FromArguments`.
    """
    signature = inspect.signature(options)
    see = f"help({getattr(options, '__module__', '')}.{getattr(options, '__qualname__', '')})"

    def decorate(init: Callable[[E, O], None]) -> Callable[Concatenate[E, P], None]:
        @functools.wraps(init)
        def init_from_arguments(self: E, /, *args: P.args, **kwargs: P.kwargs) -> None:
            for name in kwargs:
                if name not in signature.parameters:
                    raise ArgumentError(
                        f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}; "
                        f"{nearest(name, signature.parameters, see)}"
                    )
            self._given = (args, kwargs)
            init(self, options(*args, **kwargs))

        self_parameter = next(iter(inspect.signature(init).parameters.values()))
        shown: Any = init_from_arguments
        shown.__signature__ = signature.replace(parameters=[self_parameter, *signature.parameters.values()])
        shown._takes_options = True
        return init_from_arguments

    return decorate
