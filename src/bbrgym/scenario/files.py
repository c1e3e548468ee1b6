# SPDX-License-Identifier: GPL-2.0-only
"""Read scenarios by name, from files and from mappings, and put variants in.

A ScenarioError names every field that is wrong, at most ten, its value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from pydantic import ValidationError

from bbrgym.errors import ScenarioError, nearest
from bbrgym.scenario.flow import Flow, check_tunables
from bbrgym.scenario.model import Scenario
from bbrgym.scenario.shipped import MIX, VARIABLES, folder, is_drawn, read_fields, shipped
from bbrgym.schema import FieldProblem, first_problem, plain, shown
from bbrgym.tunables import VARIANTS

Source: TypeAlias = str | PathLike[str] | Mapping[str, Any] | Scenario
"""Sources from which a scenario can be loaded."""


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
        if source not in shipped():
            raise ScenarioError(
                "", f"no scenario is named {shown(source)}; {nearest(source, shipped())}, or a file (.yaml)"
            )
        return read_fields(folder() / f"{source}.yaml")
    if isinstance(source, str | PathLike):
        return read_fields(Path(source))
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

    def changed(flow: Flow) -> Flow:
        if flow.role != "tuned":
            return flow
        values = {**(flow.tunables if flow.cc == variant else {}), **(tunables or {})}
        check_tunables(variant, values)
        return flow.model_copy(update={"cc": variant, "tunables": {name: float(values[name]) for name in values}})

    if variant in VARIANTS:
        try:
            return scenario.with_flows(changed)  # a tenth of the time of the way below
        except FieldProblem:
            pass  # told with its path below
    fields = scenario.model_dump()
    for flow in fields["flows"]:
        if flow["role"] == "tuned":
            kept = flow["tunables"] if flow["cc"] == variant else {}
            flow.update(cc=variant, tunables={**kept, **(tunables or {})})
    return parse_scenario(fields)
