# SPDX-License-Identifier: GPL-2.0-only
"""Self-contained HTML pages of sortable tables and interactive figures; a page fetches nothing.

Figures are drawn by Plotly's JavaScript. The page holds it, and what it draws, compressed: browsers from 2023 on unpack
them. Tables are those of the terminal.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import jinja2
import numpy as np
from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from bbrgym.report.figure_spec import FigureSpec
from bbrgym.report.plotly_renderer import render_figure
from bbrgym.runs.atomic_files import write_text
from bbrgym.version import __version__

_LEVEL = 4  # of gzip: half of the time of the highest, for a page that is 3 % larger
_DIGITS = 6  # of a number in a figure: enough for any screen


@dataclass(frozen=True)
class Code:
    """A preformatted text that a click folds and unfolds."""

    title: str
    text: str


Item: TypeAlias = FigureSpec | Table | Code


@dataclass(frozen=True)
class Section:
    """A heading, a text and the items below."""

    title: str
    items: Sequence[Item]
    text: str = ""


@dataclass(frozen=True)
class Page:
    """Contents of a page."""

    title: str
    sections: Sequence[Section]  # from top to bottom
    facts: Sequence[str] = ()  # short texts below the title
    command: str | None = None  # command line that made the page. Default: none is shown

    @property
    def figures(self) -> list[FigureSpec]:
        """All figures, from top to bottom."""
        return [item for section in self.sections for item in section.items if isinstance(item, FigureSpec)]


def write_page(path: Path, page: Page) -> None:
    """Write a page, whole or not at all."""
    write_text(path, render_page(page))


def render_page(page: Page) -> str:
    """Return a page's HTML."""
    plots: list[dict[str, Any]] = []
    sections = [
        {"title": section.title, "text": section.text, "parts": [_part(item, plots) for item in section.items]}
        for section in page.sections
    ]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(_template("page.html.jinja")).render(
        page={"title": page.title, "facts": page.facts, "command": page.command, "sections": sections},
        style=Markup(_template("page.css")),
        script=Markup(_template("page.js")),
        plotly=_packed(_template("plotly.min.js")) if plots else "",
        figures=_packed(json.dumps(_plain(plots), allow_nan=False, separators=(",", ":"))) if plots else "",
        footer=f"bbrgym {__version__} on Python {platform.python_version()}, {platform.system()}",
    )


# ---- items --------------------------------------------------------------------------------------------


def _part(item: Item, plots: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an item for the template; a figure's plot is appended to ``plots``."""
    if isinstance(item, Code):
        return {"kind": "code", "title": item.title, "text": item.text}
    if isinstance(item, FigureSpec):
        plot, name = render_figure(item), f"figure-{len(plots) + 1}"
        plots.append({"id": name, "data": plot.data, "layout": plot.layout})
        about = {"title": item.title, "note": item.note, "is_folded": item.is_folded}
        return {"kind": "figure", "id": name, "height_px": plot.height_px, **about}
    columns = [
        {"heading": _text(column.header).strip(), "is_number": column.justify == "right"} for column in item.columns
    ]
    return {"kind": "table", "title": _text(item.title or ""), "columns": columns, "rows": _rows(item)}


def _rows(table: Table) -> list[list[str]]:
    """Return the terminal's rows; an empty first cell repeats the one above, since sorting moves rows."""
    rows: list[list[str]] = []
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        first, *others = map(_text, cells)
        rows.append([first or (rows[-1][0] if rows else ""), *others])
    return rows


def _text(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


# ---- parts --------------------------------------------------------------------------------------------


def _template(name: str) -> str:
    return (resources.files("bbrgym") / "report" / "templates" / name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    """Return a text compressed by gzip, in base64; equal texts give equal ones."""
    return base64.b64encode(gzip.compress(text.encode(), _LEVEL, mtime=0)).decode("ascii")


def _plain(value: Any) -> Any:
    """Return a value fit for JSON: arrays as lists, numbers of a few digits, null for NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else None
