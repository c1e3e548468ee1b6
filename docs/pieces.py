# SPDX-License-Identifier: GPL-2.0-only
"""Pieces of a page in Markdown."""

from __future__ import annotations


def with_block(text: str, name: str, block: str) -> str:
    """Return the text with the part between the marks of ``name`` replaced.

    Raises:
        SystemExit: the text has no such marks.
    """
    begin, end = f"<!-- begin {name}, written by docs/generate.py -->", f"<!-- end {name} -->"
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f"no {begin!r} followed by {end!r}")
    return f"{before}{begin}\n\n{block}\n\n{end}{after}"


def code(text: str) -> str:
    return f"`{text}`"


def plain(value: float) -> str:
    return f"{value:.10g}"
