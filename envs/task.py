# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v0 with its arguments as plain values: what a simulation outside of this package needs to be it.

`bbrgym task` writes it to a file; `bbrgym-opengym`, a program in an ns-3 tree, reads that (ns3-scratch/tune/task.h).
The program has the formulas of observation, action and reward; every name, range, weight and preset is from here.
"""

from __future__ import annotations

import json
from typing import Any

from bbrgym.envs.action import NOT_BELOW, WHOLE_NUMBERS, TunablesAction
from bbrgym.envs.control import Control
from bbrgym.envs.learners import Course
from bbrgym.envs.observation import SenderObservation
from bbrgym.envs.options import Options
from bbrgym.envs.reward import Reward
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import is_distribution
from bbrgym.scenario.files import is_sequence
from bbrgym.tunables import TUNABLES, VARIANTS

FORMAT = 1
"""Of the file; another one is another number."""


def task_of(options: Options) -> dict[str, Any]:
    """The task, ready for JSON.

    Raises:
        ConfigError: an option that is wrong, or that the program has not: draws, levels, critic.
    """
    _refuse_what_python_alone_has(options)
    course = Course.of(options.scenario, options.variant)  # type: ignore[arg-type] # no draw, no list: refused above
    slots = options.max_learners or len(course.learners)
    if slots < len(course.learners):
        raise ConfigError(
            f"max_learners: {slots}, but scenario {course.scenario.name!r} has {len(course.learners)} learner flows"
        )
    return {
        "format": FORMAT,
        "scenario": json.loads(course.scenario.resolved_json()),
        "learners": course.learners.tolist(),
        "control_interval_s": options.control_interval_s,
        "observation": _observation(options, slots),
        "action": _action(options),
        "reward": _reward(options),
    }


def _refuse_what_python_alone_has(options: Options) -> None:
    source = options.scenario
    if is_sequence(source) or callable(source) or is_distribution(source):
        raise ConfigError(
            "scenario: is a distribution or several, a task has one scenario, with a value for each range"
        )
    for name, given, without in (("levels", options.levels, None), ("flat", options.flat, False)):
        if given != without:
            raise ConfigError(f"{name}: {given!r}, a task has continuous actions only")
    if options.critic:
        raise ConfigError("critic: True, a task has the actor's observation only")


def _observation(options: Options, slots: int) -> dict[str, Any]:
    features = SenderObservation(slots, 0, options.features, options.stack, options.view).features
    shown = ("name", "field", "per", "scale", "low", "high")
    return {
        "view": options.view,
        "stack": options.stack,
        "slots": slots,
        "features": [{key: getattr(feature, key) for key in shown} for feature in features],
    }


def _action(options: Options) -> dict[str, Any]:
    tunables = TunablesAction(options.variant, options.tunables)
    control = Control(tunables, options.action_kind, step_size=options.step_size, max_change=options.max_change)
    return {
        "step": None if control.step is None else control.step.tolist(),
        "limit": None if control.limit is None else control.limit.tolist(),
        "tunables": [_tunable(name, options.variant) for name in tunables.names],
    }


def _tunable(name: str, variant: str) -> dict[str, Any]:
    tunable = TUNABLES[name]
    lower = NOT_BELOW.get(name)
    return {
        "name": name,
        "scale": "whole" if tunable.unit in WHOLE_NUMBERS else tunable.scale,
        "low": tunable.low,
        "high": tunable.high,
        "not_below": None if lower is None else {"name": lower, "preset": VARIANTS[variant].preset[lower]},
    }


def _reward(options: Options) -> dict[str, Any]:
    reward = Reward(options.reward)
    return {
        "terms": [{"name": name, "weight": weight} for name, weight in reward.weights.items()],
        "alpha": reward.alpha,
        "horizon_s": options.reward_horizon_s,
    }
