# SPDX-License-Identifier: GPL-2.0-only
"""The shipped scenarios and distributions, and the fields in a file as written, without the models of either."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from bbrgym.errors import ConfigError, ScenarioError
from bbrgym.untrusted_files import read_yaml

SHIPPED_PREFIX = "bbrgym:"

VARIABLES = "variables"
"""Field that only a distribution has, see `bbrgym.scenario.distribution`."""

MIX = "mix"
"""Field of a distribution that is a mix of others."""


def scenario_names() -> list[str]:
    """Return the names of the shipped scenarios, sorted.

    Example:
        >>> import bbrgym
        >>> "rtt_fairness" in bbrgym.scenario_names()
        True
    """
    return [name for name, fields in shipped().items() if not is_drawn(fields)]


def distribution_names() -> list[str]:
    """Return the names of the shipped distributions, sorted.

    Example:
        >>> import bbrgym
        >>> "wan_mix" in bbrgym.distribution_names()
        True
    """
    return [name for name, fields in shipped().items() if is_drawn(fields)]


@cache
def shipped() -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of each shipped scenario and distribution by its name."""
    return {path.stem: read_fields(path) for path in sorted(folder().glob("*.yaml"))}


def is_drawn(fields: Mapping[str, Any]) -> bool:
    """Return whether fields are those of a distribution: with `variables`, or a `mix`."""
    return VARIABLES in fields or MIX in fields


def role_of(fields: Mapping[str, Any]) -> Any:
    """Return the role in a flow's fields. Default: fixed if the flow names a congestion control."""
    return fields.get("role", "fixed" if "cc" in fields else "tuned")


def folder() -> Path:
    """Return the folder of the shipped files."""
    return Path(str(resources.files("bbrgym") / "conf" / "scenario"))


def read_fields(path: Path) -> dict[str, Any]:
    """Return the fields in a file, unchecked. Raises ScenarioError: it cannot be read, or holds no mapping."""
    try:
        values = read_yaml(path)
    except ConfigError as error:
        raise ScenarioError("", str(error)) from error
    if not isinstance(values, dict):
        raise ScenarioError("", f"{str(path)!r} holds no mapping, expected the fields of a scenario")
    fields = {str(key): value for key, value in values.items()}
    fields.setdefault("name", path.stem)
    link = fields.get("link")
    for wire in (link, _field(link, "reverse")):
        _find_beside(path.parent, wire, "trace_path")
        _find_beside(path.parent, _field(wire, "delay_trace"), "path")
    return fields


def _field(fields: object, name: str) -> object:
    return fields.get(name) if isinstance(fields, dict) else None


def _find_beside(folder: Path, fields: object, name: str) -> None:
    """Make a relative path in some fields one from the folder of the scenario's file."""
    named = _field(fields, name)
    if isinstance(fields, dict) and isinstance(named, str) and not named.startswith(SHIPPED_PREFIX):
        fields[name] = str(folder / named)
