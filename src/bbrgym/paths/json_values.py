# SPDX-License-Identifier: GPL-2.0-only
"""Values out of JSON that strangers wrote, where any may be of another type than expected."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from bbrgym.paths.samples import NAN, LogProblem

_VALUE = re.compile(r"[^\s\x1e]")
_NEXT = re.compile(r"\n\x1e?[{\[]")  # a value that begins a line
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?([eE][-+]?\d{1,2})?")


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping unchanged, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the mappings of a list; nothing for anything else."""
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, dict))


def number(value: Any) -> float:
    """Return a number, or one in quotes, as a float; NaN for anything else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    return float(value) if is_number else NAN


def iso_s(value: Any) -> float:
    """Return the time since 1970 of a text in ISO 8601, in UTC by default, and NaN for anything else."""
    try:
        time = datetime.fromisoformat(str(value).removesuffix(" UTC").replace(",", "."))
        return time.replace(tzinfo=time.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return NAN


def json_values(text: str) -> Iterator[Any]:
    """Yield the values of JSON that stand one behind the other, and those of lists; the last one may be cut short.

    Raises:
        LogProblem: something before the last one is not JSON.
    """
    decode, at = json.JSONDecoder().raw_decode, 0
    while (begin := _VALUE.search(text, at)) is not None:
        at = begin.start()
        try:
            value, at = decode(text, at)
        except (ValueError, RecursionError):
            if _NEXT.search(text, at) is not None:
                line = text.count("\n", 0, at) + 1
                raise LogProblem(f"line {line} is not JSON") from None
            return
        yield from value if isinstance(value, list) else (value,)
