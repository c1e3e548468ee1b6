# SPDX-License-Identifier: GPL-2.0-only
"""Arguments of the environments, declared once, and constructors that take them."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from bbrgym.drawing import check_drawing
from bbrgym.envs.action import ActionKind
from bbrgym.envs.episode_spec import ScenarioSampler, check_max_learners
from bbrgym.envs.features import View
from bbrgym.envs.library import LibrarySource
from bbrgym.envs.observation import FeatureList
from bbrgym.envs.reward import RewardSource
from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.files import Source
from bbrgym.worlds import DEFAULT_TIMEOUT_S, REFERENCE_WORLD, Isolation


@dataclass(frozen=True, kw_only=True)
class Options:
    """Arguments of all environments.

    Attributes:
        world: name of the world, see `bbrgym.worlds.registered_worlds`.
        scenario: a name, a path, a mapping or a Scenario; or one of these of a distribution
            (`bbrgym.scenario.distribution`); or a function that draws one of these from the seed of an episode, called
            once at each reset (and with seed 0 when the environment is made, unless it has an attribute
            `max_learners`); or a list of these, one for each environment.
        max_learners: largest number of learner flows in an episode; an episode with more is a `ConfigError`. Default:
            that of the scenario; of a function its attribute `max_learners`, or the number in its draw of seed 0.
        variant: variant that the learner flows run.
        tunables: names of the controlled tunables. Default: all of the variant; those of the library, if there is one.
        control_interval_s: simulated seconds between two measurements; of a step, unless actions are held.
        action_kind: `absolute` (an action is the coordinates of the tunables), `relative` (it moves them) or `library`
            (it chooses one of some settings).
        step_size: distance by which a relative action of 1 moves a coordinate, which runs from -1 to 1.
        max_change: largest distance that a coordinate moves in a step. Default: no limit.
        levels: number of levels of discrete actions. Default: continuous actions.
        flat: whether one number stands for the levels of all tunables.
        hold_intervals: number of control intervals of a step, for which its action is held; features are of each of
            them, the reward terms of a step are means over them.
        library: settings that actions of kind `library` choose from: a file or its contents (`bbrgym.envs.library`).
        features: names of the features of the observation; or `instant` (all of the last interval alone) or `memory`
            (these, and all with a memory of the episode).
        stack: number of intervals in an observation.
        view: `each` (a block of numbers for each learner flow) or `pooled` (over all of them); where each learner flow
            has an agent, `each` (its own numbers) or `host` (these, and pooled ones of its host's learner flows).
        critic: whether the observation is a dictionary of `actor` and `critic`, the privileged observation.
        reward: name of a preset; or weights by term, and optionally `alpha`. A term of weight 0 is shown but not
            rewarded.
        reward_horizon_s: time constant of the exponential means of goodput and RTT that are rewarded. Default: the last
            interval alone.
        isolation: `process` (a worker process for each world) or `none`, see `bbrgym.make_world`. Default: that of the
            world.
        timeout_s: longest wall time of a start, a reset, and of each simulated second, in seconds.
        world_options: the world's own options by name, see `bbrgym.make_world`. Default: none.
        render_mode: `rgb_array` draws the episode so far.
        flow_capacity: largest number of flows expected in a drawn scenario. It only spares a new layout of the memory.
        threads: number of threads in which environments run. Default: the number of cores of this process.
    """

    world: str = REFERENCE_WORLD
    scenario: Source | ScenarioSampler | Sequence[Source | ScenarioSampler] = "steady"
    max_learners: int | None = None
    variant: str = "bbq"
    tunables: Sequence[str] | None = None
    control_interval_s: float = 0.1
    action_kind: ActionKind = "absolute"
    step_size: float = 0.1
    max_change: float | None = None
    levels: int | None = None
    flat: bool = False
    hold_intervals: int = 1
    library: LibrarySource | None = None
    features: Sequence[str] | FeatureList = "instant"
    stack: int = 1
    view: View = "each"
    critic: bool = False
    reward: RewardSource = "proportional"
    reward_horizon_s: float | None = None
    isolation: Isolation | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    world_options: Mapping[str, Any] | None = None
    render_mode: str | None = None
    flow_capacity: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.max_learners is not None:
            check_max_learners(self.max_learners)
        if not 0.0 < self.control_interval_s < math.inf:
            raise ConfigError(f"control_interval_s: {self.control_interval_s}, allowed is a finite number above 0")
        is_whole = isinstance(self.hold_intervals, int) and not isinstance(self.hold_intervals, bool)
        if not is_whole or self.hold_intervals < 1:
            raise ConfigError(f"hold_intervals: {self.hold_intervals!r}, allowed are whole numbers from 1")
        if self.reward_horizon_s is not None and not 0.0 < self.reward_horizon_s < math.inf:
            raise ConfigError(f"reward_horizon_s: {self.reward_horizon_s}, allowed is a finite number above 0, or None")
        if self.render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode: {self.render_mode!r}, allowed are None and 'rgb_array'")
        if self.render_mode is not None:
            check_drawing(f"render_mode={self.render_mode!r}")


P = ParamSpec("P")
E = TypeVar("E")
O = TypeVar("O")  # noqa: E741 - of options


def arguments_of(options: Callable[P, O]) -> Callable[[Callable[[E, O], None]], Callable[Concatenate[E, P], None]]:
    """Return a decorator that makes an `__init__` of options take the fields of the options as arguments.

    So arguments are declared in the options alone, and signatures show them. An unknown argument is a `ConfigError`.
    """
    signature = inspect.signature(options)

    def decorate(init: Callable[[E, O], None]) -> Callable[Concatenate[E, P], None]:
        @functools.wraps(init)
        def init_from_arguments(self: E, /, *args: P.args, **kwargs: P.kwargs) -> None:
            for name in kwargs:
                if name not in signature.parameters:
                    raise ConfigError(
                        f"{type(self).__name__}: {name!r} is no argument; {nearest(name, signature.parameters)}"
                    )
            init(self, options(*args, **kwargs))

        self_parameter = next(iter(inspect.signature(init).parameters.values()))
        shown: Any = init_from_arguments
        shown.__signature__ = signature.replace(parameters=[self_parameter, *signature.parameters.values()])
        return init_from_arguments

    return decorate
