# SPDX-License-Identifier: GPL-2.0-only
"""Base of the validated models, and the models' errors in one sentence."""

from __future__ import annotations

import math
import numbers
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from bbrgym.errors import ConfigError, nearest


class FieldProblem(ValueError):
    """A problem with a field; the path is relative to the model that raises the problem."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


_PLAIN = {bool, float, int, str, type(None)}


def plain(value: Any) -> Any:
    """Return a value in Python's own types, recursively.

    Arrays and ranges become lists, as do other sequences except tuples; NumPy's numbers and texts Python's; mappings,
    OmegaConf's with their interpolations resolved, dictionaries; a class its import path. Anything else is returned
    unchanged, to be refused where it cannot be used.

    Raises:
        ConfigError: an interpolation of OmegaConf cannot be resolved.
    """
    if type(value) in _PLAIN:
        return value
    if type(value) is dict:
        return {plain(name): one if type(one) in _PLAIN else plain(one) for name, one in value.items()}
    if isinstance(value, str):
        return str.__str__(value)
    omegaconf = sys.modules.get("omegaconf")  # imported by whoever has such values; it takes as long as all of this
    if omegaconf is not None and isinstance(value, omegaconf.DictConfig | omegaconf.ListConfig):
        try:
            value = omegaconf.OmegaConf.to_container(value, resolve=True)
        except omegaconf.errors.OmegaConfBaseException as error:
            raise ConfigError(" ".join(str(error).split())) from error
    if isinstance(value, Mapping):
        return {plain(name): plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    if isinstance(value, type):
        return value if "<locals>" in value.__qualname__ else f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # of NumPy, PyTorch and others
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(one) for one in value]
    return value


def is_number(value: Any) -> bool:
    """Return whether a plain value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def fits_float(value: int | float) -> bool:
    """Return whether a number is not a whole one beyond the largest float."""
    return isinstance(value, float) or abs(value) <= sys.float_info.max


