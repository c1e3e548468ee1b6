# SPDX-License-Identifier: GPL-2.0-only
"""Values out of JSON that strangers wrote, where any may be of another type than expected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bbrgym.paths.samples import NAN, LogProblem


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of a list; nothing for anything else."""
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def number(value: Any) -> float:
    """Return a number as a float, and NaN for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    return float(value) if is_number else NAN


def line_mappings(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the mapping of each line; the last line may be cut short.

    Raises:
        LogProblem: another line is not JSON.
    """
    lines = text.splitlines()
    for index, line in enumerate(lines, start=1):
        try:
            yield mapping(json.loads(line))
        except (ValueError, RecursionError):
            if index < len(lines):
                raise LogProblem(f"line {index} is not JSON") from None
