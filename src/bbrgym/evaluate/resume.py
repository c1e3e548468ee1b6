# SPDX-License-Identifier: GPL-2.0-only
"""Compares the request of an evaluation, or of a like command, with the one that a run folder was made for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bbrgym.errors import ConfigError
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.evaluate.records import FIXED, EvaluationFolder
from bbrgym.runs.run_folder import RunFolder
from bbrgym.schema import shortened, shown
from bbrgym.worlds import check_no_programs

_FREE = ("jobs", "threads")  # the records do not depend on these options,
_FREE_OF_WORLDS = ("isolation", "timeout_s")  # nor on these of a world
_MAY_GROW = ("variants", "agent", "seeds", "draws")
_ABSENT = object()


def check_same_evaluation(config: Mapping[str, Any], folder: EvaluationFolder) -> None:
    """Compare a request with the one of a run folder; it may have more variants, agents, seeds or draws.

    Raises:
        ConfigError: names the option that differs otherwise, or config.yaml cannot be read.
    """
    stored = folder.read_request(lambda stored: _check_known(stored, config))
    check_same_config(config, stored, "evaluation", folder, _MAY_GROW)


def check_same_config(
    config: Mapping[str, Any], stored: Mapping[str, Any], what: str, folder: RunFolder, may_grow: Sequence[str] = ()
) -> None:
    """Compare a request with the stored one of ``what`` a folder holds, in all that the records depend on.

    The options in ``may_grow`` may have more now.

    Raises:
        ConfigError: names the option that differs.
    """
    for name in dict.fromkeys((*config, *stored)):
        now, was = config.get(name, _ABSENT), stored.get(name, _ABSENT)
        if name not in _FREE and not (name in may_grow and _holds(now, was)):
            _check_same(name, now, was, what, folder)


def resumed_config(config: Mapping[str, Any], given: Sequence[str], folder: EvaluationFolder) -> dict[str, Any]:
    """Return the request of a run folder, with the number of jobs and the settings of worlds that are given now.

    Args:
        config: content of config.yaml for the options given now, the others at their defaults.
        given: keys of the options given now, such as ``seeds`` or ``scenario.link.rate_mbps``.
        folder: that holds a config.yaml.

    Raises:
        ConfigError: names an option that is given and differs, or one that is not and would run code; or config.yaml
            cannot be read.
    """
    resumed = folder.read_request(lambda stored: _check_known(stored, config))
    for key in given:
        *path, name = key.split(".")
        holder = _select(resumed, path)
        free = _FREE_OF_WORLDS if path[:1] == ["world"] else () if path else _FREE
        if isinstance(holder, dict) and name in free:
            holder[name] = _select(config, [*path, name])
        else:
            now, was = _select(config, [*path, name]), _select(resumed, [*path, name])
            _check_same(key, now, was, "evaluation", folder)
    _check_nothing_found(resumed, {key.partition(".")[0] for key in given}, folder)
    return resumed


def _check_nothing_found(resumed: Mapping[str, Any], given: Collection[str], folder: EvaluationFolder) -> None:
    """Check that a request runs no code that only its run folder names."""
    settings = parse_settings({name: value for name, value in resumed.items() if name not in ("scenario", "agent")})
    if "world" not in given:
        check_no_programs(settings.world)
    if "agent" not in given and resumed.get("agent") != FIXED:
        from bbrgym.evaluate.agent_option import check_no_code  # with agents, which presets do not need

        check_no_code(resumed.get("agent"))
    if settings.trust and "trust" not in given:
        raise ConfigError(
            f"trust: is true in {str(folder.path)!r}, so its agents may run code; if you trust them, give trust=true"
        )


def _check_known(stored: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    for name in stored:
        if name not in config:
            raise ConfigError(f"{shortened(name)}: is not a field of an evaluation")
    if "scenario" not in stored:
        raise ConfigError("scenario: is missing")
    return stored


def _holds(now: Any, was: Any) -> bool:
    """Return whether a value is as large as the former one, or a list has all its items."""
    if isinstance(now, list) and isinstance(was, list):
        return all(one in now for one in was)
    return isinstance(now, int) and isinstance(was, int) and now >= was


def _select(config: Any, path: Sequence[str]) -> Any:
    for part in path:
        if isinstance(config, Mapping):
            config = config.get(part, _ABSENT)
        elif isinstance(config, list) and part.isdigit() and int(part) < len(config):
            config = config[int(part)]
        else:
            return _ABSENT
    return config


def _check_same(key: str, now: Any, was: Any, what: str, folder: RunFolder) -> None:
    if isinstance(now, Mapping) and isinstance(was, Mapping):
        if key == "world":
            _check_same("world", list(now), list(was), what, folder)
        for name in dict.fromkeys((*now, *was)):
            if not (key.startswith("world.") and name in _FREE_OF_WORLDS):
                _check_same(f"{key}.{name}", now.get(name, _ABSENT), was.get(name, _ABSENT), what, folder)
    elif now != was:
        one, other = ("not given" if value is _ABSENT else shown(value) for value in (now, was))
        raise ConfigError(
            f"{key}: is {one}, was {other} in the {what} that {str(folder.path)!r} holds; expected the same, or a new "
            f"output_dir"
        )
