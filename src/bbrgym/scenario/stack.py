# SPDX-License-Identifier: GPL-2.0-only
"""The stack of a sender: facts of algorithm and sockets, and the presets that give each fact a value.

The facts are declared in cc/stack.def and world/socket.def; this module reads both from the compiled controllers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from pydantic import ConfigDict, model_validator

import bbrgym._cc as _cc
from bbrgym.errors import nearest
from bbrgym.schema import FieldProblem, Model, shown

FactValue = bool | int | str


@dataclass(frozen=True)
class StackFact:
    """A fact of a sender's stack."""

    name: str  # unique name, with its unit if it has one
    layer: str  # ``algorithm`` (cc/stack.def) or ``socket`` (world/socket.def)
    kind: str  # ``flag``, ``choice``, ``number``, or ``size``: a number or a name
    choices: list[str]  # names that a choice or a size allows
    unit: str  # unit of a number or size
    low: int  # smallest number allowed
    high: int  # largest number allowed
    presets: Mapping[str, FactValue]  # value in each preset, by the preset's name
    meaning: str  # what it says of the stack
    source: str  # kernel release, RFC or file

    def check(self, value: Any) -> FactValue:
        """Return a value of the fact, a whole float as an integer.

        Raises:
            FieldProblem: the value is not allowed.
        """
        if self.kind == "flag":
            if not isinstance(value, bool):
                raise FieldProblem(self.name, f"is {shown(value)}, expected true or false")
            return value
        if self.kind == "choice":
            if value not in self.choices:
                raise FieldProblem(self.name, f"is {shown(value)}, expected one of {', '.join(self.choices)}")
            return str(value)
        names = ", ".join(self.choices)
        if self.kind == "size" and isinstance(value, str) and value in self.choices:
            return value
        is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
        if not is_whole or not self.low <= value <= self.high:
            or_name = f", or one of {names}" if names else ""
            raise FieldProblem(
                self.name,
                f"is {shown(value)}, expected a whole number from {self.low} to {self.high} ({self.unit}){or_name}",
            )
        return int(value)


#: The names of the presets, the default first.
STACK_PRESETS: tuple[str, ...] = tuple(_cc.stack_presets())

#: Every fact by name, the algorithm's first.
STACK_FACTS: Mapping[str, StackFact] = MappingProxyType({row["name"]: StackFact(**row) for row in _cc.stack_facts()})


class SenderStack(Model):
    """The stack of a sender: a preset's name, or a mapping of ``preset`` and of facts that differ from the preset.

    Attributes:
        preset: gives every fact that is not named a value. Default: ``linux-6``; of a flow, the scenario's stack.
    """

    model_config = ConfigDict(extra="allow")

    preset: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"preset": value}
        if not isinstance(value, Mapping | SenderStack):
            raise FieldProblem("", f"is {shown(value)}, expected a preset's name or a mapping of facts")
        return value

    @model_validator(mode="after")
    def _check(self) -> SenderStack:
        if self.preset is not None and self.preset not in STACK_PRESETS:
            raise FieldProblem("preset", f"is {shown(self.preset)}, expected one of {', '.join(STACK_PRESETS)}")
        for name, value in self.overrides.items():
            if name not in STACK_FACTS:
                raise FieldProblem(
                    name, f"is not a fact of a stack; {nearest(name, ['preset', *STACK_FACTS], 'docs/stacks.md')}"
                )
            self.overrides[name] = STACK_FACTS[name].check(value)
        return self

    @property
    def overrides(self) -> dict[str, FactValue]:
        """Facts that are named, by name."""
        return self.__pydantic_extra__ or {}

    def over(self, base: SenderStack | None) -> SenderStack:
        """Return this stack with every fact given: from the stack's preset, or from ``base``. Default: linux-6."""
        whole = _preset(self.preset or STACK_PRESETS[0]) if self.preset is not None or base is None else base
        if not self.overrides and whole.preset is not None:  # to check all facts again is a third of a draw's time
            return whole
        preset = whole.preset or STACK_PRESETS[0]
        return SenderStack.model_validate({"preset": preset, **whole.overrides, **self.overrides})


@cache
def _preset(name: str) -> SenderStack:
    """Return a stack with every fact as in a preset."""
    facts = {fact: row.presets[name] for fact, row in STACK_FACTS.items()}
    return SenderStack.model_validate({"preset": name, **facts})
