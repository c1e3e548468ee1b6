# SPDX-License-Identifier: GPL-2.0-only
"""The arguments of the environments, declared once, and how their constructors take them."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from bbrgym.envs.action import ActionKind
from bbrgym.envs.features import View
from bbrgym.envs.reward import RewardSource
from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.files import Source
from bbrgym.worlds import DEFAULT_TIMEOUT_S, REFERENCE_WORLD, Isolation

Draw: TypeAlias = Callable[[int], Source]
"""Draws the scenario of a run from the run's seed; the same seed must give the same scenario.

An attribute `max_learners` may say how many learner flows a draw has at most.
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What all environments take; the batches check what is not checked here.

    Attributes:
        world: name of the world, see `bbrgym.worlds.registered_worlds`.
        scenario: a name, a path, a mapping or a Scenario; or the same of a distribution
            (`bbrgym.scenario.distribution`), or any function that draws one of these from a run's seed, called once at
            each reset (and with seed 0 when the environment is made, unless it has an attribute `max_learners`); or
            a list of these, one for each environment.
        max_learners: the most learner flows of any run. Without: as many as the scenario has; or as the attribute
            `max_learners` of what draws it says, or its first scenario has. A run with more is a `ConfigError`.
        variant: what the learner flows run.
        tunables: names of those to set; all of the variant without.
        control_interval_s: simulated seconds of a step.
        action_kind: `absolute` (an action is the setting) or `relative` (it moves the setting).
        step_size: how far a relative action of 1 moves a coordinate of the setting, which runs from -1 to 1.
        max_change: the farthest that any action moves a coordinate in a step; everywhere without.
        levels: of discrete actions; continuous ones without.
        flat: one number for the levels of all tunables.
        features: of the observation; all without.
        stack: how many intervals an observation holds.
        view: `each` (a block of numbers for each learner flow) or `pooled` (over all of them).
        critic: whether what only an onlooker knows stands beside the observation: a dictionary of `actor` and `critic`.
        reward: a preset's name; or weights by term, and perhaps `alpha`; weight 0 shows a term without paying for it.
        reward_horizon_s: over which the goodput and RTT that are paid for are averaged (exponentially); the last
            interval alone without.
        isolation: whether a world runs in a process of its own, see `bbrgym.make_world`.
        timeout_s: the longest wall time of a start, a reset, and of each simulated second, see there.
        world_options: the world's own options, by name, see there. Default: none.
        render_mode: `rgb_array` draws the run so far.
        flow_capacity: the most flows that a drawn scenario will have, so that no memory is laid out anew; only a hint.
        threads: in which many environments run; as many as this process has cores without.
    """

    world: str = REFERENCE_WORLD
    scenario: Source | Draw | Sequence[Source | Draw] = "steady"
    max_learners: int | None = None
    variant: str = "bbq"
    tunables: Sequence[str] | None = None
    control_interval_s: float = 0.1
    action_kind: ActionKind = "absolute"
    step_size: float = 0.1
    max_change: float | None = None
    levels: int | None = None
    flat: bool = False
    features: Sequence[str] | None = None
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
        if self.max_learners is not None and (not isinstance(self.max_learners, int) or self.max_learners < 1):
            raise ConfigError(f"max_learners: {self.max_learners!r}, allowed are whole numbers from 1")
        if not 0.0 < self.control_interval_s < math.inf:
            raise ConfigError(f"control_interval_s: {self.control_interval_s}, allowed is a finite number above 0")
        if self.reward_horizon_s is not None and not 0.0 < self.reward_horizon_s < math.inf:
            raise ConfigError(f"reward_horizon_s: {self.reward_horizon_s}, allowed is a finite number above 0, or None")
        if self.render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode: {self.render_mode!r}, allowed are None and 'rgb_array'")


P = ParamSpec("P")
E = TypeVar("E")
O = TypeVar("O")  # noqa: E741 - options


def arguments_of(options: Callable[P, O]) -> Callable[[Callable[[E, O], None]], Callable[Concatenate[E, P], None]]:
    """Makes an `__init__` that takes options one that takes their fields as arguments, which are declared there only.

    An argument that is no field is a `ConfigError`.
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

        itself = next(iter(inspect.signature(init).parameters.values()))
        shown: Any = init_from_arguments
        shown.__signature__ = signature.replace(parameters=[itself, *signature.parameters.values()])
        return init_from_arguments

    return decorate
