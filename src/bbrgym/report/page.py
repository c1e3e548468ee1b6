# SPDX-License-Identifier: GPL-2.0-only
"""One self-contained HTML page: sortable tables, interactive figures, nothing fetched from anywhere.

A figure is what Plotly's JavaScript draws: a list of traces and a layout, as plain values. Tables are those of the
terminal.
"""

from __future__ import annotations

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

from bbrgym.files import write_atomically
from bbrgym.version import __version__

_DIGITS = 6  # of a number in a figure: enough for any screen


@dataclass(frozen=True)
class Figure:
    """A figure for Plotly.

    Attributes:
        title: above it.
        data: the traces.
        layout: of the axes and so on; fonts and colours are the page's unless given.
        height_px: of the plot.
        note: below it.
    """

    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    height_px: int = 420
    note: str = ""


@dataclass(frozen=True)
class Code:
    """A text as it was written, that can be folded."""

    title: str
    text: str
    is_open: bool = False


Item: TypeAlias = Figure | Table | Code


@dataclass(frozen=True)
class Section:
    """A heading and what is below it."""

    title: str
    items: Sequence[Item]
    text: str = ""


@dataclass(frozen=True)
class Page:
    """What a page shows.

    Attributes:
        title: of the page.
        sections: from top to bottom.
        facts: short ones, below the title.
        command: that made it, if it was one.
    """

    title: str
    sections: Sequence[Section]
    facts: Sequence[str] = ()
    command: str | None = None


def write_page(path: Path, page: Page) -> None:
    """Writes a page, whole or not at all."""
    html = render(page)
    write_atomically(path, lambda partial: partial.write_text(html, encoding="utf-8"))


def render(page: Page) -> str:
    """The page's HTML."""
    figures = [item for section in page.sections for item in section.items if isinstance(item, Figure)]
    ids = {id(figure): f"figure-{number}" for number, figure in enumerate(figures, start=1)}
    sections = [
        {"title": section.title, "text": section.text, "parts": [_shown(item, ids) for item in section.items]}
        for section in page.sections
    ]
    plots: list[dict[str, Any]] = [
        {"id": ids[id(figure)], "data": figure.data, "layout": dict(_LAYOUT) | dict(figure.layout)}
        for figure in figures
    ]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string(_template("page.html.jinja")).render(
        page={"title": page.title, "facts": page.facts, "command": page.command, "sections": sections},
        style=Markup(_template("page.css")),
        script=Markup(_template("page.js")),
        plotly=Markup(_plotly()) if figures else "",
        figures=Markup(json.dumps(_plain(plots), allow_nan=False).replace("</", "<\\/")),
        footer=f"bbrgym {__version__} on Python {platform.python_version()}, {platform.system()}",
    )


# ---- items --------------------------------------------------------------------------------------------


def _shown(item: Item, ids: Mapping[int, str]) -> dict[str, Any]:
    """What the template needs of an item."""
    if isinstance(item, Code):
        return {"kind": "code", "title": item.title, "text": item.text, "is_open": item.is_open}
    if isinstance(item, Figure):
        return {
            "kind": "figure",
            "id": ids[id(item)],
            "title": item.title,
            "height_px": item.height_px,
            "note": item.note,
        }
    columns = [
        {"heading": _text(column.header).strip(), "is_number": column.justify == "right"} for column in item.columns
    ]
    return {"kind": "table", "title": _text(item.title or ""), "columns": columns, "rows": _rows(item)}


def _rows(table: Table) -> list[list[str]]:
    """The terminal's rows; a first cell left out because it is the one above is written out, for rows may be moved."""
    rows: list[list[str]] = []
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        first, *others = map(_text, cells)
        rows.append([first or (rows[-1][0] if rows else ""), *others])
    return rows


def _text(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


_LAYOUT: Mapping[str, Any] = {
    "font": {"family": "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, Arial, sans-serif", "size": 13},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "margin": {"l": 70, "r": 20, "t": 30, "b": 50},
    "hoverlabel": {"namelength": -1},
    "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#9aa3b0", "activecolor": "#0072b2"},
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
}


# ---- parts --------------------------------------------------------------------------------------------


def _template(name: str) -> str:
    return (resources.files("bbrgym") / "report" / "templates" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return plotly.min.js, which the build takes from the PyPI package plotly."""
    return _template("plotly.min.js").replace("</script", "<\\/script")


def _plain(value: Any) -> Any:
    """What JSON can hold: arrays as lists, numbers of a few digits, null for what is no number."""
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
