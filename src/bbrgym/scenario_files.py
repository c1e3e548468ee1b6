# SPDX-License-Identifier: GPL-2.0-only
"""Reads scenarios, and says in one sentence what is wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bbrgym.errors import ScenarioError, nearest
from bbrgym.scenario import FieldProblem, Scenario, shown
from bbrgym.trace import SHIPPED_PREFIX


def load_scenario(source: str | Path | Mapping[str, Any] | Scenario) -> Scenario:
    """Loads and checks a scenario.

    Args:
        source: the name of a shipped scenario (:func:`scenario_names`), a YAML or JSON file, or a mapping of the
            fields of :class:`Scenario`.

    Raises:
        ScenarioError: names the field, its value and what is allowed.
    """
    if isinstance(source, Scenario):
        return source
    return parse_scenario(read_scenario(source))


def scenario_names() -> list[str]:
    """Names of the scenarios that the package ships."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def is_scenario_file(source: str) -> bool:
    """Whether a text means a file, not the name of a shipped scenario."""
    return source.endswith((".yaml", ".yml", ".json")) or "/" in source


def read_scenario(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario as written, not yet checked; a relative trace in a file is relative to it."""
    if isinstance(source, Mapping):
        plain = OmegaConf.to_container(source, resolve=True) if OmegaConf.is_config(source) else dict(source)
        return {str(key): value for key, value in plain.items()}
    if isinstance(source, str) and not is_scenario_file(source):
        if source not in scenario_names():
            raise ScenarioError(
                "", f"no scenario is named {shown(source)}; {nearest(source, scenario_names())}, or a file (.yaml)"
            )
        return _read_file(_folder() / f"{source}.yaml")
    if isinstance(source, str | Path):
        return _read_file(Path(source))
    raise ScenarioError("", f"is {shown(source)}, expected a name, a file or a mapping")


def parse_scenario(fields: Mapping[str, Any]) -> Scenario:
    """Checks the fields of a scenario.

    Raises:
        ScenarioError: for the first thing that is wrong.
    """
    name = fields.get("name")
    try:
        return Scenario.model_validate(dict(fields))
    except ValidationError as error:
        # A misspelt field is reported before the missing one it leaves behind.
        errors = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        path, problem = _translate(errors[0])
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ScenarioError(path, problem + more, name if isinstance(name, str) else "") from None


def _folder() -> Path:
    return Path(str(resources.files("bbrgym") / "conf" / "scenario"))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        read = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, OmegaConfBaseException, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ScenarioError("", f"cannot read {str(path)!r}: {reason}") from error
    if not isinstance(read, dict):
        raise ScenarioError("", f"{str(path)!r} holds {shown(read)}, expected the fields of a scenario")
    fields = {str(key): value for key, value in read.items()}
    fields.setdefault("name", path.stem)
    link = fields.get("link")
    if isinstance(link, dict) and isinstance(link.get("trace_path"), str):
        if not link["trace_path"].startswith(SHIPPED_PREFIX):
            link["trace_path"] = str(path.parent / link["trace_path"])
    return fields


# ---- what pydantic says, in our words -----------------------------------------------------------------

_BOUNDS = {
    "greater_than": ("gt", "a number >"),
    "greater_than_equal": ("ge", "a number >="),
    "less_than": ("lt", "a number <"),
    "less_than_equal": ("le", "a number <="),
}
_TYPES = {
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller number",
    "bool_type": "true or false",
    "string_type": "a text",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of fields",
    "model_attributes_type": "a mapping of fields",
}
_TAGGED = {"loss", "app"}  # after these pydantic's location names the kind as well


def _translate(error: ErrorDetails) -> tuple[str, str]:
    path = _path(error["loc"])
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    if kind == "value_error" and isinstance(context["error"], FieldProblem):
        inner = context["error"]
        return _join(path, inner.path), inner.problem
    if kind == "missing":
        return path, "is missing"
    if kind == "extra_forbidden":
        return path, f"is no field; {nearest(str(error['loc'][-1]), _fields_at(error['loc'][:-1]))}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return path, f"is {shown(value)}, expected {words} {context[key]:g}"
    if kind in _TYPES:
        return path, f"is {shown(value)}, expected {_TYPES[kind]}"
    if kind == "literal_error":
        return path, f"is {shown(value)}, expected one of {context['expected']}"
    if kind == "union_tag_invalid":
        return _join(path, "kind"), f"is {shown(context['tag'])}, expected one of {context['expected_tags']}"
    if kind == "union_tag_not_found":
        return _join(path, "kind"), f"is missing in {shown(value)}"
    if kind == "string_pattern_mismatch":
        return path, f"is {shown(value)}, expected letters, digits, '_', '.' and '-', beginning with a letter or digit"
    return path, f"is {shown(value)}: {error['msg']}"


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for before, part in zip((None, *location), location, strict=False):
        if before not in _TAGGED:
            path = f"{path}[{part}]" if isinstance(part, int) else _join(path, part)
    return path


def _join(path: str, part: str) -> str:
    separator = "." if path and part and not part.startswith("[") else ""
    return f"{path}{separator}{part}"


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    """Names of the fields of the model at a location, found in the model's JSON schema."""
    schema = Scenario.model_json_schema()
    definitions = schema["$defs"]
    at = schema
    for part in location:
        at = _step(at, part, definitions)
    return list(at["properties"])


def _step(schema: dict[str, Any], part: int | str, definitions: dict[str, Any]) -> dict[str, Any]:
    if "discriminator" in schema:
        target: dict[str, Any] = {"$ref": schema["discriminator"]["mapping"][part]}
    elif isinstance(part, int):
        target = schema["items"]
    else:
        target = schema["properties"][part]
    options = [option for option in target.get("anyOf", [target]) if option.get("type") != "null"]
    target = options[0]
    return definitions[target["$ref"].rsplit("/", 1)[1]] if "$ref" in target else target
