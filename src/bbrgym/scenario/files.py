# SPDX-License-Identifier: GPL-2.0-only
"""Read scenarios by name, from files and from mappings, and put variants in.

A ScenarioError names every field that is wrong, at most ten, its value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from pydantic import ValidationError

from bbrgym.errors import ConfigError, ScenarioError, nearest
from bbrgym.scenario.model import Scenario
from bbrgym.scenario.traces import SHIPPED_PREFIX
from bbrgym.schema import first_problem, plain, shown
from bbrgym.untrusted_files import read_yaml

Source: TypeAlias = str | PathLike[str] | Mapping[str, Any] | Scenario
"""Sources from which a scenario can be loaded."""

VARIABLES = "variables"
"""Field that only a distribution has, see `bbrgym.scenario.distribution`."""

MIX = "mix"
"""Field of a distribution that is a mix of others."""


def load_scenario(source: Source) -> Scenario:
    """Load and check a scenario.

    Args:
        source: the name of a shipped scenario (:func:`scenario_names`), a YAML or JSON file, or a mapping of the
            fields of :class:`Scenario`.

    Raises:
        ScenarioError: names the field, its value and what is allowed.

    Example:
        >>> import bbrgym
        >>> bbrgym.load_scenario("rtt_fairness").link.rate_mbps
        100.0
        >>> flow = {"name": "mine", "rtt_ms": 40}
        >>> link = {"rate_mbps": 10, "queue": {"kind": "droptail", "size_bdp": 2}}
        >>> bbrgym.load_scenario({"duration_s": 5, "link": link, "flows": [flow]}).flows[0].rtt_ms
        40.0
    """
    if isinstance(source, Scenario):
        return source
    return parse_scenario(read_scenario(source))


def scenario_names() -> list[str]:
    """Return the names of the shipped scenarios, sorted.

    Example:
        >>> import bbrgym
        >>> "rtt_fairness" in bbrgym.scenario_names()
        True
    """
    return [name for name, is_distribution in _shipped().items() if not is_distribution]


def distribution_names() -> list[str]:
    """Return the names of the shipped distributions, sorted.

    Example:
        >>> import bbrgym
        >>> "wan_mix" in bbrgym.distribution_names()
        True
    """
    return [name for name, is_distribution in _shipped().items() if is_distribution]


@cache
def _shipped() -> Mapping[str, bool]:
    """Return the shipped names, and for each whether it is a distribution."""
    return {path.stem: is_drawn(_read_file(path)) for path in sorted(_folder().glob("*.yaml"))}


def is_drawn(fields: Mapping[str, Any]) -> bool:
    """Return whether fields are those of a distribution: with `variables`, or a `mix`."""
    return VARIABLES in fields or MIX in fields


def is_scenario_file(source: str) -> bool:
    """Return whether a text is the path of a file rather than the name of a shipped scenario."""
    return source.endswith((".yaml", ".yml", ".json")) or "/" in source


def read_scenario(source: str | PathLike[str] | Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a scenario as written, unchecked; a relative trace path is relative to the file.

    A list gives a mix of its scenarios and distributions, see `bbrgym.scenario.distribution`.
    """
    source = plain(source)
    if isinstance(source, Mapping):
        return {str(key): value for key, value in source.items()}
    if is_sequence(source):
        return {"name": MIX, MIX: [read_scenario(one) for one in source]}
    if isinstance(source, str) and not is_scenario_file(source):
        if source not in _shipped():
            raise ScenarioError(
                "", f"no scenario is named {shown(source)}; {nearest(source, _shipped())}, or a file (.yaml)"
            )
        return _read_file(_folder() / f"{source}.yaml")
    if isinstance(source, str | PathLike):
        return _read_file(Path(source))
    raise ScenarioError("", f"is {shown(source)}, expected a name, a file or a mapping")


def parse_scenario(fields: Mapping[str, Any]) -> Scenario:
    """Check the fields of a scenario."""
    name = fields.get("name")
    if is_drawn(fields):
        field = VARIABLES if VARIABLES in fields else MIX
        raise ScenarioError(
            field, "is given: a distribution, expected a scenario; a seed draws one from it", str(name or "")
        )
    try:
        return Scenario.model_validate(dict(fields))
    except ValidationError as error:
        path, problem = first_problem(error, Scenario)
        raise ScenarioError(path, problem, name if isinstance(name, str) else "") from None


def is_sequence(sources: Any) -> TypeGuard[Sequence[Any]]:
    """Return whether these are several sources in a sequence."""
    return isinstance(sources, Sequence) and not isinstance(sources, str)


def with_variant(scenario: Scenario, variant: str, tunables: Mapping[str, float] | None = None) -> Scenario:
    """Return the scenario with ``variant`` and the given tunables in every tuned flow.

    A tuned flow keeps its own tunables if its variant stays the same.
    """
    if not tunables and all(flow.cc == variant for flow in scenario.flows if flow.role == "tuned"):
        return scenario
    fields = scenario.model_dump()
    for flow in fields["flows"]:
        if flow["role"] == "tuned":
            kept = flow["tunables"] if flow["cc"] == variant else {}
            flow.update(cc=variant, tunables={**kept, **(tunables or {})})
    return parse_scenario(fields)


def _folder() -> Path:
    return Path(str(resources.files("bbrgym") / "conf" / "scenario"))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = read_yaml(path)
    except ConfigError as error:
        raise ScenarioError("", str(error)) from error
    if not isinstance(values, dict):
        raise ScenarioError("", f"{str(path)!r} holds no mapping, expected the fields of a scenario")
    fields = {str(key): value for key, value in values.items()}
    fields.setdefault("name", path.stem)
    link = fields.get("link")
    trace_path = link.get("trace_path") if isinstance(link, dict) else None
    if isinstance(link, dict) and isinstance(trace_path, str) and not trace_path.startswith(SHIPPED_PREFIX):
        link["trace_path"] = str(path.parent / trace_path)
    return fields
