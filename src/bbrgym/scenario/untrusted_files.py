# SPDX-License-Identifier: GPL-2.0-only
"""Read files that strangers wrote: bounded in size and depth, regular files only, and never quoted in an error."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import yaml

from bbrgym.errors import ConfigError

MAX_YAML_BYTES = 4 * 2**20
MAX_YAML_DEPTH = 32
MAX_YAML_VALUES = 1_000_000  # after aliases are replaced by what they stand for

_Loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


class _ScenarioLoader(_Loader):  # type: ignore[misc, valid-type]
    """Plain values only: 1e6 is a number, a date is a text, and a key stands once."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        if len(set(keys)) < len(keys):
            raise yaml.constructor.ConstructorError(None, None, "a key stands twice", node.start_mark)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


_ScenarioLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_ScenarioLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+|[-+]?\d[\d_]*\.[\d_]*|[-+]?\.\d[\d_]*"),
    list("-+0123456789."),
)


def read_text(path: Path, max_bytes: int, encoding: str = "utf-8") -> str:
    """Return the text of a regular file.

    Args:
        path: of the file.
        max_bytes: most bytes that it may have.
        encoding: of the text.

    Raises:
        ConfigError: the file cannot be read, is no regular file, is too large or is not in this encoding.
    """
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(max_bytes + 1) if is_regular else b""
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read {str(path)!r}: {reason}") from error
    if not is_regular:
        raise ConfigError(f"cannot read {str(path)!r}: is no regular file")
    if len(content) > max_bytes:
        raise ConfigError(f"cannot read {str(path)!r}: has more than {max_bytes} bytes, the most allowed")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {str(path)!r}: byte {error.start} is no {encoding.upper()}") from error


def read_yaml(path: Path) -> Any:
    """Return the plain values of a YAML or JSON file.

    Raises:
        ConfigError: the file cannot be read, is no YAML, nests too deeply, has too many values, holds an
            interpolation (``${...}``) or contains itself.
    """
    text = read_text(path, MAX_YAML_BYTES)
    try:
        _refuse_depth(text)
        loader = _ScenarioLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _count_values(node, {}, path)
            values = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        twice = error.problem if error.problem == "a key stands twice" else "no YAML"
        raise ConfigError(f"cannot read {str(path)!r}: {where}{twice}") from None
    except yaml.YAMLError:
        raise ConfigError(f"cannot read {str(path)!r}: no YAML") from None
    except _TooDeep:
        raise ConfigError(f"cannot read {str(path)!r}: nests deeper than {MAX_YAML_DEPTH} levels") from None
    except ConfigError:
        raise
    except (ValueError, OverflowError, TypeError):  # a number of another base, or a key that is no plain value
        raise ConfigError(f"cannot read {str(path)!r}: a value or key is not plain") from None
    _refuse_interpolations(values, path, "")
    return values


class _TooDeep(Exception):
    pass


def _refuse_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_YAML_DEPTH:
                raise _TooDeep
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _count_values(node: Any, counts: dict[int, int], path: Path) -> int:
    """Return how many values a node has with its aliases replaced; ``counts`` holds those already known."""
    known = counts.get(id(node))
    if known is not None:
        if known < 0:
            raise ConfigError(f"cannot read {str(path)!r}: it contains itself")
        return known
    counts[id(node)] = -1
    count = 1
    if isinstance(node, yaml.CollectionNode):
        for child in node.value:
            for one in child if isinstance(child, tuple) else (child,):
                count += _count_values(one, counts, path)
    counts[id(node)] = count
    if count > MAX_YAML_VALUES:
        raise ConfigError(f"cannot read {str(path)!r}: has more than {MAX_YAML_VALUES} values, the most allowed")
    return count


def _refuse_interpolations(value: Any, path: Path, field: str) -> None:
    """Refuse ``${...}``: it would copy the environment of whoever reads the file into records."""
    if isinstance(value, str) and "${" in value:
        raise ConfigError(f"cannot read {str(path)!r}: {field or 'a value'} holds '${{', expected no interpolation")
    if isinstance(value, dict):
        for key, one in value.items():
            _refuse_interpolations(str(key), path, field)
            _refuse_interpolations(one, path, f"{field}.{key}" if field else str(key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            _refuse_interpolations(one, path, f"{field}[{index}]")
