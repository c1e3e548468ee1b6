# SPDX-License-Identifier: GPL-2.0-only
"""Compose a command's configuration from conf/ and the overrides of its command line, in Hydra's grammar.

Additions to Hydra: ``scenario=``, ``agent=``, ``logger=``, ``rollouts=`` and ``launcher=`` also take a file, and fields
under ``scenario.``, ``tunables.``, ``env.``, ``action.``, ``agent.`` and ``launcher.`` need no ``+`` if the file does
not have them, since the validated models know all fields. In a scenario a range of a distribution, or a mapping of
another ``kind``, replaces the former value; Hydra would merge mappings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from bbrgym.errors import ConfigError, nearest, one_line
from bbrgym.scenario.distribution import is_range
from bbrgym.scenario.files import is_scenario_file, read_scenario
from bbrgym.scenario.untrusted_files import read_yaml
from bbrgym.worlds import registered_worlds

# The validated models check the fields under these.
_OPEN = ("scenario", "tunables", "env", "action", "reward", "agent", "launcher")
_WORLDS = "world"  # the group whose choices are the registered worlds
_LISTS = (_WORLDS,)  # groups of which several may be chosen
_FILES = ("scenario", "agent", "logger", "rollouts", "launcher")  # groups that take a file too
_ALSO = {"agent": "; fixed, oracle and random need no training: bbrgym evaluate takes them"}
_FILE_CONFIG = "file-of-the-command-line"


def compose_config(name: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration ``conf/<name>.yaml`` with overrides applied, as plain values.

    Raises:
        ConfigError: names the override or key that is wrong.
        ScenarioError: the scenario cannot be read.
    """
    conf = Path(str(resources.files("bbrgym") / "conf"))
    primary = OmegaConf.load(conf / f"{name}.yaml")
    groups = _groups(primary)
    nested = {key for key, value in primary.items() if isinstance(value, DictConfig)}
    is_open = tuple(f"{key}." for key in _OPEN if key in groups or key in nested)
    _store_worlds()
    prepared = [_prepare(override, conf, groups, is_open) for override in overrides]
    known = _keys(primary, prepared, conf)
    for override in prepared:
        if not override.key_or_group.startswith(is_open):
            _refuse_unknown(override, known)
    # Hydra would take an option for the group of the same name that another command has.
    others = {path.name for path in conf.iterdir() if path.is_dir()} | {_WORLDS}
    values = [one for one in prepared if one.key_or_group in others - set(groups)]
    in_scenario = [one for one in prepared if _is_in_scenario(one)]
    try:
        with initialize_config_dir(str(conf), version_base="1.3"):
            for_hydra = [one for one in prepared if one not in values and one not in in_scenario]
            config = compose(name, overrides=[one.input_line or "" for one in for_hydra])
        for override in in_scenario:
            _set(config, override.key_or_group, override.value())
        plain: Any = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        plain |= {one.key_or_group: one.value() for one in values}
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        reason = _one_line(error) + (f" ({_one_line(error.__cause__)})" if error.__cause__ else "")
        raise ConfigError(f"cannot compose {' '.join(overrides)}: {reason}") from error
    return {str(key): value for key, value in plain.items()}


def _groups(primary: Any) -> dict[str, Any]:
    """Return the config groups of a command, and the default of each."""
    entries = [entry for entry in primary.get("defaults", []) if isinstance(entry, DictConfig)]
    return {str(group): choice for entry in entries for group, choice in entry.items()}


def _prepare(text: str, conf: Path, groups: Mapping[str, Any], is_open: tuple[str, ...]) -> Override:
    override = parse_override(text)
    key = override.key_or_group
    if override.type is OverrideType.CHANGE and key.startswith(is_open):
        return parse_override(f"++{text}")
    if override.type is OverrideType.CHANGE and key in groups:
        return parse_override(_group_override(key, override.value(), conf))
    return override


def parse_override(text: str) -> Override:
    """Parse an override of a command line.

    Raises:
        ConfigError: it is no override.
    """
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise ConfigError(f"{text!r} is no override like scenario.link.rate_mbps=50: {_one_line(error)}") from error


def key_of(text: str) -> str:
    """Return the key that an override gives a value, as written: with ``+`` or ``~``."""
    return parse_override(text).get_key_element()