def _number(value: Any) -> Any:
    """Convert NumPy's numbers to Python's; booleans and all other values pass unchanged, to be refused."""
    value = plain(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def _whole_number(value: Any) -> Any:
    """Convert numbers as `_number` does, and whole floats (2e6) to integers."""
    value = _number(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sequence(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, str):
        raise FieldProblem("", f"is {shown(value)}, expected a list: write [{shown(value)}]")
    if not isinstance(value, list | tuple):
        raise FieldProblem("", f"is {shown(value)}, expected a list")
    return tuple(value)


def shown(value: Any) -> str:
    """Return a value for error messages: the repr in one line, cut to 80 characters."""
    text = _repr(value)
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= 80 else text[:77] + "..."


def _repr(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        return f"a {type(value).__name__} of too many digits"


def shortened(name: object) -> str:
    """Return a name for error messages, cut to 40 characters, since any file may have given the name."""
    text = " ".join(str(name).split())
    return text if len(text) <= 40 else text[:37] + "..."


def shown_array(values: object) -> str:
    """Return an array for error messages: the repr in one line."""
    return " ".join(_repr(values).split())


def argument(name: str, value: Any, kind: type, allowed: str, low: int | None = None, high: float = math.inf) -> Any:
    """Return an argument in Python's own types.

    Args:
        name: of the argument, for the error.
        value: given.
        kind: `float`, `int`, `bool`, `str`, or `list` for names.
        allowed: for the error, e.g. ``are whole numbers from 1``.
        low: smallest number allowed. Default: as `high`, any that fits its kind.
        high: largest number allowed.

    Raises:
        ConfigError: it is of another kind, or too small or too large; a bool is not a number.
    """
    value = plain(value)
    if kind is list and isinstance(value, str):
        raise ConfigError(f"{name}: {shown(value)}, allowed {allowed}: write [{shown(value)}]")
    is_right = (
        is_number(value) and (isinstance(value, int) if kind is int else fits_float(value))
        if kind in (float, int)
        else isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
        if kind is list
        else isinstance(value, kind)
    )
    if not is_right or (low is not None and not low <= value <= high):
        raise ConfigError(f"{name}: {shown(value)}, allowed {allowed}")
    return value


def _path_text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


PathText = Annotated[str, BeforeValidator(_path_text)]
Float = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole_number)]
Positive = Annotated[Float, Field(gt=0)]
NotNegative = Annotated[Float, Field(ge=0)]
Share = Annotated[Float, Field(ge=0, le=1)]
Count = Annotated[Whole, Field(ge=1)]

T = TypeVar("T")
List = Annotated[tuple[T, ...], Field(strict=False), BeforeValidator(_sequence)]


class Model(BaseModel):
    """Base of the validated models: refuses unknown fields, NaN, infinities and values of another type.

    Values of NumPy, OmegaConf and such count as Python's own, see `plain`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _in_plain_types(cls, fields: Any) -> Any:
        return plain(fields) if isinstance(fields, Mapping) else fields


ModelT = TypeVar("ModelT", bound=Model)


def validated(model: type[ModelT], fields: Any, prefix: str = "") -> ModelT:
    """Return a model with these fields.

    Args:
        model: class of the model.
        fields: values by name.
        prefix: of the fields in errors, e.g. ``agent.``.

    Raises:
        ConfigError: names a field, its value and what is allowed.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        path, problem = first_problem(error, model, prefix)
        raise ConfigError(f"{prefix}{path}: {problem}") from None


# ---- pydantic's errors as sentences ---------------------------------------------------------------------

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
_MOST_PROBLEMS = 10  # shown of one validation
_TAGGED = {"loss", "acks", "app", "last_hop"}  # after these pydantic's location names the kind as well


def first_problem(error: ValidationError, model: type[BaseModel], prefix: str = "") -> tuple[str, str]:
    """Return the path of the first problem, and the description of all problems, at most ten.

    Args:
        error: of the validation.
        model: validated.
        prefix: of the paths of the problems after the first, e.g. ``agent.``.
    """
    # A misspelt field comes before the missing one that it leaves behind.
    errors = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    (path, problem), *others = (_translate(one, model) for one in errors[:_MOST_PROBLEMS])
    sentences = [problem, *(f"{prefix}{other}: {what}" for other, what in others)]
    hidden = len(errors) - len(sentences)
    return path, "; ".join(sentences) + (f"; and {hidden} more" if hidden else "")


def _translate(error: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    path = _path(error["loc"])
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    if kind == "value_error" and isinstance(context["error"], FieldProblem):
        inner = context["error"]
        return _join(path, inner.path), inner.problem
    if kind == "missing":
        return path, "is missing"
    if kind == "extra_forbidden":
        *parents, name = error["loc"]
        title, fields = _fields_at(model, tuple(parents))
        return path, f"is not a field; {nearest(shortened(name), fields, _help(model, title))}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return path, f"is {shown(value)}, expected {words} {context[key]:g}"
    if kind in _TYPES:
        return path, f"is {shown(value)}, expected {_TYPES[kind]}"
    if kind == "too_short":
        return path, f"is {shown(value)}, expected at least {context['min_length']}"
    if kind == "literal_error":
        return path, f"is {shown(value)}, expected one of {context['expected']}"
    if kind == "union_tag_invalid":
        return _join(path, "kind"), f"is {shown(context['tag'])}, expected one of {context['expected_tags']}"
    if kind == "union_tag_not_found":
        return _join(path, "kind"), f"is missing in {shown(value)}"
    if kind == "string_pattern_mismatch":
        return path, f"is {shown(value)}, expected letters, digits, '_', '.' and '-', beginning with a letter or digit"
    return path, f"is {shown(value)}: {error['msg']}"


def _help(model: type[BaseModel], title: str) -> str:
    """Return the call that shows a model, or one that it has."""
    return f"help({model.__module__}.{title})"


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for before, part in zip((None, *location), location, strict=False):
        if before not in _TAGGED:
            path = f"{path}[{part}]" if isinstance(part, int) else _join(path, shortened(part))
    return path


def _join(path: str, part: str) -> str:
    separator = "." if path and part and not part.startswith("[") else ""
    return f"{path}{separator}{part}"


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """Return the name of the model at a location and those of its fields, from the whole model's JSON schema."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    at = schema
    for part in location:
        at = _step(at, part, definitions)
    return at["title"], list(at["properties"])


def _step(schema: dict[str, Any], part: int | str, definitions: dict[str, Any]) -> dict[str, Any]:
    if "discriminator" in schema:
        target: dict[str, Any] = {"$ref": schema["discriminator"]["mapping"][part]}
    elif isinstance(part, int):
        target = schema["items"]
    elif "properties" not in schema:
        by_pattern = list(schema.get("patternProperties", {}).values())  # of names that have one
        target = by_pattern[0] if by_pattern else schema["additionalProperties"]
    else:
        target = schema["properties"][part]
    options = [option for option in target.get("anyOf", [target]) if option.get("type") != "null"]
    target = options[0]
    return definitions[target["$ref"].rsplit("/", 1)[1]] if "$ref" in target else target
