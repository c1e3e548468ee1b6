# SPDX-License-Identifier: GPL-2.0-only
"""Arguments of the environments as commands have them: what is under `env`, `action` and beside them (conf/)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bbrgym.distribution import is_distribution, load_distribution
from bbrgym.envs.options import Options
from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario_files import load_scenario
from bbrgym.validation import FieldProblem, shown

#: Arguments by their names under `action`.
_OF_ACTION = {
    "kind": "action_kind",
    "tunables": "tunables",
    "step_size": "step_size",
    "max_change": "max_change",
    "levels": "levels",
    "flat": "flat",
}
#: Those that are neither under `env` nor under `action`.
_ELSEWHERE = (
    "world",
    "scenario",
    "variant",
    "reward",
    "isolation",
    "timeout_s",
    "render_mode",
    "flow_capacity",
    "threads",
)


def arguments_from(env: Mapping[str, Any], action: Mapping[str, Any]) -> dict[str, Any]:
    """What is under `env` and `action`, by the names that `Options` has for it.

    Raises:
        FieldProblem: there is no such option.
    """
    known = [field.name for field in fields(Options) if field.name not in (*_ELSEWHERE, *_OF_ACTION.values())]
    for name in action:
        if name not in _OF_ACTION:
            raise FieldProblem(f"action.{name}", f"is no option of actions; {nearest(name, _OF_ACTION)}")
    places = {argument: f"action.{name}" for name, argument in _OF_ACTION.items()}
    for name in env:
        if name in places:
            raise FieldProblem(f"env.{name}", f"is called {places[name]} here")
        if name not in known:
            raise FieldProblem(f"env.{name}", f"is no argument of the environments; {nearest(name, known)}")
    return {**env, **{_OF_ACTION[name]: value for name, value in action.items()}}


def options_from(config: Mapping[str, Any], **others: Any) -> Options:
    """The arguments that a composed configuration asks for.

    Args:
        config: `scenario`, `variant`, `env`, `action` and `reward`, and whatever else a command has.
        others: further arguments.

    Raises:
        ConfigError, ScenarioError: names what is wrong, its value and what is allowed.
    """
    for name in ("scenario", "env", "action"):
        if not isinstance(config[name], dict):
            raise ConfigError(f"{name}: is {shown(config[name])}, expected a mapping of options")
    source = config["scenario"]
    try:
        arguments = arguments_from(config["env"], config["action"])
    except FieldProblem as error:
        raise ConfigError(f"{error.path}: {error.problem}") from None
    return Options(
        **arguments,
        scenario=load_distribution(source) if is_distribution(source) else load_scenario(source),
        variant=config["variant"],
        reward=config["reward"],
        **others,
    )
