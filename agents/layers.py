# SPDX-License-Identifier: GPL-2.0-only
"""Bounds of the sizes of networks, so that one too large for any machine is an error and not a lack of memory."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from bbrgym.schema import FieldProblem, List, Whole, shown

MAX_WIDTH = 65_536
MAX_WEIGHTS = 100_000_000  # with gradients and the state of Adam 1.6 GB

Width = Annotated[Whole, Field(ge=1, le=MAX_WIDTH)]
"""Width of a layer."""

Layers = Annotated[List[Width], Field(max_length=64)]
"""Widths of the layers of a network."""


def check_widths(path: str, widths: Sequence[int]) -> None:
    """Raise FieldProblem if layers have more weights between them than any training here takes."""
    weights = sum(before * after for before, after in itertools.pairwise(widths))
    if weights > MAX_WEIGHTS:
        raise FieldProblem(
            path, f"is {shown(list(widths))}, which has {weights:.3g} weights, expected at most {MAX_WEIGHTS:.3g}"
        )


def check_argument_sizes(path: str, value: Any) -> None:
    """Raise FieldProblem if a width among arguments of a network, however nested, is too large."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            check_argument_sizes(f"{path}.{name}", one)
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            check_argument_sizes(f"{path}[{index}]", one)
        check_widths(path, [one for one in value if isinstance(one, int)])
    elif isinstance(value, int | float) and value > MAX_WIDTH:
        raise FieldProblem(path, f"is {shown(value)}, expected at most {MAX_WIDTH}")
