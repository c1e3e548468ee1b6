# SPDX-License-Identifier: GPL-2.0-only
"""Types of a command's options, as OmegaConf's, made from the validated models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from bbrgym.errors import ConfigError
from bbrgym.schema import shown

if TYPE_CHECKING:
    from omegaconf import DictConfig

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def plain_types(models: Sequence[type[BaseModel]]) -> dict[str, tuple[type, bool]]:
    """Return the type of each field that is a number, a text or true or false, and whether it may be null."""
    found = {}
    for model in models:
        for name, about in model.model_fields.items():
            parts = [_bare(one) for one in get_args(about.annotation) or (about.annotation,)]
            kinds = [one for one in parts if one is not type(None)]
            if len(kinds) == 1 and kinds[0] in _NAMES:
                found[name] = (kinds[0], len(kinds) < len(parts))
    return found


def type_text(kind: type, may_be_null: bool) -> str:
    """Return a type in words."""
    return _NAMES[kind] + (", or null" if may_be_null else "")


def give_types(config: DictConfig, models: Sequence[type[BaseModel]]) -> None:
    """Give the options that are plain fields of models their types. Raises ConfigError: a value has another type."""
    from omegaconf import (
        BooleanNode,
        FloatNode,
        IntegerNode,
        OmegaConf,
        StringNode,
        open_dict,
        read_write,
    )  # see overrides
    from omegaconf.errors import OmegaConfBaseException

    nodes: Any = {int: IntegerNode, float: FloatNode, bool: BooleanNode, str: StringNode}
    types = {name: found for name, found in plain_types(models).items() if name in config}
    for name, (kind, null) in types.items():
        if OmegaConf.is_interpolation(config, name) or OmegaConf.is_missing(config, name):
            continue
        value = config[name]
        if kind is int and isinstance(value, str) and value.startswith("+"):
            continue  # so many more; the command knows than what
        whole = int(value) if kind is int and isinstance(value, float) and value.is_integer() else value
        try:
            node = nodes[kind](whole, is_optional=null)
        except OmegaConfBaseException as error:
            raise ConfigError(f"{name}: is {shown(value)}, expected {type_text(kind, null)}") from error
        with read_write(config), open_dict(config):
            config[name] = node


def _bare(kind: Any) -> Any:
    return _bare(get_args(kind)[0]) if get_origin(kind) is Annotated else kind