def override_of(key: str, value: str) -> str:
    """Return the override that gives an option a text, quoted if it would mean something else."""
    plain = f"{key}={value}"
    try:
        if OverridesParser.create().parse_override(plain).value() == value:
            return plain
    except HydraException:
        pass  # the grammar has no such value without quotes
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{key}='{quoted}'"


def _is_in_scenario(override: Override) -> bool:
    """Return whether an override gives one field of the scenario a value."""
    is_value = override.type is not OverrideType.DEL and not override.is_sweep_override()
    return is_value and override.key_or_group.startswith("scenario.")


def _set(config: DictConfig, key: str, value: Any) -> None:
    """Merge a mapping into a mapping of the same kind; any other value, or a range, replaces the former one."""
    before = OmegaConf.select(config, key)
    is_merged = isinstance(before, DictConfig) and isinstance(value, Mapping)
    if is_merged and (
        is_range(before) or is_range(value) or value.get("kind", before.get("kind")) != before.get("kind")
    ):
        is_merged = False
    OmegaConf.update(config, key, value, merge=is_merged, force_add=True)


def _group_override(group: str, choice: Any, conf: Path) -> str:
    """Return the override of a group; a file is first stored as a configuration of Hydra's."""
    options = sorted(registered_worlds() if group == _WORLDS else (path.stem for path in (conf / group).glob("*.yaml")))
    if group in _FILES and isinstance(choice, str) and choice not in options and is_scenario_file(choice):
        node = read_scenario(choice) if group == "scenario" else _read_options(group, choice)
        ConfigStore.instance().store(group=group, name=_FILE_CONFIG, node=node)
        return f"{group}={_FILE_CONFIG}"
    is_list = group in _LISTS and isinstance(choice, list)
    for one in choice if is_list else [choice]:
        if one not in options:
            also = (", or a file (.yaml)" if group in _FILES else "") + _ALSO.get(group, "")
            raise ConfigError(f"{group}: is {one!r}; {nearest(str(one), options)}{also}")
    if not is_list:
        return f"{group}={choice}"
    if not choice or len(set(choice)) < len(choice):
        raise ConfigError(f"{group}: is {choice!r}, expected at least one of {', '.join(options)}, each once")
    return f"{group}=[{','.join(choice)}]"


def _read_options(group: str, path: str) -> dict[str, Any]:
    options = read_yaml(Path(path))
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise ConfigError(f"{group}: {path!r} is no mapping of options")
    return options


def _keys(primary: Any, overrides: Sequence[Override], conf: Path) -> list[str]:
    """Return the keys of a configuration: its own and those of the chosen options of its groups."""
    keys = [str(key) for key in primary if key != "defaults"]
    keys += [f"{key}.{field!s}" for key in keys if isinstance(primary[key], DictConfig) for field in primary[key]]
    chosen = {override.key_or_group: override.value() for override in overrides}
    for group, default in _groups(primary).items():
        keys.append(group)
        choice = chosen.get(group, default)
        for option in choice if isinstance(choice, list) else [choice]:
            keys += _keys_of_option(group, str(option), conf)
    return keys


def _store_worlds() -> None:
    """Store the choices of the group ``world``: the registered worlds with their default settings."""
    for name, spec in registered_worlds().items():
        ConfigStore.instance().store(
            group=_WORLDS, name=name, node=spec.default_settings(), package=f"{_WORLDS}.{name}"
        )


def _keys_of_option(group: str, option: str, conf: Path) -> list[str]:
    if group == _WORLDS and option in registered_worlds():
        settings = registered_worlds()[option].default_settings()
        own = [f"world.{option}.options.{name}" for name in settings.get("options", {})]
        return [*(f"world.{option}.{name}" for name in settings), *own]
    path = conf / group / f"{option}.yaml"
    if not path.exists():  # a scenario's file: its fields are checked later
        return []
    package = re.match(r"# @package (\S+)", path.read_text(encoding="utf-8"))
    return [f"{package[1] if package else group}.{field!s}" for field in OmegaConf.load(path)]


def _refuse_unknown(override: Override, known: list[str]) -> None:
    key = override.key_or_group
    if key not in known:
        options = [name for name in known if not name.startswith("scenario.")]
        raise ConfigError(f"{key}: is no option; {nearest(key, options)}")


def _one_line(error: BaseException) -> str:
    return one_line(error).split(" See https://")[0]
