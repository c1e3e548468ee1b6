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
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

import numpy as np
from rich.table import Table
from rich.text import Text

from bbrgym.report.figure_spec import FigureSpec
from bbrgym.report.plotly_renderer import render_figure
from bbrgym.runs.atomic_files import write_text
from bbrgym.version import __version__

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header>
<h1>$title</h1>
<p class="facts">$facts</p>$command
</header>
<main>$sections
</main>
<footer>$footer</footer>$figures
<script>$script</script>
</body>
</html>
""")
_TABLE = """
<figure class="table">
<figcaption>{title}</figcaption>
<div class="scroll">
<table class="sortable">
<thead><tr>{head}
</tr></thead>
<tbody>{body}
</tbody>
</table>
</div>
</figure>"""
_PACKED = '\n<script type="application/gzip" id="{}">{}</script>'
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
    sections = "".join(_section(section, plots) for section in page.sections)
    figures = _plain(plots)
    packed = {
        "plotly": _template("plotly.min.js"),
        "figures": json.dumps(figures, allow_nan=False, separators=(",", ":")),
    }
    return _PAGE.substitute(
        title=escape(page.title),
        facts=escape(" · ".join(page.facts)),
        command=f'\n<pre class="command"><code>{escape(page.command)}</code></pre>' if page.command else "",
        sections=sections,
        style=_template("page.css"),
        script=_template("page.js"),
        figures="".join(_PACKED.format(name, _packed(text)) for name, text in packed.items()) if plots else "",
        footer=f"bbrgym {__version__} on Python {platform.python_version()}, {platform.system()}",
    )


# ---- items --------------------------------------------------------------------------------------------


def _section(section: Section, plots: list[dict[str, Any]]) -> str:
    """Return a section's HTML; the figures' plots are appended to ``plots``."""
    text = f"\n<p>{escape(section.text)}</p>" if section.text else ""
    items = "".join(_item(item, plots) for item in section.items)
    return f"\n<section>\n<h2>{escape(section.title)}</h2>{text}{items}\n</section>"


def _item(item: Item, plots: list[dict[str, Any]]) -> str:
    if isinstance(item, Code):
        code = f"<pre><code>{escape(item.text)}</code></pre>"
        return f"\n<details>\n<summary>{escape(item.title)}</summary>\n{code}\n</details>"
    return _figure(item, plots) if isinstance(item, FigureSpec) else _table(item)


def _figure(spec: FigureSpec, plots: list[dict[str, Any]]) -> str:
    plot, name = render_figure(spec), f"figure-{len(plots) + 1}"
    plots.append({"id": name, "data": plot.data, "layout": plot.layout})
    div = f'\n<div class="plot" id="{name}" style="height: {plot.height_px}px"></div>'
    note = f'\n<p class="note">{escape(spec.note)}</p>' if spec.note else ""
    title = escape(spec.title)
    if not spec.is_folded:
        return f"\n<figure>\n<figcaption>{title}</figcaption>{div}{note}\n</figure>"
    return f'\n<details class="folded">\n<summary>{title}</summary>\n<figure>{div}{note}\n</figure>\n</details>'


def _table(table: Table) -> str:
    classes = [' class="number"' if column.justify == "right" else "" for column in table.columns]
    headings = [escape(_text(column.header).strip()) for column in table.columns]
    head = "".join(
        f'\n<th scope="col"{kind}><button type="button">{heading}</button></th>'
        for kind, heading in zip(classes, headings, strict=True)
    )
    body = "".join(
        "\n<tr>"
        + "".join(f"\n<td{kind}>{escape(cell)}</td>" for kind, cell in zip(classes, row, strict=True))
        + "\n</tr>"
        for row in _rows(table)
    )
    return _TABLE.format(title=escape(_text(table.title or "")), head=head, body=body)


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
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else None
