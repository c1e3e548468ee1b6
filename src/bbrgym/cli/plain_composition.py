# SPDX-License-Identifier: GPL-2.0-only
"""Compose a command's configuration without Hydra, which takes longer to import than a short run takes.

That is for plain command lines alone: no flags, each option once, with a word, a path, a number or a list of these as
value; choices of shipped scenarios, loggers and worlds; options that the command's file has, and plain fields that the
scenario has. Any other command line, a wrong one included, is for `bbrgym.cli.composition`, which gives the same
configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from pydantic import BaseModel

from bbrgym.config.option_types import plain_types
from bbrgym.errors import ConfigError
from bbrgym.untrusted_files import read_yaml
from bbrgym.worlds import registered_worlds

_OPTION = re.compile(r"([a-z][\w.]*)=(.+)", re.ASCII)
_WORD = re.compile(r"(?!(?:true|false|null|nan|inf)$)[a-z_][\w-]*|/?[a-z_][\w-]*(?:/[a-z_][\w-]*)+", re.ASCII | re.I)
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d{0,8})\.\d{1,9}", re.ASCII)
_CONSTANTS = {"true": True, "false": False, "null": None}
_PLUGINS = {"bbrgym_sweeper", "hydra_joblib_launcher", "hydra_submitit_launcher", "hydra_ray_launcher"}  # add no folder


class _NotPlain(Exception):
    """The command line is for Hydra."""


def plain_config(name: str, overrides: Sequence[str], models: Sequence[type[BaseModel]]) -> dict[str, Any] | None:
    """Return the configuration ``conf/<name>.yaml`` with overrides applied, as plain values; None if it is for Hydra.

    Args:
        name: of the command.
        overrides: of its command line.
        models: whose plain fields say the types of the options of the same names.
    """
    plugins = find_spec("hydra_plugins")
    if {one.name for one in iter_modules(plugins.submodule_search_locations if plugins else ())} - _PLUGINS:
        return None
    try:
        return _composed(name, overrides, plain_types(models))
    except (_NotPlain, ConfigError):
        return None


def _composed(name: str, overrides: Sequence[str], types: Mapping[str, tuple[type, bool]]) -> dict[str, Any]:
    given = dict(map(_parsed, overrides))
    config = _file(f"{name}.yaml")
    groups = {str(key): value for one in config.pop("defaults") if isinstance(one, dict) for key, value in one.items()}
    if len(given) < len(overrides) or {"scenario", "world"} - set(groups):
        raise _NotPlain
    for group, default in groups.items():
        choice = given.pop(group, default)
        if group == "world":
            config[group] = _worlds(choice)
        elif choice is not None:
            config[group] = _file(f"{group}/{choice}.yaml")
            if group == "scenario":
                config[group].setdefault("name", choice)
    for key, value in given.items():
        *path, last = key.split(".")
        at = config
        for part in path:
            at = at.get(part, {})
            if not isinstance(at, dict) or key.startswith("world."):
                raise _NotPlain
        if last not in at or isinstance(at[last], dict) or (path and isinstance(value, list)) or key in groups:
            raise _NotPlain
        at[last] = value
    for option in types.keys() & config.keys():
        config[option] = _typed(config[option], *types[option])
    return config


def _parsed(override: str) -> tuple[str, Any]:
    match = _OPTION.fullmatch(override)
    if match is None:
        raise _NotPlain
    key, text = match.groups()
    if text.startswith("[") and text.endswith("]"):
        return key, [_value(one) for one in text[1:-1].split(",")]
    return key, _value(text)


def _value(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    for pattern, kind in ((_WORD, str), (_WHOLE, int), (_DECIMAL, float)):
        if pattern.fullmatch(text):
            return kind(text)
    raise _NotPlain


def _file(path: str) -> dict[str, Any]:
    """Return the fields of a shipped file that has no defaults or package of its own."""
    file = Path(str(files("bbrgym"))) / "conf" / path
    if not re.fullmatch(r"[\w/]+\.yaml", path) or not file.is_file():
        raise _NotPlain
    fields: dict[str, Any] = read_yaml(file)
    if "/" in path and ("defaults" in fields or "@package" in file.read_text(encoding="utf-8")):
        raise _NotPlain
    return fields


def _worlds(choice: Any) -> dict[str, Any]:
    names = choice if isinstance(choice, list) else [choice]
    worlds = registered_worlds()
    if len(set(names)) < len(names) or not all(name in worlds for name in names):
        raise _NotPlain
    return {name: worlds[name].default_settings() for name in names}


def _typed(value: Any, kind: type, may_be_null: bool) -> Any:
    """Return a value as the option's type has it."""
    if (value is None and may_be_null) or type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise _NotPlain
