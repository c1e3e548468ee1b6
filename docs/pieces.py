# SPDX-License-Identifier: GPL-2.0-only
"""Pieces of a page in Markdown."""

from __future__ import annotations

NOTE = "<!-- Written by docs/generate.py from the code; `make docs` writes it anew. -->"


def page(title: str, *parts: str) -> str:
    return "\n\n".join([NOTE, f"# {title}", *(part.rstrip("\n") for part in parts)]) + "\n"


def with_block(text: str, name: str, block: str) -> str:
    """Return the text with the part between the marks of ``name`` replaced."""
    begin, end = f"<!-- begin {name}, written by docs/generate.py -->", f"<!-- end {name} -->"
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f"README.md has no lines '{begin}' and '{end}'")
    return f"{before}{begin}\n\n{block}\n\n{end}{after}"


def between(text: str, begin: str, end: str, block: str) -> str:
    """Return the text with the part between two marks replaced."""
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise SystemExit(f"no {begin.strip()!r} followed by {end.strip()!r}")
    return f"{before}{begin}{block}{end}{after}"


def code(text: str) -> str:
    return f"`{text}`"


def plain(value: float) -> str:
    return f"{value:.10g}"
